// cells.jsonl: a line for each launch that has ended, written so that no crash can lose one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace shardlm {

/// What the file held.
struct CellRecords {
  std::vector<nlohmann::ordered_json> lines;
  std::string note;  ///< that a torn last line was dropped; empty: there was none
  std::size_t whole_bytes = 0;
};

/// The finished lines of the file; none if there is no file. A last line without its end is what a
/// crash leaves, and is left out with a note. Another line that cannot be read is an
/// Error(model_files) with its number.
CellRecords read_cell_records(const std::filesystem::path& file);

/// One process writes: the folder is locked as long as this lives.
class CellsFile {
 public:
  /// Error(usage) if another process has the folder; a torn last line is cut off.
  explicit CellsFile(const std::filesystem::path& folder);
  ~CellsFile();
  CellsFile(const CellsFile&) = delete;
  CellsFile& operator=(const CellsFile&) = delete;

  const CellRecords& records() const { return records_; }
  /// One write of a whole line, and on disk when it returns. Error(resources) if it cannot be.
  void append(const nlohmann::ordered_json& record);

 private:
  std::string path_;
  int lock_ = -1, file_ = -1;
  CellRecords records_;
};

/// Writes a file beside its place and moves it there: it is never seen half.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace shardlm
