#include "model/plan.h"

namespace shardlm {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

// What every rank holds in full: positions, LayerNorms, and the biases added after a reduction.
std::int64_t replicated_elements(const ModelConfig& c) {
  const std::int64_t layer = 2 * 2 * c.n_embd + 2 * c.n_embd;  // ln_1, ln_2; two c_proj biases
  return c.n_positions * c.n_embd + c.n_layer * layer + 2 * c.n_embd;
}

std::int64_t sharded_elements(const ModelConfig& c, const RankShare& share) {
  const std::int64_t width = share.heads.size() * c.head_dim();
  const std::int64_t attention = 3 * width * (c.n_embd + 1) + width * c.n_embd;
  const std::int64_t mlp = share.mlp_columns.size() * (c.n_embd + 1 + c.n_embd);
  const std::int64_t tables = c.tie_word_embeddings ? 1 : 2;
  return c.n_layer * (attention + mlp) + tables * share.vocab_rows.size() * c.n_embd;
}

}  // namespace

std::vector<RankShare> shard_plan(const ModelConfig& config, int ranks) {
  std::vector<RankShare> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    RankShare share{.heads = Partition(config.n_head, ranks).of(rank),
                    .mlp_columns = Partition(config.n_inner, ranks).of(rank),
                    .vocab_rows = Partition(config.vocab_size, ranks).of(rank)};
    share.weight_bytes = kFloat * (replicated_elements(config) + sharded_elements(config, share));
    share.kv_bytes_per_token = kFloat * 2 * config.n_layer * share.heads.size() * config.head_dim();
    shares.push_back(share);
  }
  return shares;
}

std::vector<CollectiveCount> step_collectives(const ModelConfig& config, int ranks,
                                              std::int64_t tokens) {
  if (ranks == 1) return {};
  const std::int64_t bytes = tokens * config.n_embd * kFloat;
  return {{"embed", "all_reduce", 1, bytes},
          {"attn_out", "all_reduce", config.n_layer, bytes},
          {"mlp_out", "all_reduce", config.n_layer, bytes}};
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
