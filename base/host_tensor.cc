#include "base/host_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace shardlm {

std::int64_t HostTensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

void HostTensor::read(std::int64_t first, std::span<float> to) const {
  const std::size_t size = bits(dtype) / 8;
  const auto begin = static_cast<std::size_t>(first) * size;
  const std::size_t length = to.size() * size;
  check(first >= 0 && begin <= bytes.size() && length <= bytes.size() - begin,
        "read outside tensor " + name);
  to_float32(dtype, bytes.subspan(begin, length), to);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace shardlm
