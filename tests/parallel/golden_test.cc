// Every config switch and file layout of tests/data/golden (PyTorch, float64) on 1 to 7 ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/generate.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/parallel/model_ranks.h"
#include "tests/parallel/near.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(SHARDLM_TEST_DATA) / "golden";

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGolden)) {
    if (fs::exists(entry.path() / "expected.safetensors")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const HostTensor& tensor_of(const SafetensorsFile& file, const std::string& name) {
  const auto& all = file.tensors();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const HostTensor& t) { return t.name == name; });
  if (it == all.end()) throw std::runtime_error("no tensor " + name);
  return *it;
}

std::vector<float> floats_of(const HostTensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  t.read(0, values);
  return values;
}

std::vector<std::int32_t> input_ids(const SafetensorsFile& file) {
  const HostTensor& t = tensor_of(file, "input_ids");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(t.elements()));
  std::memcpy(ids.data(), t.bytes.data(), t.bytes.size());
  return ids;
}

// Roundings on the way to a logit: every layer adds a few chains of n_embd and n_inner terms.
double depth_of(const ModelConfig& c) {
  return static_cast<double>(c.n_layer * (2 * c.n_embd + c.n_inner + c.n_embd));
}

class Golden : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  fs::path folder() const { return kGolden / std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};

TEST_P(Golden, activations_are_those_of_pytorch) {
  const auto expected = SafetensorsFile::open(folder() / "expected.safetensors");
  const std::vector<std::int32_t> ids = input_ids(expected);
  run_model(folder(), ranks(),
            [&](ModelRank& me) {
              me.coordinator.run(whole_step(ids));
              for (const HostTensor& t : expected.tensors()) {
                if (t.name == "input_ids") continue;
                expect_near(me.dump->at(t.name).values, floats_of(t), depth_of(me.config), t.name);
              }
            },
            {.dump = true});
}

TEST_P(Golden, greedy_ids_are_those_of_transformers) {
  const nlohmann::json expected = read_json_file(folder() / "expected.json");
  std::vector<Request> requests;
  for (const auto& g : expected.at("greedy")) {
    requests.push_back({.prompt = g.at("prompt_ids").get<std::vector<std::int32_t>>(),
                        .sampling = {.temperature = 0},
                        .max_tokens = static_cast<std::int64_t>(g.at("ids").size())});
  }
  run_model(folder(), ranks(), [&](ModelRank& me) {
    GenerateTiming timing;
    const GenerateSetup setup{.n_positions = me.config.n_positions,
                              .vocab_size = me.config.vocab_size,
                              .limits = {.prefill_chunk = 4, .max_batch = 2}};
    const auto sequences = generate(me.coordinator, setup, requests, 8, {}, timing);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(sequences[i].ids(),
                expected.at("greedy")[i].at("ids").get<std::vector<std::int32_t>>());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(1, 2, 3, 4, 5, 7)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_ranks_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace shardlm
