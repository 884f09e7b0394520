// Where the time of a test went, over all its repetitions and ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/config.h"
#include "study/comm_report.h"

namespace shardlm {

/// The all-reduces of a test, counted and as the formula of docs/communication.md says.
struct AllReduceCount {
  std::uint64_t calls = 0, bytes = 0;    ///< bytes: of the messages, as rank 0's caller sees them
  std::optional<std::uint64_t> sent{0};  ///< by all ranks together; none: a library did it
  std::uint64_t expected_calls = 0, expected_bytes = 0;
  std::vector<double> transfers_us;  ///< of each call, the longest of any rank
  std::set<std::string> algorithms;
  bool as_expected() const { return calls == expected_calls && bytes == expected_bytes; }
};

class TestAccount {
 public:
  /// What sums this job should make of a pass: none (one rank, --comm none), of floats, or exact
  /// ones, whose elements in the blocks have 8 bytes.
  enum class Sums { none, floats, exact };
  TestAccount(const ModelConfig& model, Sums sums) : model_(model), sums_(sums) {}

  /// A repetition: exactly its time, see window_of(). `passes`: that it should have.
  void add(const MergedRun& window, std::uint64_t passes);

  bool empty() const { return ranks_.empty(); }
  std::uint64_t steps() const { return steps_; }  ///< forward passes
  const std::vector<RankRow>& ranks() const { return ranks_; }
  const AllReduceCount& all_reduces() const { return all_reduces_; }
  RankRow mean() const;  ///< over the ranks

  /// compute + wait + transfer + other against the wall time, of the rank where they part most.
  double closing_error() const;
  /// That is within 1 %, and no record and no pass is missing.
  bool closes() const;
  std::uint64_t lost() const { return lost_; }  ///< records, of all ranks
  std::uint64_t violations() const { return violations_; }
  const std::string& clock() const { return clock_; }
  const std::string& split() const { return split_; }
  double clock_error_us() const { return clock_error_us_; }

  /// See docs/communication.md; 1 where there are no collectives.
  double load_balance() const;
  double serialisation() const;
  double transfer_efficiency() const;
  double parallel_efficiency() const {
    return load_balance() * serialisation() * transfer_efficiency();
  }

 private:
  void add_ranks(const CommReport& report);
  void add_phases(const CommReport& report);
  void add_all_reduces(const MergedRun& window);

  ModelConfig model_;
  Sums sums_;
  std::uint64_t steps_ = 0, expected_steps_ = 0, lost_ = 0, violations_ = 0;
  std::vector<RankRow> ranks_;
  AllReduceCount all_reduces_;
  std::string clock_, split_;
  double clock_error_us_ = 0;
  // Milliseconds of computing between collectives: a rank's mean, the largest rank's, and what the
  // passes would take if collectives cost nothing; and what they took.
  double mean_ms_ = 0, most_ms_ = 0, ideal_ms_ = 0, elapsed_ms_ = 0;
};

}  // namespace shardlm
