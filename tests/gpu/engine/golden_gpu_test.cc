// The golden models through the whole engine on emulated GPUs: every config switch, one to four
// ranks, every element type, passes enqueued and recorded.
#include "tests/gpu/engine/gpu_ranks.h"
#include "tests/parallel/golden_case.h"

namespace shardlm {
namespace {

std::string text_of(bool graphs) { return graphs ? "recorded" : "enqueued"; }

class GoldenGpu : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(GoldenGpu, activations_are_those_of_pytorch) {
  expect_golden_activations(name(), ranks(), gpu_ranks({}));
}

TEST_P(GoldenGpu, greedy_ids_are_those_of_transformers) {
  expect_golden_ids(name(), ranks(), gpu_ranks({.graphs = true}));
}

// With a sanitizer a model takes a second or two: three ranks, the least even of them.
std::vector<int> rank_counts() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {3};
#else
  return {1, 2, 3, 4};
#endif
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenGpu,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::ValuesIn(rank_counts())),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_ranks_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

class GoldenGpuTypes : public testing::TestWithParam<std::tuple<DType, std::string>> {};

// Weights and activations are rounded to the type at each op: half a unit in the last place each.
TEST_P(GoldenGpuTypes, activations_are_those_of_pytorch_within_the_type) {
  const auto& [dtype, comm] = GetParam();
  const double epsilon = dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (const std::string& name : {golden_cases().front(), golden_cases().back()}) {
    expect_golden_activations(name, 2, gpu_ranks({.comm = comm, .dtype = dtype, .kv = dtype}),
                              epsilon);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenGpuTypes,
                         testing::Combine(testing::Values(DType::f32, DType::f16, DType::bf16),
                                          testing::Values("nccl", "staged")),
                         [](const auto& instance) {
                           return std::string(shardlm::name(std::get<0>(instance.param))) + "_" +
                                  std::get<1>(instance.param);
                         });

class GoldenGpuPasses : public testing::TestWithParam<std::tuple<bool, std::string>> {};

TEST_P(GoldenGpuPasses, greedy_ids_are_those_of_transformers) {
  const auto& [graphs, comm] = GetParam();
  expect_golden_ids(golden_cases().front(), 3, gpu_ranks({.comm = comm, .graphs = graphs}));
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenGpuPasses,
                         testing::Combine(testing::Bool(), testing::Values("nccl", "staged")),
                         [](const auto& instance) {
                           return text_of(std::get<0>(instance.param)) + "_" +
                                  std::get<1>(instance.param);
                         });

}  // namespace
}  // namespace shardlm
