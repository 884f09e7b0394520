#include "comm/cuda/staged_reducer.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace shardlm::cuda {

StagedReducer::StagedReducer(Communicator& host, CudaBackend& backend)
    : host_(host), backend_(backend), cpu_(make_cpu_backend(1)) {}

Tensor StagedReducer::on_host(const Tensor& addend) {
  values_.resize(static_cast<std::size_t>(addend.elements()));
  backend_.download(addend, values_);
  Tensor copy = cpu_->allocate(addend.rows(), addend.cols());
  cpu_->upload(values_, copy);
  return copy;
}

void StagedReducer::all_reduce(const Call& call, const Tensor& addend,
                               const ResidualUpdate& update) {
  check(!backend_.recording(), "a staged all_reduce cannot be recorded");
  const std::int64_t start_ns = steady_ns();
  const Tensor mine = on_host(addend);
  // The sum is what becomes of a residual stream of zeros.
  Tensor sum = cpu_->allocate(addend.rows(), addend.cols());
  std::fill(values_.begin(), values_.end(), 0.0F);
  cpu_->upload(values_, sum);
  host_.all_reduce(call.site, mine, {.residual = &sum});
  cpu_->download(sum, values_);
  const Tensor on_device = backend_.allocate(addend.rows(), addend.cols());
  backend_.upload(values_, on_device);
  backend_.update_residual({&on_device, 1}, update);
  if (log_ != nullptr) {
    log_->add_by_time({.call = call,
                       .algorithm = "staged",
                       .bytes = values_.size() * sizeof(float),
                       .start = start_ns,
                       .end = steady_ns(),
                       .dtype = DType::f32});
  }
}

}  // namespace shardlm::cuda
