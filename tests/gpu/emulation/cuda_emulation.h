// What a .cu file needs to compile as C++: CUDA's keywords, built-in variables and device
// functions, each a thin wrapper around the engine. Types come from the real headers, which every
// compiler can read. backend/cuda/gpu.h includes this one in host-only builds; never under nvcc.
//
// What is not here does not exist in the emulation, on purpose: cooperative groups, CUB, libcu++,
// wmma, wgmma, TMA, clusters, grid-wide waits.
#pragma once
#if defined(__CUDACC__)
#error "cuda_emulation.h is for host-only builds"
#endif

#include "tests/gpu/emulation/emulated_keywords.h"

#include "tests/gpu/emulation/emulated_arithmetic.h"
#include "tests/gpu/emulation/emulated_atomics.h"
#include "tests/gpu/emulation/emulated_memory.h"
#include "tests/gpu/emulation/emulated_mma.h"
#include "tests/gpu/emulation/emulated_warp.h"
#include "tests/gpu/emulation/engine.h"
#include "tests/gpu/emulation/kernel_registry.h"
