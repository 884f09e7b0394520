// The repetitions of one loaded model's tests, on all ranks.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/bench.h"
#include "launcher/job.h"
#include "launcher/options.h"
#include "launcher/session.h"
#include "study/energy.h"
#include "study/machine_noise.h"
#include "study/measuring.h"
#include "study/test_account.h"

namespace shardlm {

/// What was measured of a test; rank 0's.
struct BenchSamples {
  std::vector<double> seconds;  ///< of each repetition
  std::vector<double> gaps_s;   ///< of decoding: from an id to the next one
  std::int64_t passes = 0;      ///< of a repetition
  Stopped stopped = Stopped::most;
  std::optional<TestAccount> account;  ///< none: this communicator records nothing
  std::optional<double> joules;        ///< of all repetitions
  Canary canary;                       ///< of the rank where it was worst
};

/// Collective: of every rank, rank 0 alone has the results.
class BenchRun {
 public:
  BenchRun(const BenchOptions& options, const Job& job, Session& session,
           const std::vector<BenchTest>& tests, const BenchSetup& setup);

  /// Within Session::run_parts(): goes round the tests, repetition by repetition, so that a drift
  /// of the machine strikes them alike, until each has enough. Returns the exit code.
  int run();

  const std::vector<BenchSamples>& samples() const { return samples_; }
  /// "RAPL, 2 packages on 1 machine", or why there are no joules; rank 0's.
  const std::string& joules_source() const { return joules_source_; }

 private:
  struct State {
    std::vector<double> warmup;
    double begun_s = 0, measuring_s = 0;
    bool begun = false, warm = false, done = false;
  };

  std::int32_t next_test();
  int repeat(std::size_t test);
  void watch(std::size_t test);
  void find_counters();
  void keep(std::size_t test, const BenchTiming& timing, std::optional<MergedRun> records,
            double joules);
  bool root() const { return job_.world.rank() == 0; }

  const BenchOptions& o_;
  const Job& job_;
  Session& session_;
  const std::vector<BenchTest>& tests_;
  BenchSetup setup_;
  std::unique_ptr<PartRecorder> recorder_;
  EnergyMeter meter_;
  bool has_joules_ = false;
  std::string joules_source_;
  std::vector<BenchSamples> samples_;  // [test]
  std::vector<State> states_;          // [test]
  std::size_t last_ = 0;               // the test of the last repetition
};

}  // namespace shardlm
