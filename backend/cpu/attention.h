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
  /// The same for at most one row a sequence, in which a thread has heads of its own: calls
  /// `project(first_head, end_head, worker)` to make their q, k and v, then attends. One parallel
  /// region.
  template <class Project>
  void run_by_heads(const Tensor& qkv, CpuKvStorage& cache, std::span<const SequenceRows> sequences,
                    float scale, const Tensor& out, const Project& project) {
    const Tensors t = thirds(qkv);
    begin_by_heads(t, cache, sequences, out);
    threads_.parallel_for(
        cache.n_head(), 1, [&](std::int64_t first_head, std::int64_t end_head, int worker) {
          project(first_head, end_head, worker);
          attend_heads(t, cache, sequences, scale, out, first_head, end_head, worker);
        });
  }

 private:
  struct Tensors {
    Tensor q, k, v;
  };
  static Tensors thirds(const Tensor& qkv);
  void begin_by_heads(const Tensors& t, const CpuKvStorage& cache,
                      std::span<const SequenceRows> sequences, const Tensor& out);
  void attend_heads(const Tensors& t, const CpuKvStorage& cache,
                    std::span<const SequenceRows> sequences, float scale, const Tensor& out,
                    std::int64_t first_head, std::int64_t end_head, int worker);

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
