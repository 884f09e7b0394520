// make_report FOLDER FILE: the report of a study's folder, for the tests of the page.
#include <exception>
#include <fstream>
#include <iostream>

#include "study/report/study_report.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: make_report FOLDER FILE\n";
    return 2;
  }
  try {
    std::ofstream file(argv[2], std::ios::binary);
    file << shardlm::study_report_html(shardlm::read_study_folder(argv[1]));
    return file.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
