#include "study/sweep/guess.h"

#include <algorithm>

#include "comm/emulation.h"

namespace shardlm {
namespace {

constexpr double kStart_s = 0.9, kStartOfRank_s = 0.05;
constexpr double kCoreBytesPerS = 6e9, kCoreFlopsPerS = 15e9, kLoadBytesPerS = 1e9;
constexpr double kAround_s = 1.5;  // read bandwidth, warming up, canary
constexpr double kCall_s = 20e-6;         // of an all-reduce
constexpr double kRepetitionsByPrecision = 60, kMostSeconds = 10;  // bench's own
constexpr double kCollSize_s = 1, kCalibration_s = 8;

double bytes_of(const std::string& dtype) {
  if (dtype == "f32") return 4;
  return dtype == "int8" ? 1.1 : dtype == "int4" ? 0.6 : 2;
}

double call_s(const Factors& factors) {
  if (ranks_of(factors) == 1) return 0;
  const std::string network = level_of(factors, "emulate", "none");
  const double latency_us = network == "none" ? 0 : parse_emulation(network).latency_us;
  return kCall_s + 2 * latency_us * 1e-6;
}

struct Bench {
  const StudySpec& spec;
  const Factors& factors;
  const ModelSize& model;
  double speed;  // cores that compute

  double number(const std::string& name, double fallback) const {
    const auto found = factors.find(name);
    return found == factors.end() ? fallback : std::stod(found->second);
  }

  double test_s(double once_s) const {
    const RepeatSpec& repeat = spec.repeat;
    const auto least = static_cast<double>(repeat.repetitions.value_or(5));
    const auto most = static_cast<double>(repeat.most.value_or(200));
    const double precise = std::clamp(kRepetitionsByPrecision, std::min(least, most), most);
    const double in_time = repeat.max_seconds.value_or(kMostSeconds) / once_s;
    const double repetitions = std::max(least, std::min(precise, in_time));
    return (repetitions + static_cast<double>(repeat.warmup.value_or(1))) * once_s;
  }

  double seconds() const {
    const bool computes = level_of(factors, "compute", "normal") == "normal";
    const double bytes = model.parameters * bytes_of(level_of(factors, "dtype", "f32"));
    const double calls_s = (2 * model.n_layer + 1) * call_s(factors);
    const double batch = number("batch", 1);
    const double flops = 2 * model.parameters * number("prompt", 128) * batch;
    const double prefill_s = (computes ? flops / (kCoreFlopsPerS * speed) : 0) + calls_s;
    const double step_s =
        (computes ? bytes / (kCoreBytesPerS * speed) +
                        2 * model.parameters * (batch - 1) / (kCoreFlopsPerS * speed)
                  : 0) +
        calls_s;
    double sum_s = computes ? bytes / kLoadBytesPerS + kAround_s : 0;
    if (number("prompt", 128) > 0) sum_s += test_s(prefill_s);
    if (number("generate", 64) > 0) sum_s += test_s(number("generate", 64) * step_s);
    return sum_s;
  }
};

}  // namespace

double guess_seconds(const StudySpec& spec, const Cell& cell, const ModelSize& model, int cores) {
  const int ranks = ranks_of(cell.factors);
  const double start_s = kStart_s + kStartOfRank_s * ranks;
  if (cell.kind == CellKind::calibrate) return start_s + kCalibration_s;
  if (cell.kind == CellKind::coll) {
    const double sizes =
        spec.coll->bytes.empty() ? 10 : static_cast<double>(spec.coll->bytes.size());
    return start_s + sizes * spec.coll->max_seconds.value_or(kCollSize_s);
  }
  const int threads = std::max(1, threads_of(cell.factors));
  const bool here = nodes_of(cell.factors) == 1;
  const int busy = here ? std::min(ranks * threads, std::max(1, cores)) : ranks * threads;
  return start_s + Bench{spec, cell.factors, model, static_cast<double>(busy)}.seconds();
}

}  // namespace shardlm
