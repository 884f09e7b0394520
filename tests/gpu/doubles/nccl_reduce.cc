#include "tests/gpu/doubles/nccl_reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

namespace shardlm::doubles {
namespace {

template <class T>
struct Native {
  using Element = T;
  using Sum = T;
  static Sum load(Element x) { return x; }
  static Element store(Sum x) { return x; }
};
struct Half {
  using Element = __half;
  using Sum = float;
  static Sum load(Element x) { return __half2float(x); }
  static Element store(Sum x) { return __float2half_rn(x); }
};
struct BFloat {
  using Element = __nv_bfloat16;
  using Sum = float;
  static Sum load(Element x) { return __bfloat162float(x); }
  static Element store(Sum x) { return __float2bfloat16_rn(x); }
};

template <class T>
typename T::Sum combine(typename T::Sum a, typename T::Sum b, ncclRedOp_t reduction) {
  if (reduction == ncclMax) return std::max(a, b);
  if (reduction == ncclMin) return std::min(a, b);
  return static_cast<typename T::Sum>(a + b);
}

template <class T>
void reduce_as(void* out, const std::vector<const void*>& parts, std::size_t elements,
               ncclRedOp_t reduction) {
  using Element = typename T::Element;
  for (std::size_t i = 0; i < elements; ++i) {
    typename T::Sum value = T::load(static_cast<const Element*>(parts[0])[i]);
    for (std::size_t r = 1; r < parts.size(); ++r)
      value = combine<T>(value, T::load(static_cast<const Element*>(parts[r])[i]), reduction);
    static_cast<Element*>(out)[i] = T::store(value);
  }
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

bool known(ncclRedOp_t reduction) {
  return reduction == ncclSum || reduction == ncclMax || reduction == ncclMin;
}

void reduce(void* out, const std::vector<const void*>& parts, std::size_t elements,
            ncclDataType_t type, ncclRedOp_t reduction) {
  switch (type) {
    case ncclInt8:
      return reduce_as<Native<std::int8_t>>(out, parts, elements, reduction);
    case ncclUint8:
      return reduce_as<Native<std::uint8_t>>(out, parts, elements, reduction);
    case ncclInt32:
      return reduce_as<Native<std::int32_t>>(out, parts, elements, reduction);
    case ncclUint32:
      return reduce_as<Native<std::uint32_t>>(out, parts, elements, reduction);
    case ncclInt64:
      return reduce_as<Native<std::int64_t>>(out, parts, elements, reduction);
    case ncclUint64:
      return reduce_as<Native<std::uint64_t>>(out, parts, elements, reduction);
    case ncclFloat16:
      return reduce_as<Half>(out, parts, elements, reduction);
    case ncclBfloat16:
      return reduce_as<BFloat>(out, parts, elements, reduction);
    case ncclFloat64:
      return reduce_as<Native<double>>(out, parts, elements, reduction);
    default:
      return reduce_as<Native<float>>(out, parts, elements, reduction);
  }
}

}  // namespace shardlm::doubles
