// GPT-2 as Hugging Face's GPT2LMHeadModel defines it: pre-LayerNorm blocks, learned positions,
// fused c_attn, tied or separate LM head.
#include <fmt/format.h>

#include <cmath>

#include "model/families.h"
#include "parallel/attention.h"
#include "parallel/lanes.h"
#include "parallel/layer_norm.h"
#include "parallel/linear.h"
#include "parallel/residual.h"
#include "parallel/shard.h"
#include "parallel/vocab.h"

namespace shardlm {
namespace {

/// What of a GPT-2 is sharded.
struct Shards {
  Shards(const ModelConfig& config, const Context& context)
      : heads(context, config.n_head,
              head_block(context.backend.precision(), context.reduction, config.head_dim())),
        mlp(context, config.n_inner, column_block(context.backend.precision(), context.reduction)),
        vocab(context, config.vocab_size) {}
  Share heads, mlp, vocab;
};

float attention_scale(const ModelConfig& config, int layer) {
  float scale = 1;
  if (config.scale_attn_weights) scale /= std::sqrt(static_cast<float>(config.head_dim()));
  if (config.scale_attn_by_inverse_layer_idx) scale /= static_cast<float>(layer + 1);
  return scale;
}

class Gpt2Block {
 public:
  Gpt2Block(const ModelConfig& config, WeightSource& weights, const Context& context,
            const Shards& shards, int layer, const std::string& name);
  void forward(Lanes& lanes, KvStorage& cache) const;
  std::size_t weight_bytes() const {
    return attn_c_attn_.weight_bytes() + attn_c_proj_.weight_bytes() + mlp_c_fc_.weight_bytes() +
           mlp_c_proj_.weight_bytes();
  }

 private:
  LayerNorm ln_1_;
  ColumnParallelLinear attn_c_attn_;
  HeadParallelAttention attention_;
  RowParallelLinear attn_c_proj_;
  LayerNorm ln_2_;
  ColumnParallelLinear mlp_c_fc_;
  ColumnParallelActivation act_;
  RowParallelLinear mlp_c_proj_;
};

Gpt2Block::Gpt2Block(const ModelConfig& c, WeightSource& weights, const Context& context,
                     const Shards& shards, int layer, const std::string& name)
    : ln_1_(context, weights, name + "ln_1", c.n_embd, c.layer_norm_epsilon),
      attn_c_attn_(context, weights, name + "attn.c_attn", c.n_embd, 3 * c.n_embd,
                   fused_qkv_columns(shards.heads.mine, c.n_head, c.head_dim())),
      attention_(context, name + "attn", shards.heads.all, c.head_dim(), attention_scale(c, layer)),
      attn_c_proj_(context, weights, name + "attn.c_proj", c.n_embd, c.n_embd,
                   scaled(shards.heads.mine, c.head_dim()), shards.heads.all.block() * c.head_dim(),
                   {{SiteKind::attn_out, layer}, name + "attn.c_proj", name + "resid_1"}),
      ln_2_(context, weights, name + "ln_2", c.n_embd, c.layer_norm_epsilon),
      mlp_c_fc_(context, weights, name + "mlp.c_fc", c.n_embd, c.n_inner, {shards.mlp.mine}),
      act_(context, c.activation, shards.mlp.all, name + "mlp.c_fc", name + "mlp.act"),
      mlp_c_proj_(context, weights, name + "mlp.c_proj", c.n_inner, c.n_embd, shards.mlp.mine,
                  shards.mlp.all.block(),
                  {{SiteKind::mlp_out, layer}, name + "mlp.c_proj", name + "resid_2"}) {}

// Lanes take turns at each sum: usually there is one, the whole step.
void Gpt2Block::forward(Lanes& lanes, KvStorage& cache) const {
  for (auto& [x, step] : lanes) {
    Tensor h = x.normed(ln_1_);                              // [T, n_embd]
    h = attention_(attn_c_attn_, h, step.sequences, cache);  // [T, local heads * head_dim]
    x.add(attn_c_proj_(h));                                  // all-reduce + bias + residual
  }
  for (auto& [x, step] : lanes) {
    Tensor h = x.normed(ln_2_);  // [T, n_embd]
    h = act_(mlp_c_fc_, h);      // [T, local columns of n_inner]
    x.add(mlp_c_proj_(h));
  }
}

class Gpt2 final : public Model {
 public:
  Gpt2(const ModelConfig& config, WeightSource& weights, const Context& context,
       const LoadProgress& progress);
  KvCache make_cache(std::int64_t n_blocks, std::int64_t block_tokens) const override;
  Tensor forward(const Step& step, KvCache& cache) const override;
  Range vocab_ids() const override { return shards_.vocab.mine; }
  std::size_t step_weight_bytes() const override;

 private:
  const Context& context_;
  ModelConfig config_;
  Shards shards_;
  Tensor wpe_;                // [n_positions, n_embd], on every rank
  VocabTable wte_, lm_head_;  // [n_embd, local ids]: one matrix when tied
  VocabParallelEmbedding embedding_;
  std::vector<std::unique_ptr<Gpt2Block>> blocks_;
  LayerNorm ln_f_;
  VocabParallelHead head_;
};

Gpt2::Gpt2(const ModelConfig& config, WeightSource& weights, const Context& context,
           const LoadProgress& progress)
    : context_(context),
      config_(config),
      shards_(config, context),
      wpe_(load_replicated(context.backend, weights,
                           weights.tensor("wpe.weight", {config.n_positions, config.n_embd}))),
      wte_(load_vocab_table(context, weights, "wte.weight", config.vocab_size, config.n_embd,
                            shards_.vocab.mine)),
      lm_head_(config.tie_word_embeddings
                   ? wte_
                   : load_vocab_table(context, weights, "lm_head.weight", config.vocab_size,
                                      config.n_embd, shards_.vocab.mine)),
      embedding_(context, wte_, shards_.vocab.mine, "embed"),
      ln_f_(context, weights, "ln_f", config.n_embd, config.layer_norm_epsilon),
      head_(context, lm_head_, shards_.vocab.all, "logits") {
  for (int i = 0; i < config.n_layer; ++i) {
    blocks_.push_back(
        std::make_unique<Gpt2Block>(config, weights, context, shards_, i, fmt::format("h.{}.", i)));
    if (progress) progress(i + 1, config.n_layer);
  }
}

KvCache Gpt2::make_cache(std::int64_t n_blocks, std::int64_t block_tokens) const {
  return KvCache(context_.backend, config_.n_layer, shards_.heads.mine.size(), config_.head_dim(),
                 n_blocks, block_tokens);
}

std::size_t Gpt2::step_weight_bytes() const {
  std::size_t bytes = head_.weight_bytes();
  for (const auto& block : blocks_) bytes += block->weight_bytes();
  return bytes;
}

Tensor Gpt2::forward(const Step& step, KvCache& cache) const {
  Tensor positions = context_.backend.allocate(step.ids.size(), config_.n_embd);
  context_.backend.gather_rows(wpe_, step.positions, positions);
  Lanes lanes(context_, step, std::move(positions));
  for (auto& [x, part] : lanes) x.add(embedding_(part.ids));  // [T, n_embd]
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i]->forward(lanes, cache.layer(i));
  return head_(lanes.normed(ln_f_), step.logit_rows);  // [logit rows, local ids]
}

}  // namespace

std::unique_ptr<Model> make_gpt2(const ModelConfig& config, WeightSource& weights,
                                 const Context& context, const LoadProgress& progress) {
  return std::make_unique<Gpt2>(config, weights, context, progress);
}

}  // namespace shardlm
