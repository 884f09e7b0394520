#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "tools/gpu_check/kernel_checks.h"

namespace shardlm::gpu_check {
namespace {

struct Heads {
  std::int64_t n_head, head_dim;
};
// 64: on tensor cores where the type has them; 5: nothing is aligned.
constexpr std::array<Heads, 2> kHeads = {{{2, 64}, {3, 5}}};
constexpr std::int64_t kBlockTokens = 16;

/// Sequences that grow from step to step, on the host and in the back end's cache.
class GrowingSequences {
 public:
  GrowingSequences(const KernelCheck& check, const Heads& heads, std::size_t n,
                   std::int64_t most_tokens)
      : check_(check),
        heads_(heads),
        cols_(static_cast<std::size_t>(heads.n_head * heads.head_dim)),
        sequences_(n) {
    const std::int64_t each = (most_tokens + kBlockTokens - 1) / kBlockTokens;
    cache_ = check.backend.make_kv_storage(heads.n_head, heads.head_dim,
                                           each * static_cast<std::int64_t>(n), kBlockTokens);
    // Blocks dealt out in turn, backwards: neighbours in a sequence are not neighbours in memory.
    std::int32_t next = static_cast<std::int32_t>(each * static_cast<std::int64_t>(n)) - 1;
    for (std::int64_t b = 0; b < each; ++b) {
      for (Sequence& sequence : sequences_) sequence.blocks.push_back(next--);
    }
  }

  /// Sequence i gets n_rows[i] tokens; 0: it is not in the step.
  void step(const std::vector<std::int64_t>& n_rows, const char* how) {
    const std::int64_t total = std::accumulate(n_rows.begin(), n_rows.end(), std::int64_t{0});
    const DType dtype = check_.dtype();
    const auto cols = static_cast<std::int64_t>(cols_);
    std::array<std::vector<float>, 3> values;  // q, k, v
    for (std::uint32_t kind = 0; kind < 3; ++kind) {
      values[kind] = random_values(total * cols, 100 * ++seed_ + kind, dtype);
    }
    std::vector<SequenceRows> rows;
    std::vector<double> want;
    std::int64_t first = 0;
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      if (n_rows[s] == 0) continue;
      Sequence& sequence = sequences_[s];
      rows.push_back({.first_row = first,
                      .n_rows = n_rows[s],
                      .start = sequence.tokens(cols_),
                      .blocks = sequence.blocks});
      for (std::int64_t row = first; row < first + n_rows[s]; ++row) {
        sequence.append(values[1], values[2], static_cast<std::size_t>(row), cols_);
        append_expected(sequence, values[0].data() + static_cast<std::size_t>(row) * cols_, want);
      }
      first += n_rows[s];
    }
    Backend& backend = check_.backend;
    const Tensor q = put_activations(backend, total, cols, values[0]);
    const Tensor k = put_activations(backend, total, cols, values[1]);
    const Tensor v = put_activations(backend, total, cols, values[2]);
    const Tensor out = backend.allocate_activation(total, cols);
    backend.attention(q, k, v, *cache_, rows, scale(), out);
    check_.findings.near(
        check_.where() + ", attention, " + how + ", head_dim " + std::to_string(heads_.head_dim),
        get(backend, out), want, tolerance(), 1.01 * rounding(dtype));
  }

 private:
  struct Sequence {
    std::vector<float> keys, values;  // [tokens, cols]
    std::vector<std::int32_t> blocks;

    std::int64_t tokens(std::size_t cols) const {
      return static_cast<std::int64_t>(keys.size() / cols);
    }
    void append(const std::vector<float>& k, const std::vector<float>& v, std::size_t row,
                std::size_t cols) {
      const auto at = static_cast<std::ptrdiff_t>(row * cols);
      const auto end = at + static_cast<std::ptrdiff_t>(cols);
      keys.insert(keys.end(), k.begin() + at, k.begin() + end);
      values.insert(values.end(), v.begin() + at, v.begin() + end);
    }
  };

  float scale() const { return 1 / std::sqrt(static_cast<float>(heads_.head_dim)); }

  // A score's head_dim + 8 roundings of terms up to head_dim * scale, which exp makes relative
  // errors of a weight; a rounding a key; and weights rounded to the type on tensor cores.
  double tolerance() const {
    const auto head_dim = static_cast<double>(heads_.head_dim);
    std::int64_t most = 0;
    for (const Sequence& sequence : sequences_) most = std::max(most, sequence.tokens(cols_));
    const bool tensor_cores = check_.dtype() != DType::f32;
    return 2 * 0x1p-24 * (head_dim + 8) * scale() * head_dim +
           0x1p-24 * (static_cast<double>(most) + 16) +
           (tensor_cores ? rounding(check_.dtype()) : 0);
  }

  void append_expected(const Sequence& sequence, const float* q, std::vector<double>& out) const {
    const auto dim = static_cast<std::size_t>(heads_.head_dim);
    const std::size_t n = sequence.keys.size() / cols_;
    for (std::size_t head = 0; head < cols_ / dim; ++head) {
      std::vector<double> weight(n), sum(dim);
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t i = head * dim; i < (head + 1) * dim; ++i) {
          weight[p] += static_cast<double>(q[i]) * sequence.keys[p * cols_ + i] * scale();
        }
      }
      const double max = *std::max_element(weight.begin(), weight.end());
      double total = 0;
      for (double& w : weight) total += w = std::exp(w - max);
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t i = 0; i < dim; ++i) {
          sum[i] += weight[p] / total * sequence.values[p * cols_ + head * dim + i];
        }
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
  }

  const KernelCheck& check_;
  Heads heads_;
  std::size_t cols_;
  std::vector<Sequence> sequences_;
  std::unique_ptr<KvStorage> cache_;
  std::uint32_t seed_ = 0;
};

}  // namespace

void check_attention(const KernelCheck& check) {
  for (const Heads& heads : kHeads) {
    GrowingSequences sequences(check, heads, 4, 160);
    sequences.step({1, 3, 65, 130}, "prompts");
    sequences.step({1, 1, 1, 1}, "decode");  // 2, 4, 66, 131 keys: one run of keys, and two
    sequences.step({5, 0, 2, 17}, "later parts of prompts");
    sequences.step({0, 1, 0, 1}, "decode again");
  }
}

}  // namespace shardlm::gpu_check
