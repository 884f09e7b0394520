#include "io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(ExitCode::model_files, {.what = what, .where = path});
}

std::string reason(int error) { return std::generic_category().message(error); }

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) refuse(path, "cannot be examined: " + reason(errno));
  return status;
}

void require_regular(const struct stat& status, const std::string& path) {
  if (S_ISDIR(status.st_mode)) refuse(path, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  MappedFile file;  // complete at each step, so that an exception releases what there is
  file.path_ = path.string();
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) refuse(file.path_, "cannot be opened: " + reason(errno));
  const struct stat status = status_of(file.descriptor_, file.path_);
  require_regular(status, file.path_);
  file.changed_ = status.st_mtim;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
    if (data == MAP_FAILED) refuse(file.path_, "cannot be mapped: " + reason(errno));
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = size;
  }
  swap(file);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { swap(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  MappedFile taken(std::move(other));
  swap(taken);
  return *this;
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
}

void MappedFile::check_unchanged() const {
  const struct stat status = status_of(descriptor_, path_);
  const bool same_time =
      status.st_mtim.tv_sec == changed_.tv_sec && status.st_mtim.tv_nsec == changed_.tv_nsec;
  if (std::cmp_equal(status.st_size, size_) && same_time) return;
  fail(ExitCode::model_files,
       {.what = "the file was changed while it was in use",
        .expected = fmt::format("{} bytes", size_),
        .found = fmt::format("{} bytes{}", status.st_size, same_time ? "" : ", a new time"),
        .where = path_,
        .remedy = "replace a model's files by renaming, not by writing into them"});
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void refuse_pointer_text(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 1024));
  if (!text.starts_with("version ") || text.find("\noid ") == text.npos ||
      text.find("\nsize ") == text.npos) {
    return;
  }
  fail(ExitCode::model_files,
       {.what = "is a Git large-file pointer, not the file itself",
        .found = fmt::format("{} bytes of text", bytes.size()),
        .where = file,
        .remedy = "fetch the real file (git lfs pull, or download it again)"});
}

}  // namespace shardlm
