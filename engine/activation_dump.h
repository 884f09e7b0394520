// Collects the logical activations of forward passes on rank 0.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "parallel/tap.h"

namespace shardlm {

/// An activation put together from all ranks and all steps: [rows, cols].
struct Activation2d {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values;
};

/// A Tap that gathers what layers report. Every rank needs one, since gathering is a collective;
/// the result is complete on rank 0 and empty elsewhere. Steps append rows (prompt chunks).
class ActivationDump final : public Tap {
 public:
  ActivationDump(Backend& backend, Communicator& comm) : backend_(backend), comm_(comm) {}
  bool listening() const override { return true; }
  void replicated(std::string_view name, const Tensor& x) override;
  void sharded(std::string_view name, const Tensor& x, const Partition& p,
               std::int64_t unit) override;

  /// In the order in which a forward pass reports them.
  const std::vector<std::string>& names() const { return names_; }
  const Activation2d& at(const std::string& name) const { return tensors_.at(name); }

 private:
  Activation2d& append(std::string_view name, std::int64_t rows, std::int64_t cols);

  Backend& backend_;
  Communicator& comm_;
  std::vector<std::string> names_;
  std::map<std::string, Activation2d> tensors_;
  std::vector<float> local_;
  std::vector<std::vector<std::byte>> shards_;
};

}  // namespace shardlm
