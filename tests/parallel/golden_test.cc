// Every config switch and file layout of tests/data/golden on 1 to 7 ranks.
#include "tests/parallel/golden_case.h"

namespace shardlm {
namespace {

class Golden : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(Golden, activations_are_those_of_pytorch) { expect_golden_activations(name(), ranks(), {}); }

TEST_P(Golden, greedy_ids_are_those_of_transformers) { expect_golden_ids(name(), ranks()); }

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(1, 2, 3, 4, 5, 7)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_ranks_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace shardlm
