// The cases of tests/data/golden (PyTorch and transformers, float64) and what a model has to show
// on each, on any ranks and devices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/parallel/model_ranks.h"
#include "tests/parallel/near.h"

namespace shardlm {

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(SHARDLM_TEST_DATA) / "golden";
}

inline std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors"))
      names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline const HostTensor& tensor_of(const SafetensorsFile& file, const std::string& name) {
  const auto& all = file.tensors();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const HostTensor& t) { return t.name == name; });
  if (it == all.end()) throw std::runtime_error("no tensor " + name);
  return *it;
}

inline std::vector<float> floats_of(const HostTensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  t.read(0, values);
  return values;
}

inline std::vector<std::int32_t> input_ids(const SafetensorsFile& file) {
  const HostTensor& t = tensor_of(file, "input_ids");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(t.elements()));
  std::memcpy(ids.data(), t.bytes.data(), t.bytes.size());
  return ids;
}

// Roundings on the way to a logit: every layer adds a few chains of n_embd and n_inner terms.
inline double depth_of(const ModelConfig& c) {
  return static_cast<double>(c.n_layer * (2 * c.n_embd + c.n_inner + c.n_embd));
}

/// Every activation that PyTorch gave, within `epsilon` a rounding.
inline void expect_golden_activations(const std::string& name, int ranks, ModelRankOptions options,
                                      double epsilon = std::numeric_limits<float>::epsilon()) {
  const std::filesystem::path folder = golden_folder() / name;
  const auto expected = SafetensorsFile::open(folder / "expected.safetensors");
  const std::vector<std::int32_t> ids = input_ids(expected);
  options.dump = true;
  run_model(
      folder, ranks,
      [&](ModelRank& me) {
        me.coordinator.run(whole_step(ids));
        for (const HostTensor& t : expected.tensors()) {
          if (t.name == "input_ids") continue;
          expect_near(me.dump->at(t.name).values, floats_of(t), depth_of(me.config), t.name,
                      epsilon);
        }
      },
      options);
}

/// The greedy continuations that transformers gave.
inline void expect_golden_ids(const std::string& name, int ranks,
                              const ModelRankOptions& options = {}) {
  const std::filesystem::path folder = golden_folder() / name;
  const nlohmann::json expected = read_json_file(folder / "expected.json");
  std::vector<Request> requests;
  for (const auto& g : expected.at("greedy")) {
    requests.push_back({.prompt = g.at("prompt_ids").get<std::vector<std::int32_t>>(),
                        .sampling = {.temperature = 0},
                        .max_tokens = static_cast<std::int64_t>(g.at("ids").size())});
  }
  run_model(
      folder, ranks,
      [&](ModelRank& me) {
        GenerateTiming timing;
        const GenerateSetup setup{.n_positions = me.config.n_positions,
                                  .vocab_size = me.config.vocab_size,
                                  .limits = {.prefill_chunk = 4, .max_batch = 2}};
        const auto sequences = generate(me.coordinator, setup, requests, 8, {}, timing);
        for (std::size_t i = 0; i < sequences.size(); ++i) {
          EXPECT_EQ(sequences[i].ids(),
                    expected.at("greedy")[i].at("ids").get<std::vector<std::int32_t>>());
        }
      },
      options);
}

}  // namespace shardlm
