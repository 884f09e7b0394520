// What a .cu file needs to compile as C++: CUDA's keywords, built-in variables and device functions,
// each a thin wrapper around the engine. Types come from the real headers, which every compiler can
// read. backend/cuda/gpu.h includes this one in host-only builds; never under nvcc.
//
// What is not here does not exist in the emulation, on purpose: cooperative groups, CUB, libcu++,
// wmma, wgmma, TMA, clusters, grid-wide waits.
#pragma once
#if defined(__CUDACC__)
#error "cuda_emulation.h is for host-only builds"
#endif

#include "emulated_keywords.h"

#include "emulated_arithmetic.h"
#include "emulated_atomics.h"
#include "emulated_memory.h"
#include "emulated_mma.h"
#include "emulated_warp.h"
#include "engine.h"
#include "kernel_registry.h"
