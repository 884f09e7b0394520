#include "launcher/text_input.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/error.h"

namespace shardlm {

std::string read_all(std::istream& in, const std::string& where) {
  std::string text;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  // std::cin takes an error of the C stream below it for the end.
  const bool c_error = &in == &std::cin && std::ferror(stdin) != 0;
  if (in.bad() || c_error) fail(ExitCode::usage, {.what = "cannot be read", .where = where});
  return text;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    fail(ExitCode::usage,
         {.what = "text file", .expected = "a readable file", .found = "none", .where = path});
  }
  return read_all(file, path);
}

}  // namespace shardlm
