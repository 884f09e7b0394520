#include "launcher/whole_file.h"

#include <fstream>
#include <system_error>

#include "base/error.h"

namespace shardlm {

namespace fs = std::filesystem;

void write_whole_file(const fs::path& path, const std::string& text, const std::string& what) {
  std::error_code ignored;  // the file says what is wrong
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), ignored);
  const fs::path half = path.string() + ".part";
  std::ofstream file(half);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(half, path, error);
  if (!file || error) {
    fail(ExitCode::resources, {.what = what + " cannot be written",
                               .where = path.string(),
                               .remedy = "give another place with --out"});
  }
}

}  // namespace shardlm
