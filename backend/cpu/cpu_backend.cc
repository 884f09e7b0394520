#include "backend/cpu/cpu_backend.h"

#include <algorithm>

#include "backend/buffer_pool.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/host_buffer.h"
#include "backend/cpu/kv_storage.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/query_logits.h"
#include "backend/cpu/row_kernels.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"

namespace shardlm {
namespace {

// Below this many floats to work on, a thread is not worth waking.
constexpr std::int64_t kGrainFloats = 8 * 1024;
// Pieces in which threads share the columns of an elementwise op.
constexpr std::int64_t kPieceColumns = 1024;
constexpr std::int64_t kGrainPieces = 4;

std::int64_t rows_grain(std::int64_t cols) {
  return kGrainFloats / std::max<std::int64_t>(cols, 1) + 1;
}

const PackedMatrix& packed(const WeightMatrix& matrix) {
  const auto* found = dynamic_cast<const PackedMatrix*>(&matrix);
  check(found != nullptr, "a weight matrix of the CPU back end");
  return *found;
}

CpuKvStorage& cpu_storage(KvStorage& cache) {
  auto* found = dynamic_cast<CpuKvStorage*>(&cache);
  check(found != nullptr, "a KV storage of the CPU back end");
  return *found;
}

void check_norm(const LayerNormParams& norm, const Tensor& x, const Tensor& out) {
  check(norm.weight.elements() == x.cols() && norm.bias.elements() == x.cols(),
        "layer_norm: one weight and one bias a column");
  check(out.rows() == x.rows() && out.cols() == x.cols(), "layer_norm: out has the shape of x");
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, const Precision& precision, RowBits bits)
      : precision_(precision),
        threads_(threads),
        matmul_(threads_),
        attention_(threads_),
        logit_queries_(threads_) {
    check(precision.activations == DType::f32, "the CPU back end computes in float32");
    matmul_.allow_rounding(bits == RowBits::of_a_kernel);
    static_cast<void>(detected_cpu_features());  // now, not in the first product
  }

  void set_poll(std::function<void()> poll) override { threads_.set_poll(std::move(poll)); }
  std::string describe() const override {
    return "cpu " + describe_cpu_instructions() + " " + std::to_string(threads_.size()) +
           (threads_.size() == 1 ? " thread" : " threads");
  }

  Precision precision() const override { return precision_; }
  std::uint64_t parallel_regions() const { return threads_.runs(); }
  std::string describe_weights() const override;
  std::size_t allocations() const override { return buffers_.allocations(); }

  std::unique_ptr<WeightMatrix> make_matrix(const MatrixSource& source) override {
    const DType weights = precision_.weights;
    return std::make_unique<PackedMatrix>(source, source.vocabulary ? table_type(weights) : weights,
                                          weights_, threads_);
  }
  std::unique_ptr<KvStorage> make_kv_storage(std::int64_t n_head, std::int64_t head_dim,
                                             std::int64_t n_blocks,
                                             std::int64_t block_tokens) override {
    return std::make_unique<CpuKvStorage>(n_head, head_dim, n_blocks, block_tokens, precision_.kv);
  }

  void upload(std::span<const float> from, const Tensor& to) override;
  void download(const Tensor& from, std::span<float> to) override;
  void synchronize() override {}

  void embed(const WeightMatrix& table, const Indices& ids, std::int32_t first_id,
             const Tensor& out) override;
  void gather_rows(const Tensor& table, const Indices& ids, const Tensor& out) override;
  void matmul(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
              const Tensor& out) override {
    matmul_.run(x, packed(w), bias, std::nullopt, out);
  }
  std::optional<FixedMisfit> matmul_fixed(const Tensor& x, const WeightMatrix& w,
                                          std::int64_t block, const Tensor& out) override {
    return matmul_.run_fixed(x, packed(w), block, out);
  }
  void matmul_activate(const Tensor& x, const WeightMatrix& w, const Tensor* bias, Activation kind,
                       const Tensor& out) override {
    matmul_.run(x, packed(w), bias, kind, out);
  }
  void project_and_attend(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                          const Tensor& qkv, KvStorage& cache, const Sequences& sequences,
                          float scale, const Tensor& out) override;
  void layer_norm(const Tensor& x, const LayerNormParams& norm, const Tensor& out) override;
  void activate(Activation kind, const Tensor& x) override;
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                 const Sequences& sequences, float scale, const Tensor& out) override;
  void update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) override;
  void query_logits(const Tensor& logits, const VocabShard& shard,
                    std::span<const LogitQuery> queries, std::span<LogitReply> replies) override {
    logit_queries_.run(logits, shard, queries, replies);
  }

 private:
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) override {
    check(rows >= 0 && cols >= 0, "allocate: a tensor has no negative size");
    check(cols == 0 || rows <= (std::int64_t{1} << 50) / cols, "allocate: a size out of range");
    check(dtype == DType::f32 || dtype == DType::i64,
          "the CPU back end computes in float32 and fixed point");
    return Tensor(buffers_.take(static_cast<std::size_t>(rows * cols) * bits(dtype) / 8), rows,
                  cols, dtype);
  }

  Precision precision_;
  ThreadPool threads_;
  BufferPool buffers_{make_host_buffer};
  WeightArena weights_;
  Matmul matmul_;
  Attention attention_;
  LogitQueries logit_queries_;
};

std::string CpuBackend::describe_weights() const {
  const std::size_t bytes = weights_.bytes();
  const std::size_t huge = std::min(bytes, weights_.huge_bytes());
  return std::to_string(bytes) + " bytes of packed weights, " +
         std::to_string(bytes == 0 ? 0 : huge * 100 / bytes) + " % in huge pages";
}

void CpuBackend::upload(std::span<const float> from, const Tensor& to) {
  check(std::ssize(from) == to.elements(), "upload: as many floats as the tensor holds");
  for (std::int64_t r = 0; r < to.rows(); ++r) {
    std::copy_n(from.data() + r * to.cols(), to.cols(), to.row(r));
  }
}

void CpuBackend::download(const Tensor& from, std::span<float> to) {
  check(std::ssize(to) == from.elements(), "download: as many floats as the tensor holds");
  for (std::int64_t r = 0; r < from.rows(); ++r) {
    std::copy_n(from.row(r), from.cols(), to.data() + r * from.cols());
  }
}

void CpuBackend::embed(const WeightMatrix& table, const Indices& ids, std::int32_t first_id,
                       const Tensor& out) {
  const PackedMatrix& w = packed(table);
  check(out.rows() == ids.size() && out.cols() == w.in(), "embed: out is [ids, inputs]");
  const auto gather = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* to = out.row(t);
      const std::int64_t id = std::int64_t{ids.host[static_cast<std::size_t>(t)]} - first_id;
      if (id < 0 || id >= w.out()) {
        std::fill_n(to, w.in(), 0.0F);
        continue;
      }
      w.read_output(id, to);
    }
  };
  threads_.parallel_for(out.rows(), rows_grain(w.in()), gather);
}

void CpuBackend::gather_rows(const Tensor& table, const Indices& ids, const Tensor& out) {
  check(out.rows() == ids.size() && out.cols() == table.cols(),
        "gather_rows: out is [ids, columns of the table]");
  for (std::int64_t t = 0; t < out.rows(); ++t) {
    const std::int64_t id = ids.host[static_cast<std::size_t>(t)];
    check(id >= 0 && id < table.rows(), "gather_rows: an id of the table");
    std::copy_n(table.row(id), table.cols(), out.row(t));
  }
}

void CpuBackend::layer_norm(const Tensor& x, const LayerNormParams& norm, const Tensor& out) {
  check_norm(norm, x, out);
  const auto rows = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t t = begin; t < end; ++t) layer_norm_row(x.row(t), norm, x.cols(), out.row(t));
  };
  threads_.parallel_for(x.rows(), rows_grain(x.cols()), rows);
}

void CpuBackend::activate(Activation kind, const Tensor& x) {
  const std::int64_t pieces = (x.cols() + kPieceColumns - 1) / kPieceColumns;
  const auto work = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % pieces * kPieceColumns;
      activate_row(kind, std::min(kPieceColumns, x.cols() - first), x.row(unit / pieces) + first);
    }
  };
  threads_.parallel_for(x.rows() * pieces, kGrainPieces, work);
}

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                           const Sequences& sequences, float scale, const Tensor& out) {
  attention_.run(q, k, v, cpu_storage(cache), sequences.host, scale, out);
}

// For few rows a barrier counts: a thread projects its heads' q, k and v and attends with them, if
// the heads can be shared out evenly (within an eighth).
void CpuBackend::project_and_attend(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                                    const Tensor& qkv, KvStorage& cache, const Sequences& sequences,
                                    float scale, const Tensor& out) {
  const PackedMatrix& c_attn = packed(w);
  CpuKvStorage& storage = cpu_storage(cache);
  const std::int64_t heads = storage.n_head(), dim = storage.head_dim(), width = heads * dim;
  const std::int64_t most = (heads + threads_.size() - 1) / threads_.size();
  const bool even = 8 * (most * threads_.size() - heads) <= heads;
  const bool one_row_each =
      std::ranges::all_of(sequences.host, [](const SequenceRows& s) { return s.n_rows <= 1; });
  if (threads_.size() == 1 || !even || !one_row_each || x.rows() > Matmul::kFewRows ||
      !Matmul::can_cut(c_attn, dim)) {
    return Backend::project_and_attend(x, w, bias, qkv, cache, sequences, scale, out);
  }
  check(c_attn.out() == 3 * width && x.cols() == c_attn.in(), "project_and_attend: [in, 3 width]");
  attention_.run_by_heads(qkv, storage, sequences.host, scale, out,
                          [&](std::int64_t first, std::int64_t end, int worker) {
                            for (std::int64_t third = 0; third < 3; ++third) {
                              matmul_.run_part(x, c_attn, bias, qkv, third * width + first * dim,
                                               third * width + end * dim, worker);
                            }
                          });
}

void CpuBackend::update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) {
  check(!addends.empty() && update.residual != nullptr, "update_residual: addends and a residual");
  const Tensor& x = *update.residual;
  for (const Tensor& addend : addends) {
    check(addend.rows() == x.rows() && addend.cols() == x.cols(),
          "update_residual: every addend has the shape of the residual");
    check(addend.dtype() == addends[0].dtype(), "update_residual: addends of one type");
  }
  check(update.bias == nullptr || update.bias->elements() == x.cols(),
        "update_residual: one bias a column");
  if (update.norm != nullptr) {
    check(update.normed != nullptr, "update_residual: a place for the normed rows");
    check_norm(*update.norm, x, *update.normed);
  }
  const float* bias = update.bias == nullptr ? nullptr : update.bias->row(0);
  const auto rows = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t t = begin; t < end; ++t) {
      add_to_row(addends, t, bias, x.cols(), x.row(t));
      if (update.norm == nullptr) continue;
      layer_norm_row(x.row(t), *update.norm, x.cols(), update.normed->row(t));
    }
  };
  threads_.parallel_for(x.rows(), rows_grain(x.cols()), rows);
}

}  // namespace

std::uint64_t cpu_parallel_regions(const Backend& backend) {
  const auto* cpu = dynamic_cast<const CpuBackend*>(&backend);
  check(cpu != nullptr, "a CPU back end");
  return cpu->parallel_regions();
}

std::unique_ptr<Backend> make_cpu_backend(int threads, const Precision& precision, RowBits bits) {
  check(threads >= 1, "the CPU back end has at least one thread");
  return std::make_unique<CpuBackend>(threads, precision, bits);
}

}  // namespace shardlm
