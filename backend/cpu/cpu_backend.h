// The back end for the processor's own cores: the reference for every other.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "backend/cpu/simd.h"  // cpu_simd_target(), for who reports it

namespace shardlm {

/// Whether a row's bits may depend on how many rows are computed with it.
enum class RowBits {
  of_a_kernel,  ///< they may: bf16 weights by AMX from kAmxRows rows on (cpu/amx_matmul.h)
  always_same,  ///< they may not: AMX is used where it changes no bit
};

/// `threads` >= 1, the caller's included. Every result has the same bits whatever their number.
/// Weights may be f32, bf16, f16, q8 or q4, keys and values f32, bf16, f16 or i8; activations are
/// float32.
std::unique_ptr<Backend> make_cpu_backend(int threads, const Precision& precision = {},
                                          RowBits bits = RowBits::of_a_kernel);

/// How often a CPU back end's threads were started and waited for so far: for tests.
std::uint64_t cpu_parallel_regions(const Backend& backend);

}  // namespace shardlm
