// The smallest model with everything that varies from step to step, and texts for it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tests/gpu/backend/device_backend.h"

namespace shardlm::cuda {

/// A model of one attention layer: logits = attention(embedding + position) table^T.
class OneLayer {
 public:
  static constexpr std::int64_t kIds = 40, kWidth = 32, kHeads = 2, kBlock = 16;

  explicit OneLayer(CudaBackend& backend)
      : backend_(backend),
        table_(make_matrix(backend, random_matrix(kIds, kWidth, 1), true)),
        positions_(upload(backend, random_matrix(600, kWidth, 2))),
        cache_(backend.make_kv_storage(kHeads, kWidth / kHeads, 80, kBlock)) {}

  Tensor forward(const Step& step) {
    ++forwards;
    Tensor x = backend_.allocate(step.ids.size(), kWidth);
    backend_.gather_rows(positions_, step.positions, x);
    const Tensor e = backend_.allocate(step.ids.size(), kWidth);
    backend_.embed(*table_, step.ids, 0, e);
    backend_.update_residual({&e, 1}, {.residual = &x});
    const Tensor h = backend_.allocate(step.ids.size(), kWidth);
    backend_.attention(x, x, x, *cache_, step.sequences, 0.3F, h);
    const Tensor picked = backend_.allocate(step.logit_rows.size(), kWidth);
    backend_.gather_rows(h, step.logit_rows, picked);
    Tensor logits = backend_.allocate(step.logit_rows.size(), kIds);
    backend_.matmul(picked, *table_, nullptr, logits);
    return logits;
  }

  int forwards = 0;

 private:
  CudaBackend& backend_;
  std::unique_ptr<WeightMatrix> table_;
  Tensor positions_;
  std::unique_ptr<KvStorage> cache_;
};

/// A few sequences that grow by a token a step; each owns 20 blocks.
class Texts {
 public:
  explicit Texts(std::size_t n) {
    for (std::size_t s = 0; s < n; ++s) {
      std::vector<std::int32_t> blocks;
      for (int b = 0; b < 20; ++b)
        blocks.push_back(static_cast<std::int32_t>(b * 4 + (s + static_cast<std::size_t>(b)) % 4));
      blocks_.push_back(blocks);
    }
  }
  /// The next step of the first `n` sequences: `tokens` new ones each.
  Step next(std::size_t n, std::int64_t tokens, bool repeatable) {
    ids_.clear();
    positions_.clear();
    rows_.clear();
    logit_rows_.clear();
    for (std::size_t s = 0; s < n; ++s) {
      rows_.push_back({.first_row = std::ssize(ids_),
                       .n_rows = tokens,
                       .start = length_[s],
                       .blocks = blocks_[s]});
      for (std::int64_t i = 0; i < tokens; ++i) {
        positions_.push_back(static_cast<std::int32_t>(length_[s]));
        ids_.push_back(static_cast<std::int32_t>((length_[s]++ * 7 + static_cast<std::int64_t>(s)) %
                                                 OneLayer::kIds));
      }
      logit_rows_.push_back(static_cast<std::int32_t>(ids_.size() - 1));
    }
    return {.ids = ids_,
            .positions = positions_,
            .sequences = rows_,
            .logit_rows = logit_rows_,
            .repeatable = repeatable};
  }

 private:
  std::vector<std::vector<std::int32_t>> blocks_;
  std::array<std::int64_t, 4> length_{};
  std::vector<std::int32_t> ids_, positions_, logit_rows_;
  std::vector<SequenceRows> rows_;
};

/// The logits of a prompt and `steps` further tokens of `n` sequences.
inline std::vector<std::vector<float>> run(CudaBackend& backend, OneLayer& model, std::size_t n,
                                           int steps, std::int64_t prompt = 5) {
  Texts texts(n);
  std::vector<std::vector<float>> logits;
  Tensor last;
  for (int i = 0; i <= steps; ++i) {
    const Step step = texts.next(n, i == 0 ? prompt : 1, true);
    last = Tensor();
    last = backend.run_pass(step, [&](const Step& s) { return model.forward(s); });
    EXPECT_GE(last.rows(), static_cast<std::int64_t>(n));
    logits.push_back(download(backend, last.row_range(0, static_cast<std::int64_t>(n))).data);
  }
  return logits;
}

}  // namespace shardlm::cuda
