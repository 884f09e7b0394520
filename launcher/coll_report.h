// Results of `shardlm bench coll` in the formats that people and scripts read.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "launcher/machine_facts.h"
#include "launcher/options.h"
#include "study/coll_bench.h"

namespace shardlm {

/// What all results of a run share.
struct CollContext {
  Facts environment;
  int ranks = 2;
  std::vector<int> ranks_of_nodes = {2};
  std::string emulate;       ///< as the option says
  std::string buffers;       ///< "warm", "cold"
  std::string model_source;  ///< of model_us
  bool oversubscribed = false;
};

/// A sample, and how quiet the cores were before its size.
struct CollResult {
  CollSample sample;
  double canary_ratio = 1;
};

/// What a result says of its times, microseconds.
struct CollNumbers {
  MedianEstimate median;
  std::optional<double> p99, efficiency;
  double cv = 0;  ///< standard deviation over mean
  double algbw_gb_s = 0, busbw_gb_s = 0;
};
CollNumbers numbers_of(const CollResult& result, int ranks);

/// All results of one operation and mode at a time.
class CollReport {
 public:
  virtual ~CollReport() = default;
  virtual void begin(const CollContext& context) = 0;
  virtual void add(const CollContext& context, const CollResult& result) = 0;
  virtual void end(const CollContext& context) = 0;
};
std::unique_ptr<CollReport> make_coll_report(BenchFormat format, std::ostream& out);

/// "all_reduce".
std::string op_name(Op op);

}  // namespace shardlm
