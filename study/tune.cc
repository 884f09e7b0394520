#include "study/tune.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "comm/ticks.h"
#include "study/call_timing.h"

namespace shardlm {
namespace {

// Rounds of all candidates that fit the time, as rank 0 finds.
int agree_on_rounds(Communicator& control, double round_us, const TuneLimits& limits) {
  const double fitting = limits.seconds * 1e6 / std::max(round_us, 1e-3);
  const auto rounds = static_cast<std::int32_t>(std::clamp(
      fitting, static_cast<double>(limits.least_calls), static_cast<double>(limits.most_calls)));
  std::vector<std::byte> message(sizeof rounds);
  std::memcpy(message.data(), &rounds, sizeof rounds);
  control.broadcast({SiteKind::load}, message, 0);
  std::int32_t agreed = 0;
  std::memcpy(&agreed, message.data(), sizeof agreed);
  return agreed;
}

TuneSample summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  TuneSample sample;
  const std::size_t n = times.size();
  sample.calls = static_cast<int>(n);
  sample.median_us = (times[(n - 1) / 2] + times[n / 2]) / 2;
  std::tie(sample.low_us, sample.high_us) = median_interval(times);
  sample.p99_us = n >= 2000 ? times[n * 99 / 100] : -1;
  return sample;
}

void tune_size(Communicator& control, Backend& backend, std::span<const TuneCandidate> candidates,
               std::size_t bytes, const TuneLimits& limits, std::vector<TuneSample>& samples) {
  constexpr int kWarmup = 10;
  SumCall message(backend, bytes);
  // Another candidate meets as quickly as this one.
  const auto meet = [&](std::size_t i) -> Communicator& {
    return candidates.size() == 1 ? control : *candidates[i == 0 ? 1 : 0].comm;
  };
  const auto call_us = [&](std::size_t i) { return message.call_us(*candidates[i].comm, meet(i)); };
  std::vector<std::uint64_t> wrong;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    wrong.push_back(message.n_wrong(*candidates[i].comm, meet(i)));
  const std::int64_t start = steady_ns();
  for (int round = 0; round < kWarmup; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) call_us(i);
  }
  const double round_us = static_cast<double>(steady_ns() - start) * 1e-3 / kWarmup;
  const int rounds = agree_on_rounds(control, round_us, limits);

  std::vector<std::vector<double>> times(candidates.size());
  std::vector<std::size_t> order(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    draw_order(order, static_cast<std::uint32_t>(round));
    for (const std::size_t i : order) times[i].push_back(call_us(i));
  }
  const auto wrong_by_rank = gathered(control, wrong);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::vector<double> slowest = slowest_of_ranks(control, times[i]);
    if (slowest.empty()) continue;
    TuneSample sample = summary(std::move(slowest));
    sample.choice = candidates[i].choice;
    sample.bytes = message.bytes();
    for (const auto& of_rank : wrong_by_rank) sample.n_wrong += of_rank[i];
    samples.push_back(sample);
  }
}

const TuneSample* of_choice(std::span<const TuneSample> samples, const AllReduceChoice& choice) {
  const auto it = std::find_if(samples.begin(), samples.end(),
                               [&](const TuneSample& s) { return s.choice == choice; });
  return it == samples.end() ? nullptr : &*it;
}

}  // namespace

std::vector<AllReduceChoice> tune_choices(const GroupShape& shape) {
  std::vector<AllReduceChoice> choices;
  if (shape.nodes == 1) {
    choices.push_back({Algorithm::shm_oneshot});
    choices.push_back({Algorithm::shm_twoshot});
  } else if (shape.most_ranks_on_a_node > 1) {
    for (const Algorithm between : {Algorithm::direct, Algorithm::recdbl, Algorithm::rabenseifner})
      choices.push_back({Algorithm::two_level, WireFormat::f32, between});
  }
  for (const Algorithm a : {Algorithm::direct, Algorithm::recdbl, Algorithm::rabenseifner,
                            Algorithm::ring, Algorithm::star, Algorithm::tree, Algorithm::mpi})
    choices.push_back({a});
  return choices;
}

std::vector<TuneSample> tune(Communicator& control, Backend& backend,
                             std::span<const TuneCandidate> candidates, const TuneLimits& limits,
                             const std::function<void(std::size_t, std::size_t)>& progress) {
  check(!candidates.empty(), "tune: something to try");
  std::vector<TuneSample> samples;
  for (std::size_t i = 0; i < limits.bytes.size(); ++i) {
    tune_size(control, backend, candidates, limits.bytes[i], limits, samples);
    progress(i + 1, limits.bytes.size());
  }
  return samples;
}

AlgorithmTable quickest(std::span<const TuneSample> samples) {
  std::map<std::size_t, std::vector<TuneSample>> by_size;
  for (const TuneSample& s : samples) {
    if (s.n_wrong == 0) by_size[s.bytes].push_back(s);
  }
  std::vector<AllReduceRule> rules;
  std::size_t below = 0;
  for (const auto& [bytes, all] : by_size) {
    const TuneSample& best =
        *std::min_element(all.begin(), all.end(),
                          [](const auto& a, const auto& b) { return a.median_us < b.median_us; });
    if (!rules.empty()) {
      const TuneSample* kept = of_choice(all, rules.back().choice);
      if (kept != nullptr && best.high_us >= kept->low_us) {
        below = bytes;
        continue;
      }
      rules.back().up_to_bytes = static_cast<std::size_t>(
          std::sqrt(static_cast<double>(below) * static_cast<double>(bytes)));
    }
    rules.push_back({.choice = best.choice});
    below = bytes;
  }
  return AlgorithmTable(std::move(rules));
}

}  // namespace shardlm
