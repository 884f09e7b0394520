// The commands of gpu_check. Each returns an exit code: 0, 1 if a comparison failed, kSkipped, or
// that of an Error. A line on standard output sums up what was found; `--figures FILE` takes the
// numbers as JSON.
#pragma once

#include "tools/gpu_check/arguments.h"

namespace shardlm::gpu_check {

/// What GPUs there are.
int run_device(Arguments& arguments);
/// The back end's ops against plain loops. --dtypes; --only LIST of rows, attention, matmul,
/// logits.
int run_kernels(Arguments& arguments);
/// The golden models on --ranks ranks. --pack FILE, --cases, --dtypes, --graphs, --comm, --gpus.
int run_golden(Arguments& arguments);
/// A rank that dies in a step: the others must end in time and say which is missing.
int run_die(Arguments& arguments);
/// Times of a model of random weights. --size tiny, gpt2 or gpt2-xl; --dtype, --repeats.
int run_bench(Arguments& arguments);

}  // namespace shardlm::gpu_check
