// The report of a study's folder, as a file.
#include <filesystem>

#include "launcher/study_command.h"
#include "study/report/study_report.h"
#include "study/sweep/cells_file.h"

namespace shardlm {

std::string write_study_report(const std::string& folder, const std::string& file) {
  const std::filesystem::path path =
      file.empty() ? std::filesystem::path(folder) / "report.html" : std::filesystem::path(file);
  write_whole_file(path, study_report_html(read_study_folder(folder)));
  return path.string();
}

}  // namespace shardlm
