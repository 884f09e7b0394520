// comm/gpu.h of a program that was built without CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/gpu.h"
#include "comm/self_communicator.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Call>
void expect_refused(Call&& call, const char* what) {
  try {
    call();
    ADD_FAILURE() << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(what), HasSubstr("built without CUDA"),
                                    HasSubstr("-DSHARDLM_CUDA=ON")));
  }
}

TEST(NoGpu, SaysThatItWasBuiltWithout) {
  const GpuSurvey survey = survey_gpus();
  EXPECT_FALSE(survey.built_in);
  EXPECT_TRUE(survey.devices.empty());
  EXPECT_EQ(survey.none_because, "this program was built without CUDA");
}

TEST(NoGpu, MakesNothing) {
  const auto cpu = make_cpu_backend(1);
  expect_refused([] { make_gpu_backend({}); }, "backend cuda");
  expect_refused(
      [&] {
        make_gpu_communicator(std::make_unique<SelfCommunicator>(*cpu), *cpu, "nccl", {}, {});
      },
      "communicator nccl");
}

}  // namespace
}  // namespace shardlm
