#include "model/plan.h"

#include <algorithm>

#include "parallel/context.h"

namespace shardlm {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kRowAlignment = 16;  // bytes, on a GPU
constexpr std::int64_t kKeysOfARun = 128;   // decoding: a row's scratch is a head for each run
// An allowance: cuBLAS's workspace, recorded passes, connections that NCCL makes late.
constexpr std::int64_t kLibraries = std::int64_t{32} << 20;

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(bits(dtype)) / 8; }

std::int64_t padded_row(std::int64_t elements, DType dtype) {
  return (elements * bytes_of(dtype) + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

// Whichever way round the file has it.
std::int64_t padded_matrix(std::int64_t in, std::int64_t out, DType dtype) {
  return std::max(in * padded_row(out, dtype), out * padded_row(in, dtype));
}

// What every rank holds in full: positions, LayerNorms, and the biases added after a reduction.
std::int64_t replicated_elements(const ModelConfig& c) {
  const std::int64_t layer = 2 * 2 * c.n_embd + 2 * c.n_embd;  // ln_1, ln_2; two c_proj biases
  return c.n_positions * c.n_embd + c.n_layer * layer + 2 * c.n_embd;
}

std::int64_t width_of(const ModelConfig& c, const RankShare& share) {
  return share.heads.size() * c.head_dim();
}

std::int64_t tables_of(const ModelConfig& c) { return c.tie_word_embeddings ? 1 : 2; }

std::int64_t matrix_bytes(const ModelConfig& c, const RankShare& share, const Precision& p) {
  const std::int64_t layer = 4 * width_of(c, share) + 2 * share.mlp_columns.size();
  const std::int64_t tables = tables_of(c) * share.vocab_rows.size();
  const auto bytes = [](DType dtype, std::int64_t elements) {
    return static_cast<std::int64_t>(stored_bytes(dtype, static_cast<std::uint64_t>(elements)));
  };
  return bytes(p.weights, c.n_layer * layer * c.n_embd) +
         bytes(table_type(p.weights), tables * c.n_embd);
}

// Of c_attn and c_fc: cut as their columns are.
std::int64_t cut_bias_elements(const ModelConfig& c, const RankShare& share) {
  return c.n_layer * (3 * width_of(c, share) + share.mlp_columns.size());
}

std::int64_t padded_weights(const ModelConfig& c, const RankShare& share, const Precision& p) {
  const std::int64_t width = width_of(c, share);
  const std::int64_t columns = share.mlp_columns.size();
  const auto matrix = [&](std::int64_t in, std::int64_t out) {
    return padded_matrix(in, out, p.weights);
  };
  const std::int64_t layer = matrix(c.n_embd, 3 * width) + matrix(width, c.n_embd) +
                             matrix(c.n_embd, columns) + matrix(columns, c.n_embd);
  const std::int64_t table = share.vocab_rows.size() * padded_row(c.n_embd, p.weights);
  const std::int64_t biases = cut_bias_elements(c, share) * bytes_of(p.activations);
  return c.n_layer * layer + tables_of(c) * table + biases + kFloat * replicated_elements(c);
}

// What a step of so many rows has at once: stream, addend and positions in float32; normed, q, k,
// v and the heads, and the MLP's columns.
std::int64_t activation_bytes(const ModelConfig& c, const RankShare& share, const Precision& p,
                              std::int64_t rows) {
  const std::int64_t in_type = c.n_embd + 4 * width_of(c, share) + share.mlp_columns.size();
  return rows * (3 * c.n_embd * kFloat + in_type * bytes_of(p.activations));
}

}  // namespace

std::vector<RankShare> shard_plan(const ModelConfig& config, int ranks, const Precision& precision,
                                  Reduction reduction) {
  const std::int64_t heads_at_once = head_block(precision, reduction, config.head_dim());
  const std::int64_t columns_at_once = column_block(precision, reduction);
  std::vector<RankShare> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    RankShare share{.heads = Partition(config.n_head, ranks, heads_at_once).of(rank),
                    .mlp_columns = Partition(config.n_inner, ranks, columns_at_once).of(rank),
                    .vocab_rows = Partition(config.vocab_size, ranks).of(rank)};
    share.weight_bytes = kFloat * replicated_elements(config) +
                         matrix_bytes(config, share, precision) +
                         bytes_of(precision.activations) * cut_bias_elements(config, share);
    // int8 keys and values have a float32 scale for each head.
    const std::int64_t scales = precision.kv == DType::i8 ? kFloat * share.heads.size() : 0;
    share.kv_bytes_per_token =
        2 * config.n_layer * (bytes_of(precision.kv) * width_of(config, share) + scales);
    shares.push_back(share);
  }
  return shares;
}

MemoryNeed memory_need(const ModelConfig& c, const RankShare& share, const Precision& precision,
                       const JobSizes& sizes) {
  const std::int64_t runs = (c.n_positions + kKeysOfARun - 1) / kKeysOfARun;
  const std::int64_t scratch =
      sizes.logit_rows * share.heads.size() * runs * (c.head_dim() + 2) * kFloat;
  // Twice: steps that are recorded have tensors of their own; logits may be asked about again.
  const std::int64_t activations =
      activation_bytes(c, share, precision, sizes.rows) +
      activation_bytes(c, share, precision, std::min(sizes.rows, sizes.logit_rows));
  const std::int64_t logits = 2 * sizes.logit_rows * share.vocab_rows.size() * kFloat;
  return {.weights = padded_weights(c, share, precision),
          .kv = sizes.kv_tokens * share.kv_bytes_per_token,
          .workspace = activations + logits + scratch + kLibraries};
}

std::vector<CollectiveCount> step_collectives(const ModelConfig& config, int ranks,
                                              std::int64_t tokens, Reduction reduction) {
  if (ranks == 1) return {};
  const std::int64_t elements = tokens * config.n_embd, bytes = elements * kFloat;
  const std::int64_t sums = reduction == Reduction::exact ? elements * bytes_of(DType::i64) : bytes;
  return {{"embed", "all_reduce", 1, bytes},
          {"attn_out", "all_reduce", config.n_layer, sums},
          {"mlp_out", "all_reduce", config.n_layer, sums}};
}

std::int64_t total_count(const std::vector<CollectiveCount>& collectives) {
  std::int64_t total = 0;
  for (const CollectiveCount& c : collectives) total += c.count;
  return total;
}

std::int64_t total_bytes(const std::vector<CollectiveCount>& collectives) {
  std::int64_t total = 0;
  for (const CollectiveCount& c : collectives) total += c.count * c.bytes_each;
  return total;
}

}  // namespace shardlm
