// Results of `shardlm bench` in the formats that people and scripts read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/bench.h"
#include "launcher/options.h"
#include "study/wire_quality.h"

namespace shardlm {

/// What all results of a run share.
struct BenchContext {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string source;  ///< the shape or the folder
  bool fake_weights = false;
  ModelConfig config;
  int ranks = 1;
  std::int64_t prefill_chunk = 0;
  std::string comm, reduction, compute;  ///< as the options say
  std::vector<std::string> warnings;     ///< see result_warnings()
};

/// One test, measured.
struct BenchResult {
  BenchTest test;
  std::string dtype, kv_dtype;
  int threads = 1;
  std::string backend, backend_text, comm_text;
  std::string exactness;               ///< of the sums
  std::optional<WireQuality> quality;  ///< of sums that are rounded on the way
  bool shared_gpu = false;
  double load_s = 0;
  std::uint64_t weight_bytes = 0;       ///< of the matrices that a step reads, over all ranks
  std::optional<double> read_gb_per_s;  ///< measured; none on a GPU
  std::vector<double> seconds;          ///< of each repetition
};

/// The median, of two middle ones their mean; and the ends.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);

// What a result says, derived from its seconds.
Spread tokens_per_s(const BenchResult& result);
/// Of prefill: milliseconds to the last sequence's first id. None of decoding.
std::optional<double> ttft_ms(const BenchResult& result);
/// Of decoding: milliseconds a step. None of a prefill.
std::optional<double> ms_per_step(const BenchResult& result);
/// Of decoding: weights read a second, in 10^9 bytes; none where there are none.
std::optional<double> weight_gb_per_s(const BenchResult& result);
std::optional<double> share_of_read(const BenchResult& result);
/// None of a run without arithmetic.
std::optional<double> gflop_per_s(const BenchContext& context, const BenchResult& result);

/// Writes results as they come (json: all at the end).
class BenchReport {
 public:
  virtual ~BenchReport() = default;
  virtual void begin(const BenchContext& context) = 0;
  virtual void add(const BenchContext& context, const BenchResult& result) = 0;
  virtual void end(const BenchContext& context) = 0;
};
std::unique_ptr<BenchReport> make_bench_report(BenchFormat format, std::ostream& out);

}  // namespace shardlm
