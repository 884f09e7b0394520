// Results of `shardlm bench` in the formats that people and scripts read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/bench.h"
#include "launcher/bench_run.h"
#include "launcher/machine_facts.h"
#include "launcher/options.h"
#include "study/wire_quality.h"

namespace shardlm {

/// What all results of a run share.
struct BenchContext {
  Facts environment;   ///< see environment_record()
  std::string source;  ///< the shape or the folder
  bool fake_weights = false;
  ModelConfig config;
  int ranks = 1;
  std::vector<int> ranks_of_nodes = {1};
  std::int64_t prefill_chunk = 0;
  std::string comm, reduction, compute;  ///< as the options say
  std::vector<std::string> warnings;     ///< see result_warnings()
};

/// One test, measured.
struct BenchResult {
  BenchTest test;
  std::string dtype, kv_dtype;
  int threads = 1;
  std::string allreduce, wire, overlap, emulate;  ///< as the options say
  std::string backend, backend_text, comm_text;
  std::string exactness;               ///< of the sums
  std::optional<WireQuality> quality;  ///< of sums that are rounded on the way
  bool shared_gpu = false;
  double load_s = 0;
  std::uint64_t weight_bytes = 0;       ///< of the matrices that a step reads, over all ranks
  std::optional<double> read_gb_per_s;  ///< measured; none on a GPU
  bool oversubscribed = false;          ///< some node has more threads than cores
  std::string joules_source;            ///< or why there are none
  std::string allreduce_source;         ///< why the sums go as they go
  std::string model_hash;               ///< of the files, or of the shape
  BenchSamples samples;

  bool decodes() const { return test.kind == BenchTest::Kind::decode; }
};

// What a result says, derived from its samples.
MedianEstimate tokens_per_s(const BenchResult& result);
/// Of prefill: milliseconds to the last sequence's first id. None of decoding.
std::optional<double> ttft_ms(const BenchResult& result);
/// Of decoding: milliseconds a step. None of a prefill.
std::optional<double> ms_per_step(const BenchResult& result);
/// Of decoding: weights read a second, in 10^9 bytes; none where there are none.
std::optional<double> weight_gb_per_s(const BenchResult& result);
std::optional<double> share_of_read(const BenchResult& result);
/// Of the processors, for a token of one sequence; none where no counter works.
std::optional<double> joules_per_token(const BenchResult& result);
/// None of a run without arithmetic.
std::optional<double> gflop_per_s(const BenchContext& context, const BenchResult& result);

/// Means over ranks and passes.
struct StepTimes {
  double compute_ms = 0, wait_ms = 0, transfer_ms = 0, other_ms = 0, wall_ms = 0;
  double total_ms() const { return compute_ms + wait_ms + transfer_ms + other_ms; }
  double comm_share() const { return total_ms() > 0 ? (wait_ms + transfer_ms) / total_ms() : 0; }
  double wait_share() const { return total_ms() > 0 ? wait_ms / total_ms() : 0; }
};
/// None where nothing was recorded.
std::optional<StepTimes> step_times(const BenchResult& result);

/// What of the environment record belongs to one result: the all-reduces in use, clock and error,
/// types, model.
Facts result_facts(const BenchResult& result);

/// Writes results as they come (json: all at the end).
class BenchReport {
 public:
  virtual ~BenchReport() = default;
  virtual void begin(const BenchContext& context) = 0;
  virtual void add(const BenchContext& context, const BenchResult& result) = 0;
  virtual void end(const BenchContext& context) = 0;
};
/// How a table's cell shows a number: "-" of none.
std::string bench_cell(const std::optional<double>& x, int decimals);
std::unique_ptr<BenchReport> make_bench_table(std::ostream& out);
/// csv, json, jsonl.
std::unique_ptr<BenchReport> make_bench_data(BenchFormat format, std::ostream& out);
std::unique_ptr<BenchReport> make_bench_report(BenchFormat format, std::ostream& out);

}  // namespace shardlm
