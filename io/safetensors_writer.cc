#include "io/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "io/printable.h"
#include "io/safetensors.h"

namespace shardlm {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// A file beside `target` that becomes it with commit(), and disappears without.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& target) : target_(target) {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
      path_ = target.string() + fmt::format(".tmp-{}-{}", ::getpid(), i);
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) refuse(ExitCode::usage, "cannot create a file beside it", errno);
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse(ExitCode::resources, "cannot be written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit() {
    if (::fsync(descriptor_) != 0) refuse(ExitCode::resources, "cannot be flushed to disk", errno);
    if (::close(std::exchange(descriptor_, -1)) != 0) {
      refuse(ExitCode::resources, "cannot be closed", errno);
    }
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      refuse(ExitCode::usage, "cannot be put in place", errno);
    }
    path_.clear();
    sync_folder();
  }

 private:
  // Makes the new name last through a loss of power. The file is complete already: a file system
  // that cannot flush a folder is no failure.
  void sync_folder() const {
    const auto parent = target_.parent_path();
    const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC);
    if (folder < 0) return;
    ::fsync(folder);
    ::close(folder);
  }

  [[noreturn]] void refuse(ExitCode code, const std::string& what, int error) const {
    fail(code, {.what = what + ": " + reason(error), .where = target_.string()});
  }

  std::filesystem::path target_;
  std::string path_;
  int descriptor_ = -1;
};

std::uint64_t checked_bytes(const OutTensor& tensor) {
  std::optional<std::uint64_t> bytes = sizeof(float);
  for (const std::int64_t dim : tensor.shape) {
    check(dim >= 0, "write_safetensors: negative dimension in " + printable(tensor.name));
    if (bytes) bytes = checked_mul(*bytes, static_cast<std::uint64_t>(dim));
  }
  check(bytes == tensor.data.size_bytes(),
        "write_safetensors: data do not fit the shape of " + printable(tensor.name));
  return *bytes;
}

std::string json_string(const std::string& name) {
  try {
    return nlohmann::json(name).dump();
  } catch (const nlohmann::json::exception&) {
    check(false, "write_safetensors: a name that is not UTF-8: " + printable(name));
  }
  return {};
}

// Length field, JSON and the spaces that bring the data to a multiple of 8.
std::string header(std::span<const OutTensor> tensors) {
  std::set<std::string_view> names = {"__metadata__"};
  std::string json = "{";
  std::uint64_t begin = 0;
  for (const OutTensor& tensor : tensors) {
    check(names.insert(tensor.name).second,
          "write_safetensors: name given twice or reserved: " + printable(tensor.name));
    const auto end = checked_add(begin, checked_bytes(tensor));
    check(end.has_value(), "write_safetensors: more than 2^64 bytes");
    json += fmt::format(R"({}{}:{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", json_string(tensor.name),
                        fmt::join(tensor.shape, ","), begin, *end);
    begin = *end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  check(json.size() <= kMaxSafetensorsHeader, "write_safetensors: header too long");
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

}  // namespace

void write_safetensors(const std::filesystem::path& to, std::span<const OutTensor> tensors) {
  const std::string head = header(tensors);
  PendingFile file(to);
  file.write(std::as_bytes(std::span(head)));
  for (const OutTensor& tensor : tensors) file.write(std::as_bytes(tensor.data));
  file.commit();
}

}  // namespace shardlm
