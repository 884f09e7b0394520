#include "comm/add_up.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace shardlm {
namespace {

template <class T>
void add_all(std::span<const Tensor> addends, const Tensor& to) {
  const std::int64_t n = to.elements();
  if (n == 0) return;
  auto* const sum = reinterpret_cast<T*>(to.address(0));
  std::copy_n(reinterpret_cast<const T*>(addends.front().address(0)), n, sum);
  for (const Tensor& addend : addends.subspan(1)) {
    const auto* const from = reinterpret_cast<const T*>(addend.address(0));
    for (std::int64_t i = 0; i < n; ++i) sum[i] += from[i];
  }
}

}  // namespace

void add_up(std::span<const Tensor> addends, const Tensor& to) {
  check(to.contiguous() && std::all_of(addends.begin(), addends.end(),
                                       [&](const Tensor& a) {
                                         return a.contiguous() && a.rows() == to.rows() &&
                                                a.cols() == to.cols() && a.dtype() == to.dtype();
                                       }),
        "add_up: contiguous addends of one shape and type");
  to.dtype() == DType::i64 ? add_all<std::int64_t>(addends, to) : add_all<float>(addends, to);
}

}  // namespace shardlm
