#include "io/repeated_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace shardlm {
namespace {

[[noreturn]] void fail_system(const char* call, std::size_t bytes) {
  fail(ExitCode::resources, {.what = "memory for a repeated pattern",
                             .expected = fmt::format("{} bytes of addresses", bytes),
                             .found = fmt::format("{}: {}", call, std::strerror(errno)),
                             .remedy = "a smaller model"});
}

// The pattern in memory that can be mapped several times; closed when it has been.
class Pattern {
 public:
  explicit Pattern(std::span<const std::byte> bytes)
      : descriptor_(memfd_create("shardlm", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail_system("memfd_create", bytes.size());
    while (!bytes.empty()) {
      const ssize_t n = write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        const int reason = errno;
        close(descriptor_);
        errno = reason;
        fail_system("write", bytes.size());
      }
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  ~Pattern() { close(descriptor_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::size_t RepeatedMemory::granule() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

RepeatedMemory::RepeatedMemory(std::span<const std::byte> pattern, std::size_t bytes) {
  check(!pattern.empty() && pattern.size() % granule() == 0, "a pattern of whole pages");
  check(bytes < (std::size_t{1} << 62), "a repeated pattern's size is in range");
  const Pattern file(pattern);
  size_ = (bytes / pattern.size() + 1) * pattern.size();
  // The addresses first, then the pattern in each part of them.
  map_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map_ == MAP_FAILED) fail_system("mmap", size_);
  for (std::size_t at = 0; at < size_; at += pattern.size()) {
    if (mmap(static_cast<std::byte*>(map_) + at, pattern.size(), PROT_READ, MAP_SHARED | MAP_FIXED,
             file.descriptor(), 0) == MAP_FAILED) {
      const int reason = errno;
      munmap(map_, size_);
      errno = reason;
      fail_system("mmap", size_);
    }
  }
}

RepeatedMemory::~RepeatedMemory() { munmap(map_, size_); }

}  // namespace shardlm
