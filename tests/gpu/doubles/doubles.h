// Test doubles of the CUDA runtime, cuBLASLt and NCCL: the same C symbols, linked instead of the
// real libraries, so that the back end's own source runs unchanged. This header is what tests see.
//
// Environment, read at every call, so that a test may set it:
//   SHARDLM_FAKE_GPUS=n|driver   number of devices (8); 0: none; driver: no driver, n untouched
//   SHARDLM_FAKE_GPU_BYTES=n     memory of each device (1 GiB)
//   SHARDLM_FAKE_GPU_P2P=0|1     whether devices reach each other's memory (1)
//   SHARDLM_FAKE_GPU_FAULT=call:nth:error[,...]
//                                the nth call (from 1) of that function returns that error number,
//                                e.g. cudaMalloc:3:2, ncclAllReduce:1:1; "work" is the nth piece of
//                                work that a stream runs, which then fails asynchronously
//   SHARDLM_FAKE_NCCL_VERSION=n  what ncclGetVersion tells (that of nccl.h)
//   SHARDLM_FAKE_LT_NO_EPILOGUE=1  cuBLASLt finds no algorithm with an epilogue
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>

namespace shardlm::doubles {

/// Appends work to a stream, or a node to the graph that is being captured there. A node keeps
/// `lease` for as long as a graph has it: NCCL counts the graphs that hold its work so.
cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> work,
                    std::shared_ptr<void> lease = nullptr);

/// The text of the first failure of asynchronous work, "" if none; clears it and the sticky error
/// of every device.
std::string take_async_error();

/// The names of operations in the order of their issue since the last call: "kernel;memcpy;".
std::string take_trace();

}  // namespace shardlm::doubles

