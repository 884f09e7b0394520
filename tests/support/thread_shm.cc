#include "tests/support/thread_shm.h"

#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace shardlm {
namespace {

struct alignas(ShmTeam::kAlignment) Lines {
  std::byte bytes[ShmTeam::kAlignment] = {};
};

}  // namespace

ShmSegments thread_segments(int size, std::size_t slot_bytes) {
  const std::size_t bytes = ShmTeam::segment_bytes(slot_bytes);
  const std::size_t lines = bytes / sizeof(Lines);
  const auto memory = std::make_shared<std::vector<Lines>>(lines * static_cast<std::size_t>(size));
  ShmSegments segments{{}, bytes, memory};
  for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) {
    segments.base.push_back((*memory)[r * lines].bytes);
  }
  return segments;
}

void run_threads(int size, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        try {
          body(r);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

ShmOptions thread_shm_options(int size, const ThreadTeamOptions& options) {
  return {.deadlines = options.deadlines,
          .oversubscribed = size > static_cast<int>(std::thread::hardware_concurrency()),
          .departed_grace_s = 0,
          .job_ranks = options.job_ranks};
}

void run_team(int size, const std::function<void(ShmTeam&)>& body,
              const ThreadTeamOptions& options) {
  const ShmSegments segments = thread_segments(size, options.slot_bytes);
  const ShmOptions shm = thread_shm_options(size, options);
  run_threads(size, [&](int rank) {
    ShmTeam team(rank, segments, shm);
    body(team);
  });
}

}  // namespace shardlm
