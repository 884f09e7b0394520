// Options that a back end must be able to follow: what they mean, and which do not fit which.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "launcher/options.h"
#include "parallel/context.h"

namespace shardlm {

enum class BackendKind { cpu, cuda };

/// A job that cannot run on the back end that it asks for; the parts of the message are kept, since
/// doctor lists them.
class BackendRefusal : public Error {
 public:
  BackendRefusal(ExitCode code, Problem problem)
      : Error(code, describe(problem)), problem_(std::move(problem)) {}
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

[[noreturn]] inline void refuse(ExitCode code, Problem problem) {
  throw BackendRefusal(code, std::move(problem));
}

/// "cpu", "cuda".
std::string backend_name(BackendKind kind);
/// The words of the options: "auto", "nccl"; "bf16".
std::string backend_name(BackendChoice choice);
std::string comm_name(CommChoice choice);
std::string overlap_name(OverlapChoice choice);
std::string dtype_name(DType dtype);
std::string reduction_name(ReductionChoice choice);
std::string compute_name(ComputeChoice choice);
/// What the options do.
Reduction reduction_of(ReductionChoice choice);

/// What a person must know beside every result: that it means nothing (--comm none), that nothing
/// was computed (--compute none). Empty: nothing.
std::vector<std::string> result_warnings(const EngineOptions& options);

/// Keys and values `automatic`: as the weights, beside int8 and int4 float16. Activations are of
/// the weights' type, beside int8 and int4 float32.
Precision precision_of(DTypeChoice dtype, KvDTypeChoice kv_dtype);
/// The same for the CPU back end, whose activations are always float32.
inline Precision on_cpu(Precision precision) {
  precision.activations = DType::f32;
  return precision;
}
/// "f32", or "bf16, keys and values f16".
std::string precision_text(const Precision& precision);

/// BackendRefusal(usage) with all the options that the back end cannot follow. `because`: why it
/// was taken
/// ("no CUDA device is present"); empty if it was asked for by name.
void check_fit(const EngineOptions& options, BackendKind kind, const std::string& because);

/// One line for each option that has no effect on the back end.
std::vector<std::string> notes_without_effect(const EngineOptions& options, BackendKind kind);

}  // namespace shardlm
