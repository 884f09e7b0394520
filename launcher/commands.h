// The commands that know the engine, one file each. Those that take a world run on every rank.
#pragma once

#include <iosfwd>

#include "comm/mpi_world.h"
#include "launcher/options.h"

namespace shardlm {

int run_generate(const GenerateOptions& options, MpiWorld& world);
int run_score(const ScoreOptions& options, MpiWorld& world);
int run_dump(const DumpOptions& options, MpiWorld& world);

/// 0 if nothing differs beyond the tolerance, else 1, as diff(1) does.
int run_dump_diff(const DumpOptions& options, std::ostream& out);
void run_plan(const PlanOptions& options, std::ostream& out);

}  // namespace shardlm
