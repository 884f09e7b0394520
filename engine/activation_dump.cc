#include "engine/activation_dump.h"

#include <cstring>

#include "base/error.h"

namespace shardlm {

// Makes room for `rows` more rows of a tensor and returns it.
Activation2d& ActivationDump::append(std::string_view name, std::int64_t rows, std::int64_t cols) {
  const auto [it, is_new] = tensors_.try_emplace(std::string(name));
  Activation2d& t = it->second;
  if (is_new) {
    names_.emplace_back(name);
    t.cols = cols;
  }
  check(t.cols == cols, "an activation changed its width");
  t.rows += rows;
  t.values.resize(static_cast<std::size_t>(t.rows * t.cols));
  return t;
}

void ActivationDump::replicated(std::string_view name, const Tensor& x) {
  if (comm_.rank() != 0) return;
  Activation2d& t = append(name, x.rows(), x.cols());
  const auto at = static_cast<std::size_t>((t.rows - x.rows()) * t.cols);
  backend_.download(x, std::span(t.values).subspan(at));
}

void ActivationDump::sharded(std::string_view name, const Tensor& x, const Partition& p,
                             std::int64_t unit) {
  local_.resize(static_cast<std::size_t>(x.elements()));
  backend_.download(x, local_);
  comm_.gather({SiteKind::dump}, std::as_bytes(std::span(local_)), shards_, 0);
  if (comm_.rank() != 0) return;
  Activation2d& t = append(name, x.rows(), p.n_units() * unit);
  for (int rank = 0; rank < p.size(); ++rank) {
    const Range columns = scaled(p.of(rank), unit);
    const std::vector<std::byte>& shard = shards_[static_cast<std::size_t>(rank)];
    const std::size_t row_bytes = static_cast<std::size_t>(columns.size()) * sizeof(float);
    check(shard.size() == row_bytes * static_cast<std::size_t>(x.rows()),
          "a shard of another shape");
    if (row_bytes == 0) continue;
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const auto to = static_cast<std::size_t>((t.rows - x.rows() + row) * t.cols + columns.begin);
      std::memcpy(&t.values[to], shard.data() + static_cast<std::size_t>(row) * row_bytes,
                  row_bytes);
    }
  }
}

}  // namespace shardlm
