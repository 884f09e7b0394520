#include "tests/support/thread_ranks.h"

#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/transport.h"
#include "tests/support/first_error.h"
#include "tests/support/thread_messages.h"

namespace shardlm {
namespace {

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{128}); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedBytes zeroed(std::size_t bytes) {
  return AlignedBytes(new (std::align_val_t{128}) std::byte[bytes]());
}

}  // namespace

void run_ranks(int size, const std::function<void(int, Communicator&, Backend&)>& body,
               const ThreadRankOptions& options) {
  const std::size_t bytes = ShmTeam::segment_bytes(options.slot_bytes);
  std::vector<AlignedBytes> memory;
  ShmSegments segments{{}, bytes, nullptr};
  for (int r = 0; r < size; ++r) {
    memory.push_back(zeroed(bytes));
    segments.base.push_back(memory.back().get());
  }
  ShmOptions shm;
  shm.deadlines = options.deadlines;
  shm.oversubscribed = size > static_cast<int>(std::thread::hardware_concurrency());
  shm.departed_grace_s = 0;

  ThreadPost post(size, {.deadlines = options.deadlines});
  const GroupShape shape{size, 1, size};
  AlgorithmTable table = default_table(shape);
  if (!options.allreduce.empty()) table = parse_algorithm_table(options.allreduce).before(table);

  FirstError first_error;
  const auto run_rank = [&](int rank) {
    const std::unique_ptr<Backend> backend =
        make_cpu_backend(options.backend_threads, options.precision);
    TransportParts parts;
    parts.rank = rank;
    parts.size = size;
    parts.node = std::make_shared<ShmTeam>(rank, segments, shm);
    parts.messages = post.join(rank);
    parts.node_of.assign(static_cast<std::size_t>(size), 0);
    HostCommunicator comm(make_transport(std::move(parts), *backend), *backend, table,
                          options.overlap);
    try {
      body(rank, comm, *backend);
    } catch (...) {
      // Before `comm` goes and the others notice: the cause comes before its effects.
      first_error.record(std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r) threads.emplace_back(run_rank, r);
  }
  first_error.rethrow();
}

}  // namespace shardlm
