// comm/gpu.h of a program without a CUDA back end.
#include "comm/gpu.h"

#include "base/error.h"

namespace shardlm {
namespace {

constexpr const char* kWithoutCuda = "this program was built without CUDA";

[[noreturn]] void fail_without_cuda(const char* what) {
  fail(ExitCode::usage, {.what = what,
                         .found = kWithoutCuda,
                         .remedy = "build with -DSHARDLM_CUDA=ON (preset cuda), or use the CPU"});
}

}  // namespace

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  survey.none_because = kWithoutCuda;
  return survey;
}

std::unique_ptr<Backend> make_gpu_backend(const GpuOptions&) { fail_without_cuda("backend cuda"); }

std::unique_ptr<Communicator> make_gpu_communicator(std::unique_ptr<Communicator>, Backend&,
                                                    const std::string& name, const GpuPlacement&,
                                                    const Deadlines&) {
  fail_without_cuda(("communicator " + name).c_str());
}

}  // namespace shardlm
