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
  if (!is_float(dtype)) {
    fail(ExitCode::model_files, {.what = "tensor " + name + ": cannot compute with its dtype",
                                 .expected = fmt::format("one of {}", float_dtype_names()),
                                 .found = std::string(shardlm::name(dtype)),
                                 .where = file});
  }
  const std::size_t size = bits(dtype) / 8;
  const std::size_t held = bytes.size() / size;
  check(first >= 0 && static_cast<std::size_t>(first) <= held &&
            to.size() <= held - static_cast<std::size_t>(first),
        "read outside tensor " + name);
  to_float32(dtype, bytes.subspan(static_cast<std::size_t>(first) * size, to.size() * size), to);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace shardlm
