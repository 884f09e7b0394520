#include "backend/null/null_backend.h"

#include <algorithm>

#include "backend/buffer_pool.h"
#include "backend/cpu/host_buffer.h"
#include "base/error.h"

namespace shardlm {
namespace {

class NullMatrix final : public WeightMatrix {
 public:
  NullMatrix(std::int64_t in, std::int64_t out) : in_(in), out_(out) {}
  std::int64_t in() const override { return in_; }
  std::int64_t out() const override { return out_; }
  std::size_t bytes() const override { return 0; }

 private:
  std::int64_t in_, out_;
};

class NullKvStorage final : public KvStorage {
 public:
  NullKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                std::int64_t block_tokens)
      : n_head_(n_head), head_dim_(head_dim), n_blocks_(n_blocks), block_tokens_(block_tokens) {}
  std::int64_t n_head() const override { return n_head_; }
  std::int64_t head_dim() const override { return head_dim_; }
  std::int64_t n_blocks() const override { return n_blocks_; }
  std::int64_t block_tokens() const override { return block_tokens_; }
  std::size_t bytes() const override { return 0; }

 private:
  std::int64_t n_head_, head_dim_, n_blocks_, block_tokens_;
};

/// All logits 0: the lowest allowed ids are the best.
void answer(const VocabShard& shard, const LogitQuery& query, LogitReply& reply) {
  const auto n = static_cast<double>(
      std::count_if(shard.allowed.begin(), shard.allowed.end(), [](auto a) { return a != 0; }));
  reply.first_bad_id = -1;
  reply.raw = {.max = n > 0 ? 0 : -std::numeric_limits<double>::infinity(), .sum = n};
  reply.tempered = reply.raw;
  reply.before = {};
  reply.candidates.clear();
  reply.top.clear();
  reply.target.reset();
  const std::int32_t end = shard.begin + static_cast<std::int32_t>(shard.allowed.size());
  if (shard.begin <= query.target && query.target < end) reply.target = 0.0F;
  const int most = std::max(query.n_candidates, query.n_top);
  for (std::int32_t id = shard.begin; id < end; ++id) {
    if (shard.allowed[static_cast<std::size_t>(id - shard.begin)] == 0) continue;
    const auto so_far = static_cast<int>(std::max(reply.candidates.size(), reply.top.size()));
    if (so_far == most) break;
    if (so_far < query.n_candidates) reply.candidates.push_back({.id = id});
    if (so_far < query.n_top) reply.top.push_back({.id = id});
  }
}

class NullBackend final : public Backend {
 public:
  explicit NullBackend(const Precision& precision) : precision_(precision) {}

  std::string describe() const override { return "no arithmetic"; }
  Precision precision() const override { return precision_; }
  std::size_t allocations() const override { return buffers_.allocations(); }
  std::unique_ptr<WeightMatrix> make_matrix(const MatrixSource& source) override {
    return std::make_unique<NullMatrix>(source.in, source.out);
  }
  std::unique_ptr<KvStorage> make_kv_storage(std::int64_t n_head, std::int64_t head_dim,
                                             std::int64_t n_blocks,
                                             std::int64_t block_tokens) override {
    return std::make_unique<NullKvStorage>(n_head, head_dim, n_blocks, block_tokens);
  }
  void upload(std::span<const float>, const Tensor&) override {}
  // A communicator's message: the bytes that the tensor has.
  void download(const Tensor& from, std::span<float> to) override {
    check(std::ssize(to) == from.elements(), "download: as many floats as the tensor holds");
    for (std::int64_t r = 0; r < from.rows(); ++r) {
      std::copy_n(from.row(r), from.cols(), to.data() + r * from.cols());
    }
  }
  void synchronize() override {}

  void embed(const WeightMatrix&, const Indices&, std::int32_t, const Tensor&) override {}
  void gather_rows(const Tensor&, const Indices&, const Tensor&) override {}
  void matmul(const Tensor&, const WeightMatrix&, const Tensor*, const Tensor&) override {}
  std::optional<FixedMisfit> matmul_fixed(const Tensor&, const WeightMatrix&, std::int64_t,
                                          const Tensor&) override {
    return std::nullopt;
  }
  void layer_norm(const Tensor&, const LayerNormParams&, const Tensor&) override {}
  void activate(Activation, const Tensor&) override {}
  void attention(const Tensor&, const Tensor&, const Tensor&, KvStorage&, const Sequences&, float,
                 const Tensor&) override {}
  void update_residual(std::span<const Tensor>, const ResidualUpdate&) override {}
  void query_logits(const Tensor& logits, const VocabShard& shard,
                    std::span<const LogitQuery> queries, std::span<LogitReply> replies) override {
    check(std::ssize(queries) == logits.rows() && queries.size() == replies.size(),
          "query_logits: a query and a reply for each row");
    for (std::size_t i = 0; i < queries.size(); ++i) answer(shard, queries[i], replies[i]);
  }

 private:
  // Float32 whatever the activations' type would be: what ranks send each other.
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) override {
    const DType held = dtype == DType::i64 ? DType::i64 : DType::f32;
    return Tensor(buffers_.take(static_cast<std::size_t>(rows * cols) * bits(held) / 8), rows, cols,
                  held);
  }

  Precision precision_;
  BufferPool buffers_{make_host_buffer};
};

}  // namespace

std::unique_ptr<Backend> make_null_backend(const Precision& precision) {
  return std::make_unique<NullBackend>(precision);
}

}  // namespace shardlm
