// The options of `shardlm bench` and `shardlm bench coll`.
#pragma once

#include "launcher/options_table.h"

namespace shardlm {

/// The engines that the lists of types, threads and all-reduces make, crossed in this order.
std::vector<EngineOptions> bench_engines(const BenchOptions& options);

CommandTable bench_command(BenchOptions& options);
CommandTable coll_command(CollOptions& options);

}  // namespace shardlm
