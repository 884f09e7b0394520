// A ragged batch over a blocked cache, on the host and on the device, and attention by plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "backend/cuda/kernels/attention.h"
#include "tests/gpu/kernels/device.h"

namespace shardlm::cuda {

struct CaseSequence {
  std::int32_t n_rows = 1;
  std::int32_t start = 0;    ///< tokens in the cache before the step
  std::int32_t padding = 0;  ///< rows of no sequence before it
  std::uint32_t seed = 0;    ///< of its tokens' numbers; 0: its index + 1
};

struct CaseShape {
  DType activations = DType::f32, kv = DType::f32;
  std::int64_t n_head = 2, head_dim = 16, block_tokens = 32;
  DeviceMatrix::Layout layout = {};
  float range = 1;  ///< of q and k; v is in [-1, 1]
};

/// Numbers of the case are a function of (seed of the sequence, position), so that a sequence is
/// the same in every batch and however it is cut into steps.
class AttentionCase {
 public:
  AttentionCase(const CaseShape& shape, const std::vector<CaseSequence>& sequences)
      : shape_(shape), sequences_(sequences) {
    make_tokens();
    place_sequences();
    fill_rows();
    fill_cache();
  }

  const CaseShape& shape() const { return shape_; }
  std::int64_t n_rows() const { return std::ssize(row_sequence_); }
  std::int64_t cols() const { return shape_.n_head * shape_.head_dim; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }
  const std::vector<SequenceSlot>& slots() const { return slots_; }

  std::int64_t max_tokens() const {
    std::int64_t most = 0;
    for (const CaseSequence& s : sequences_)
      most = std::max<std::int64_t>(most, s.start + s.n_rows);
    return most;
  }
  std::int64_t first_row(std::size_t sequence) const { return slots_[sequence].first_row; }

  /// What each row must be: softmax over its sequence's tokens up to its own, in double precision.
  std::vector<double> expected() const {
    std::vector<double> out;
    for (std::int64_t row = 0; row < n_rows(); ++row) {
      for (std::int64_t head = 0; head < shape_.n_head; ++head) append_expected(row, head, out);
    }
    return out;
  }

  /// Error of a row in float32: of a score, head_dim + 8 roundings of terms that sum up to `terms`
  /// at most (exp turns it into the relative error of a weight), and a rounding for each key. With
  /// weights rounded to `weights`, half its unit more.
  double tolerance(std::optional<DType> weights = std::nullopt) const {
    const double head_dim = static_cast<double>(shape_.head_dim);
    const double terms = scale() * head_dim * shape_.range * shape_.range;
    const double of_score = 0x1p-24 * (head_dim + 8) * terms;
    const double of_sums = 0x1p-24 * (static_cast<double>(max_tokens()) + 16);
    return 2 * of_score + of_sums + (weights ? rounding(*weights) : 0) +
           smallest(shape_.activations);
  }

  /// The cache, NaN wherever no token has been put.
  struct Device {
    DeviceArray<std::byte> keys, values;
    DeviceMatrix q, k, v, out;
    DeviceArray<SequenceSlot> slots;
    DeviceArray<std::int32_t> blocks, row_sequence;
    DeviceArray<PrefillTile> tiles;
    AttentionBatch batch;
    KvView cache;
  };
  Device on_device() const {
    const auto tiles = prefill_tiles(slots_, n_rows());
    const auto rows = [&](const std::vector<float>& values) {
      return DeviceMatrix(shape_.activations, n_rows(), cols(), values, shape_.layout);
    };
    Device d{DeviceArray(bytes_of(keys_)),
             DeviceArray(bytes_of(values_)),
             rows(q_),
             rows(k_),
             rows(v_),
             DeviceMatrix(shape_.activations, n_rows(), cols(), shape_.layout),
             DeviceArray(slots_),
             DeviceArray(blocks_),
             DeviceArray(row_sequence_),
             DeviceArray(tiles),
             {},
             {}};
    d.batch = {d.slots.data(), std::ssize(slots_), d.blocks.data(),  d.row_sequence.data(),
               n_rows(),       d.tiles.data(),     std::ssize(tiles)};
    d.cache = {d.keys.data(),       d.values.data(), shape_.n_head,
               shape_.block_tokens, shape_.head_dim, shape_.kv};
    return d;
  }

  /// Both caches as they must be after append_kv(): the step's rows at their places, in the type of
  /// the cache, and nothing else changed.
  void expect_appended(const Device& device) const {
    for (const bool is_value : {false, true}) {
      auto want = is_value ? values_ : keys_;
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        for (std::int32_t i = 0; i < slots_[s].n_rows; ++i) {
          put_token(s, slots_[s].start + i, is_value, want);
        }
      }
      EXPECT_EQ((is_value ? device.values : device.keys).read(), bytes_of(want));
    }
  }

 private:
  std::uint32_t seed(std::size_t s) const {
    return sequences_[s].seed != 0 ? sequences_[s].seed : static_cast<std::uint32_t>(s + 1);
  }

  /// q (kind 0), k (1) or v (2) of a token, as the activations hold it.
  std::vector<float> token(std::size_t s, std::int32_t position, std::uint32_t kind) const {
    return random_values(cols(), seed(s) * 7919 + static_cast<std::uint32_t>(position) * 3 + kind,
                         shape_.activations, kind == 2 ? 1 : shape_.range);
  }
  /// Keys or values of a token, as the cache holds them.
  const std::vector<float>& cached_token(std::size_t s, std::int32_t position,
                                         bool is_value) const {
    return (is_value ? cached_values_ : cached_keys_)[s][static_cast<std::size_t>(position)];
  }
  void make_tokens() {
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      auto& keys = cached_keys_.emplace_back();
      auto& values = cached_values_.emplace_back();
      for (std::int32_t p = 0; p < sequences_[s].start + sequences_[s].n_rows; ++p) {
        keys.push_back(rounded(token(s, p, 1)));
        values.push_back(rounded(token(s, p, 2)));
      }
    }
  }
  std::vector<float> rounded(std::vector<float> values) const {
    std::byte element[4];
    for (float& value : values) {
      store_element(shape_.kv, value, element);
      value = load_element(shape_.kv, element);
    }
    return values;
  }

  void place_sequences() {
    std::int32_t row = 0, n_blocks = 0;
    const auto tokens = static_cast<std::int32_t>(shape_.block_tokens);
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      const CaseSequence& sequence = sequences_[s];
      row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(sequence.padding), -1);
      row += sequence.padding;
      slots_.push_back({row, sequence.n_rows, sequence.start, n_blocks});
      row += sequence.n_rows;
      n_blocks += (sequence.start + sequence.n_rows + tokens - 1) / tokens;
      row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(sequence.n_rows),
                           static_cast<std::int32_t>(s));
    }
    // Blocks in no order, two of them nobody's.
    n_blocks_ = n_blocks + 2;
    blocks_.resize(static_cast<std::size_t>(n_blocks_));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(3));
  }

  void fill_rows() {
    for (std::int64_t row = 0; row < n_rows(); ++row) {
      const std::int32_t s = row_sequence_[static_cast<std::size_t>(row)];
      for (std::uint32_t kind = 0; kind < 3; ++kind) {
        auto& rows = kind == 0 ? q_ : kind == 1 ? k_ : v_;
        if (s < 0) {
          rows.insert(rows.end(), static_cast<std::size_t>(cols()), std::nanf(""));
          continue;
        }
        const auto values = token(static_cast<std::size_t>(s), position(row), kind);
        rows.insert(rows.end(), values.begin(), values.end());
      }
    }
  }

  void fill_cache() {
    keys_.assign(static_cast<std::size_t>(n_blocks_ * shape_.block_tokens * cols()), std::nanf(""));
    values_ = keys_;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      for (std::int32_t p = 0; p < slots_[s].start; ++p) {
        put_token(s, p, false, keys_);
        put_token(s, p, true, values_);
      }
    }
  }

  void put_token(std::size_t s, std::int32_t position, bool is_value,
                 std::vector<float>& cache) const {
    const auto& values = cached_token(s, position, is_value);
    const std::int64_t block = blocks_[static_cast<std::size_t>(slots_[s].block_table_offset +
                                                                position / shape_.block_tokens)];
    for (std::int64_t head = 0; head < shape_.n_head; ++head) {
      for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
        const std::int64_t at = ((block * shape_.n_head + head) * shape_.block_tokens +
                                 position % shape_.block_tokens) *
                                    shape_.head_dim +
                                i;
        cache[static_cast<std::size_t>(at)] =
            values[static_cast<std::size_t>(head * shape_.head_dim + i)];
      }
    }
  }

  std::int32_t position(std::int64_t row) const {
    const SequenceSlot& slot =
        slots_[static_cast<std::size_t>(row_sequence_[static_cast<std::size_t>(row)])];
    return static_cast<std::int32_t>(slot.start + row - slot.first_row);
  }

  void append_expected(std::int64_t row, std::int64_t head, std::vector<double>& out) const {
    const std::int32_t s = row_sequence_[static_cast<std::size_t>(row)];
    std::vector<double> sum(static_cast<std::size_t>(shape_.head_dim), 0.0);
    if (s >= 0) {
      std::vector<double> score;
      for (std::int32_t p = 0; p <= position(row); ++p) {
        const auto& key = cached_token(static_cast<std::size_t>(s), p, false);
        double dot = 0;
        for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
          const auto at = static_cast<std::size_t>(head * shape_.head_dim + i);
          dot += static_cast<double>(q_[static_cast<std::size_t>(row * cols()) + at]) * key[at];
        }
        score.push_back(dot * scale());
      }
      const double max = *std::max_element(score.begin(), score.end());
      double total = 0;
      for (double& weight : score) total += weight = std::exp(weight - max);
      for (std::int32_t p = 0; p <= position(row); ++p) {
        const auto& value = cached_token(static_cast<std::size_t>(s), p, true);
        const double weight = score[static_cast<std::size_t>(p)] / total;
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] += weight * value[static_cast<std::size_t>(head * shape_.head_dim) + i];
        }
      }
    }
    out.insert(out.end(), sum.begin(), sum.end());
  }

  std::vector<std::byte> bytes_of(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * element_bytes(shape_.kv), std::byte{0xff});
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;  // as cleared memory
      store_element(shape_.kv, values[i], bytes.data() + i * element_bytes(shape_.kv));
    }
    return bytes;
  }

  CaseShape shape_;
  std::vector<CaseSequence> sequences_;
  std::vector<SequenceSlot> slots_;
  std::vector<std::int32_t> row_sequence_, blocks_;
  std::int64_t n_blocks_ = 0;
  std::vector<std::vector<std::vector<float>>> cached_keys_,
      cached_values_;  // [sequence][position]
  std::vector<float> q_, k_, v_, keys_, values_;
};

/// Rows [first, first + n) of a result.
inline std::vector<float> rows_of(const std::vector<float>& all, std::int64_t first, std::int64_t n,
                                  std::int64_t cols) {
  return {all.begin() + first * cols, all.begin() + (first + n) * cols};
}

}  // namespace shardlm::cuda
