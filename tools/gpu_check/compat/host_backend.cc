// make_cpu_backend() for scripts/gpu-check: what communicators between hosts ask of a back end, by
// plain loops; and query_logits_cpu(), which nothing here asks for. The real ones need Highway.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/query_logits.h"
#include "base/error.h"

namespace shardlm {
namespace {

class HostMemory final : public Buffer {
 public:
  explicit HostMemory(std::size_t floats) : floats_(floats) {}
  std::byte* data() const override { return reinterpret_cast<std::byte*>(floats_.data()); }
  std::size_t bytes() const override { return floats_.size() * sizeof(float); }

 private:
  mutable std::vector<float> floats_;
};

[[noreturn]] void refuse(const char* op) {
  fail(ExitCode::bug, {.what = std::string(op) + ": not an op of the host side of gpu-check"});
}

class HostBackend final : public Backend {
 public:
  std::string describe() const override { return "host memory"; }
  Precision precision() const override { return {}; }
  std::size_t allocations() const override { return 0; }
  void synchronize() override {}

  void upload(std::span<const float> from, const Tensor& to) override {
    check(std::ssize(from) == to.elements(), "upload: as many floats as the tensor holds");
    const auto cols = static_cast<std::size_t>(to.cols());
    for (std::int64_t t = 0; t < to.rows(); ++t) {
      std::copy_n(from.data() + static_cast<std::size_t>(t) * cols, cols, to.row(t));
    }
  }
  void download(const Tensor& from, std::span<float> to) override {
    check(std::ssize(to) == from.elements(), "download: as many floats as the tensor holds");
    const auto cols = static_cast<std::size_t>(from.cols());
    for (std::int64_t t = 0; t < from.rows(); ++t) {
      std::copy_n(from.row(t), cols, to.data() + static_cast<std::size_t>(t) * cols);
    }
  }

  void update_residual(std::span<const Tensor> addends, const ResidualUpdate& update) override {
    if (update.norm != nullptr) refuse("update_residual with a norm");
    const Tensor& x = *update.residual;
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      for (std::int64_t j = 0; j < x.cols(); ++j) {
        float sum = 0;
        for (std::size_t a = 0; a < addends.size(); ++a) {
          const float addend = addends[a].row(t)[j];
          sum = a == 0 ? addend : sum + addend;
        }
        if (update.bias != nullptr) sum += update.bias->row(0)[j];
        x.row(t)[j] += sum;
      }
    }
  }

  std::unique_ptr<WeightMatrix> make_matrix(const MatrixSource&) override { refuse("make_matrix"); }
  std::unique_ptr<KvStorage> make_kv_storage(std::int64_t, std::int64_t, std::int64_t,
                                             std::int64_t) override {
    refuse("make_kv_storage");
  }
  void embed(const WeightMatrix&, const Indices&, std::int32_t, const Tensor&) override {
    refuse("embed");
  }
  void gather_rows(const Tensor&, const Indices&, const Tensor&) override { refuse("gather_rows"); }
  void matmul(const Tensor&, const WeightMatrix&, const Tensor*, const Tensor&) override {
    refuse("matmul");
  }
  void layer_norm(const Tensor&, const LayerNormParams&, const Tensor&) override {
    refuse("layer_norm");
  }
  void activate(Activation, const Tensor&) override { refuse("activate"); }
  void attention(const Tensor&, const Tensor&, const Tensor&, KvStorage&, const Sequences&, float,
                 const Tensor&) override {
    refuse("attention");
  }
  void query_logits(const Tensor&, const VocabShard&, std::span<const LogitQuery>,
                    std::span<LogitReply>) override {
    refuse("query_logits");
  }

 private:
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) override {
    check(dtype == DType::f32, "the host side holds float32");
    return Tensor(std::make_shared<HostMemory>(static_cast<std::size_t>(rows * cols)), rows, cols);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int, const Precision& /*precision*/, RowBits /*bits*/) {
  return std::make_unique<HostBackend>();
}

void query_logits_cpu(const Tensor& /*logits*/, const VocabShard& /*shard*/,
                      std::span<const LogitQuery> /*queries*/, std::span<LogitReply> /*replies*/) {
  refuse("query_logits");
}

}  // namespace shardlm
