// What a launch will take, before anything has run: a guess for the planner, corrected by the first
// launches that end (expected_seconds, budget.h).
#pragma once

#include "study/sweep/cell.h"

namespace shardlm {

/// Of the model of a cell.
struct ModelSize {
  double parameters = 0;
  int n_layer = 0;
};

/// Seconds of one launch: start of the job, making the weights, and the repetitions of each test at
/// what an ordinary core does (6 GB/s, 15 GFLOP/s). `cores`: of this machine.
double guess_seconds(const StudySpec& spec, const Cell& cell, const ModelSize& model, int cores);

}  // namespace shardlm
