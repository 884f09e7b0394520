// Causal attention of a ragged step over the block cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/attention_plan.h"
#include "backend/cpu/kv_storage.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {

/// See Backend::attention. A row has the same bits whatever stands beside it, however its sequence
/// was cut into steps and whatever the number of threads (see attention_kernel.h).
class Attention {
 public:
  explicit Attention(ThreadPool& threads)
      : threads_(threads), split_(static_cast<std::size_t>(threads.size())) {}
  void run(const Tensor& q, const Tensor& k, const Tensor& v, CpuKvStorage& cache,
           std::span<const SequenceRows> sequences, float scale, const Tensor& out);

 private:
  struct Call;
  struct Scratch;
  void append_all(const Call& call);
  void make_room(const Call& call, std::int64_t runs);
  Scratch scratch_of(const Call& call, std::int64_t part) const;
  void attend_tile(const Call& call, std::int64_t part, const PlannedTile& planned);
  void join_split(const Call& call, std::int64_t part);

  ThreadPool& threads_;
  MappedMemory scratch_;             // one piece a part
  std::int64_t scratch_floats_ = 0;  // of one part
  std::vector<PlannedTile> split_;   // [part] the tile that it begins and another one ends, if any
};

}  // namespace shardlm
