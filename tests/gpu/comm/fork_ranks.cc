#include "tests/gpu/comm/fork_ranks.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/shm_transport.h"

#if defined(SHARDLM_EMU_TSAN)
// Children start threads of their own, which ThreadSanitizer otherwise refuses after a fork.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:atexit_sleep_ms=10"; }
#endif

namespace shardlm::cuda {
namespace {

ShmSegments shared_segments(int size) {
  ShmSegments segments;
  segments.bytes_each = (ShmTeam::segment_bytes() + 4095) / 4096 * 4096;
  for (int r = 0; r < size; ++r) {
    void* memory = mmap(nullptr, segments.bytes_each, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    segments.base.push_back(static_cast<std::byte*>(memory));
  }
  return segments;
}

int run_child(int rank, const ShmSegments& segments, const Deadlines& deadlines,
              const ForkedBody& body) {
  try {
    const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
    ShmOptions options;
    options.deadlines = deadlines;
    options.oversubscribed = true;
    options.departed_grace_s = 0;
    const int code = body(rank, make_shm_communicator(rank, segments, *cpu, options));
    return testing::Test::HasFailure() ? kTestFailed : code;
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace

std::vector<int> fork_ranks(int size, const Deadlines& deadlines, const ForkedBody& body) {
  const ShmSegments segments = shared_segments(size);
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int code = run_child(rank, segments, deadlines, body);
      std::exit(code);  // not _exit: coverage is written and leaks are looked for at the end
    }
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  for (std::byte* memory : segments.base) munmap(memory, segments.bytes_each);
  return codes;
}

}  // namespace shardlm::cuda
