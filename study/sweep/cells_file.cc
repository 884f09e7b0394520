#include "study/sweep/cells_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_file(const std::string& path, const std::string& what) {
  fail(ExitCode::resources, {.what = what + ": " + std::strerror(errno), .where = path});
}

int open_file(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) refuse_file(path, "cannot be opened");
  return file;
}

void write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse_file(path, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(file) != 0) refuse_file(path, "cannot be written");
}

}  // namespace

CellRecords read_cell_records(const std::filesystem::path& path) {
  CellRecords records;
  std::ifstream file(path, std::ios::binary);
  if (!file) return records;
  std::ostringstream bytes;
  if (file.peek() != std::ifstream::traits_type::eof()) bytes << file.rdbuf();
  const std::string text = bytes.str();
  std::size_t at = 0;
  for (int number = 1; at < text.size(); ++number) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      records.note = fmt::format(
          "{}: its last line, {}, was not finished when the study was "
          "killed, and is dropped",
          path.string(), number);
      break;
    }
    Json record = Json::parse(text.substr(at, end - at), nullptr, /*allow_exceptions=*/false);
    const bool whole = record.is_object() && record.value("cell", Json()).is_string() &&
                       record.value("launch", Json()).is_number_integer() &&
                       record.value("status", Json()).is_string();
    if (!whole) {
      fail(ExitCode::model_files, {.expected = "a launch, as study run writes it",
                                   .found = "a line that is none",
                                   .where = fmt::format("{}:{}", path.string(), number)});
    }
    records.lines.push_back(std::move(record));
    at = end + 1;
    records.whole_bytes = at;
  }
  return records;
}

CellsFile::CellsFile(const std::filesystem::path& folder)
    : path_((folder / "cells.jsonl").string()) {
  lock_ = open_file((folder / "lock").string(), O_RDWR);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    if (!taken) refuse_file(folder.string(), "cannot be locked");
    ::close(lock_);
    fail(ExitCode::usage, {.what = "another shardlm study is running in it",
                           .where = folder.string(),
                           .remedy = "wait for its end, or end it"});
  }
  records_ = read_cell_records(path_);
  file_ = open_file(path_, O_WRONLY | O_APPEND);
  if (!records_.note.empty() && ::ftruncate(file_, static_cast<off_t>(records_.whole_bytes)) != 0) {
    refuse_file(path_, "cannot be cut");
  }
}

CellsFile::~CellsFile() {
  if (file_ >= 0) ::close(file_);
  if (lock_ >= 0) ::close(lock_);
}

void CellsFile::append(const Json& record) {
  // What a job wrote need not be UTF-8.
  write_all(file_, record.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n', path_);
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::string beside = path.string() + ".new";
  const int file = open_file(beside, O_WRONLY | O_TRUNC);
  write_all(file, bytes, beside);
  ::close(file);
  std::filesystem::rename(beside, path);
}

}  // namespace shardlm
