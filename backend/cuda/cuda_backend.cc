#include "backend/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda_matrix.h"
#include "backend/cuda/kernels/activate.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/gather.h"
#include "backend/cuda/kernels/residual.h"
#include "backend/cuda/logit_queries.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/pass_runner.h"
#include "backend/cuda/transfer.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

const CudaMatrix& cuda_matrix(const WeightMatrix& matrix) {
  const auto* found = dynamic_cast<const CudaMatrix*>(&matrix);
  check(found != nullptr, "a weight matrix of the CUDA back end");
  return *found;
}

NormParams norm_params(const LayerNormParams& norm, std::int64_t cols) {
  check(norm.weight.elements() == cols && norm.bias.elements() == cols,
        "layer_norm: one weight and one bias a column");
  return {.weight = norm.weight.row(0), .bias = norm.bias.row(0), .epsilon = norm.epsilon};
}

void check_same_shape(const Tensor& a, const Tensor& b, const char* what) {
  check(a.rows() == b.rows() && a.cols() == b.cols(), what);
}

void check_precision(const Precision& p) {
  const auto computes = [](DType d) {
    return d == DType::f32 || d == DType::f16 || d == DType::bf16;
  };
  check(computes(p.weights) && p.weights == p.activations && computes(p.kv),
        "the CUDA back end has f32, f16 and bf16, weights and activations alike");
}

int select_device(int device) {
  check_cuda(cudaSetDevice(device), "choosing a device");
  return device;
}

}  // namespace

MatrixView view(const Tensor& t) {
  return {.data = t.rows() == 0 ? nullptr : t.address(0),
          .rows = t.rows(),
          .cols = t.cols(),
          .stride = t.stride(),
          .dtype = t.dtype()};
}

struct CudaBackend::State {
  explicit State(const CudaOptions& options)
      : device(select_device(options.device)), passes(stream, options.graphs) {
    check_cuda(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device),
               "asking for the device's size");
  }
  int device;
  int n_sm = 1;
  Stream stream;
  Transfer transfer{stream};
  Matmul matmul{stream};
  LogitQueries queries{stream};
  BufferPool eager_pool{make_device_buffer};
  BufferPool pass_pool{make_device_buffer};
  PassRunner passes;
};

CudaBackend::CudaBackend(const CudaOptions& options) : options_(options) {
  check_precision(options.precision);
  state_ = std::make_unique<State>(options);
}

CudaBackend::~CudaBackend() = default;

std::string CudaBackend::describe() const {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, options_.device), "asking for the device's name");
  return fmt::format("cuda device {} ({}, sm_{}{}), {}", options_.device, properties.name,
                     properties.major, properties.minor, name(options_.precision.weights));
}

std::optional<DeviceMemory> CudaBackend::memory() const {
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
  return DeviceMemory{.free_bytes = free, .total_bytes = total};
}

// ---- memory ----

Tensor CudaBackend::take(std::int64_t rows, std::int64_t cols, DType dtype) {
  check(rows >= 0 && cols >= 0, "allocate: a tensor has no negative size");
  check(cols == 0 || rows <= (std::int64_t{1} << 50) / cols, "allocate: a size out of range");
  const std::int64_t stride = padded_stride(cols, dtype);
  const auto bytes = static_cast<std::size_t>(rows * stride) * bits(dtype) / 8;
  BufferPool& pool = state_->passes.repeatable() ? state_->pass_pool : state_->eager_pool;
  return Tensor(pool.take(bytes), rows, cols, dtype, stride);
}

std::size_t CudaBackend::allocations() const {
  return state_->eager_pool.allocations() + state_->pass_pool.allocations();
}

std::unique_ptr<WeightMatrix> CudaBackend::make_matrix(const MatrixSource& source) {
  return std::make_unique<CudaMatrix>(source, options_.precision.weights, state_->transfer);
}

std::unique_ptr<KvStorage> CudaBackend::make_kv_storage(std::int64_t n_head, std::int64_t head_dim,
                                                        std::int64_t n_blocks,
                                                        std::int64_t block_tokens) {
  return std::make_unique<CudaKvStorage>(n_head, head_dim, n_blocks, block_tokens,
                                         options_.precision.kv);
}

void CudaBackend::upload(std::span<const float> from, const Tensor& to) {
  check(!recording(), "upload: not while a pass is recorded");
  state_->transfer.upload(from, view(to));
}

void CudaBackend::download(const Tensor& from, std::span<float> to) {
  check(!recording(), "download: not while a pass is recorded");
  state_->transfer.download(view(from), to);
}

void CudaBackend::synchronize() { state_->stream.wait(); }

// ---- passes ----

Tensor CudaBackend::run_pass(const Step& step, const Pass& pass) {
  return state_->passes.run(step, pass);
}

Stream& CudaBackend::stream() { return state_->stream; }
bool CudaBackend::recording() const { return state_->passes.recording(); }
void CudaBackend::forget_passes() { state_->passes.forget(); }

// ---- ops ----

void CudaBackend::embed(const WeightMatrix& table, const Indices& ids, std::int32_t first_id,
                        const Tensor& out) {
  const CudaMatrix& w = cuda_matrix(table);
  check(out.rows() == ids.size() && out.cols() == w.in(), "embed: out is [ids, inputs]");
  check(w.rows_are_outputs(), "embed: a table with one row an id");
  Tensor copy;
  cuda::embed(state_->stream.get(), w.rows(), first_id, on_device(ids, copy), view(out));
}

void CudaBackend::gather_rows(const Tensor& table, const Indices& ids, const Tensor& out) {
  check(out.rows() == ids.size() && out.cols() == table.cols() && out.dtype() == table.dtype(),
        "gather_rows: out is [ids, columns of the table], in its type");
  Tensor copy;
  cuda::gather_rows(state_->stream.get(), view(table), on_device(ids, copy), view(out));
}

// Indices that no pass has staged are copied now; `copy` keeps them.
const std::int32_t* CudaBackend::on_device(const Indices& indices, Tensor& copy) {
  if (indices.device != nullptr) return indices.device;
  check(!recording(), "a recorded pass takes its indices from the step");
  copy = allocate(1, indices.size());  // int32 and float32 are equally long
  state_->transfer.upload_bytes(std::as_bytes(indices.host), copy.address(0));
  return reinterpret_cast<const std::int32_t*>(copy.address(0));
}

void CudaBackend::matmul(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                         const Tensor& out) {
  multiply(x, w, bias, std::nullopt, out);
}

void CudaBackend::matmul_activate(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                                  Activation kind, const Tensor& out) {
  multiply(x, w, bias, kind, out);
}

void CudaBackend::multiply(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                           std::optional<Activation> kind, const Tensor& out) {
  const MatrixView bias_view = bias == nullptr ? MatrixView{} : view(*bias);
  state_->matmul.run(view(x), cuda_matrix(w), bias == nullptr ? nullptr : &bias_view, kind,
                     view(out));
}

void CudaBackend::layer_norm(const Tensor& x, const LayerNormParams& norm, const Tensor& out) {
  check_same_shape(x, out, "layer_norm: out has the shape of x");
  cuda::layer_norm(state_->stream.get(), view(x), norm_params(norm, x.cols()), view(out));
}

void CudaBackend::activate(Activation kind, const Tensor& x) {
  cuda::activate(state_->stream.get(), kind, view(x));
}

void CudaBackend::update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) {
  check(!addends.empty() && update.residual != nullptr, "update_residual: addends and a residual");
  const Tensor& x = *update.residual;
  std::array<MatrixView, kMaxAddends> views;
  check(addends.size() <= views.size(), "update_residual: too many addends");
  for (std::size_t a = 0; a < addends.size(); ++a) {
    check_same_shape(addends[a], x, "update_residual: every addend has the residual's shape");
    views[a] = view(addends[a]);
  }
  check(update.bias == nullptr || update.bias->elements() == x.cols(),
        "update_residual: one bias a column");
  ResidualRows rows{.residual = view(x),
                    .bias = update.bias == nullptr ? nullptr : update.bias->row(0)};
  NormParams norm;
  if (update.norm != nullptr) {
    check(update.normed != nullptr, "update_residual: a place for the normed rows");
    check_same_shape(*update.normed, x, "update_residual: the normed rows have its shape");
    norm = norm_params(*update.norm, x.cols());
    rows.norm = &norm;
    rows.normed = view(*update.normed);
  }
  cuda::update_residual(state_->stream.get(), std::span(views).first(addends.size()), rows);
}

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                            const Sequences& sequences, float scale, const Tensor& out) {
  auto* storage = dynamic_cast<CudaKvStorage*>(&cache);
  check(storage != nullptr, "a KV storage of the CUDA back end");
  if (sequences.device == nullptr)
    return attention_of_host_rows(q, k, v, cache, sequences, scale, out);
  const auto& staged = *static_cast<const StagedSequences*>(sequences.device);
  const KvView kv{.keys = storage->keys(),
                  .values = storage->values(),
                  .n_head = storage->n_head(),
                  .block_tokens = storage->block_tokens(),
                  .head_dim = storage->head_dim(),
                  .dtype = storage->dtype()};
  check(q.cols() == kv.n_head * kv.head_dim && q.rows() == staged.batch.n_rows,
        "attention: q is [T, n_head * head_dim]");
  check_same_shape(q, k, "attention: k has the shape of q");
  check_same_shape(q, v, "attention: v has the shape of q");
  check_same_shape(q, out, "attention: out has the shape of q");
  const cudaStream_t stream = state_->stream.get();
  append_kv(stream, view(k), view(v), staged.batch, kv);
  if (!staged.one_row_each) {
    return attention_prefill(stream, view(q), staged.batch, kv, scale, view(out));
  }
  const int n_splits = decode_splits(q.rows(), kv.n_head, state_->n_sm, staged.max_tokens);
  const Tensor scratch = allocate(
      1, static_cast<std::int64_t>(attention_scratch_floats(q.rows(), kv, staged.max_tokens)));
  attention_decode(stream, view(q), staged.batch, kv, scale, n_splits, staged.max_tokens,
                   scratch.row(0), view(out));
}

// Rows that no pass has staged: a test, or a caller that has no step.
void CudaBackend::attention_of_host_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                                         KvStorage& cache, const Sequences& sequences, float scale,
                                         const Tensor& out) {
  const std::vector<std::int32_t> no_ids(static_cast<std::size_t>(q.rows()), -1);
  StepInputs inputs;
  const Step step =
      inputs.stage(state_->stream,
                   {.ids = no_ids, .positions = no_ids, .sequences = sequences, .logit_rows = {}});
  attention(q, k, v, cache, step.sequences, scale, out);
  synchronize();  // the inputs go
}

void CudaBackend::query_logits(const Tensor& logits, const VocabShard& shard,
                               std::span<const LogitQuery> queries, std::span<LogitReply> replies) {
  state_->queries.run(view(logits), shard, queries, replies);
}

}  // namespace shardlm::cuda
