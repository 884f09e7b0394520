// The back end for one GPU: all work goes to one stream, in order; only download(), synchronize()
// and query_logits() wait.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/buffer_pool.h"
#include "backend/cuda/kernels/view.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

/// The tensor as kernels see it.
MatrixView view(const Tensor& tensor);

struct CudaOptions {
  int device = 0;  ///< CUDA's number
  Precision precision = {};
  bool graphs = true;  ///< record and replay repeatable passes
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);
  ~CudaBackend() override;

  std::string describe() const override;
  Precision precision() const override { return options_.precision; }
  std::optional<DeviceMemory> memory() const override;

  std::size_t allocations() const override;
  std::unique_ptr<WeightMatrix> make_matrix(const MatrixSource& source) override;
  std::unique_ptr<KvStorage> make_kv_storage(std::int64_t n_head, std::int64_t head_dim,
                                             std::int64_t n_blocks,
                                             std::int64_t block_tokens) override;
  void upload(std::span<const float> from, const Tensor& to) override;
  void download(const Tensor& from, std::span<float> to) override;
  void synchronize() override;

  Tensor run_pass(const Step& step, const Pass& pass) override;
  void embed(const WeightMatrix& table, const Indices& ids, std::int32_t first_id,
             const Tensor& out) override;
  void gather_rows(const Tensor& table, const Indices& ids, const Tensor& out) override;
  void matmul(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
              const Tensor& out) override;
  void matmul_activate(const Tensor& x, const WeightMatrix& w, const Tensor* bias, Activation kind,
                       const Tensor& out) override;
  void layer_norm(const Tensor& x, const LayerNormParams& norm, const Tensor& out) override;
  void activate(Activation kind, const Tensor& x) override;
  void attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                 const Sequences& sequences, float scale, const Tensor& out) override;
  void update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) override;
  void query_logits(const Tensor& logits, const VocabShard& shard,
                    std::span<const LogitQuery> queries, std::span<LogitReply> replies) override;

  // ---- for the communicators of this device ----
  int device() const { return options_.device; }
  Stream& stream();
  /// True while a pass is being recorded: what is enqueued now runs at each replay.
  bool recording() const;
  /// Recorded passes are dropped: before a communicator that they call into goes.
  void forget_passes();

 private:
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) override;
  const std::int32_t* on_device(const Indices& indices, Tensor& copy);
  void multiply(const Tensor& x, const WeightMatrix& w, const Tensor* bias,
                std::optional<Activation> kind, const Tensor& out);
  void attention_of_host_rows(const Tensor& q, const Tensor& k, const Tensor& v, KvStorage& cache,
                              const Sequences& sequences, float scale, const Tensor& out);

  struct State;  // the device's handles, in cuda_backend.cc
  CudaOptions options_;
  std::unique_ptr<State> state_;
};

}  // namespace shardlm::cuda
