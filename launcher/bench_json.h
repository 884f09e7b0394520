// A result of `shardlm bench` as JSON; docs/cli.md says what the fields are.
#pragma once

#include <nlohmann/json.hpp>

#include "launcher/bench_report.h"

namespace shardlm {

nlohmann::ordered_json bench_result_json(const BenchContext& context, const BenchResult& result);
/// The record `facts`, and what all results of the run share of the options.
nlohmann::ordered_json bench_environment_json(const BenchContext& context, const Facts& facts);
nlohmann::ordered_json bench_model_json(const BenchContext& context);

}  // namespace shardlm
