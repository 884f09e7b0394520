// What every AllReducer must do. All ranks of the group call a check together, with the same
// arguments; failures go to GoogleTest.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/all_reducer.h"
#include "comm/communicator.h"

namespace shardlm {

/// A rank's place in its group, and its count of the group's calls.
struct ReducerRank {
  int rank = 0;
  int size = 1;
  std::uint64_t calls = 0;
  Call next_sum() { return {Op::all_reduce, {SiteKind::attn_out, 3}, ++calls}; }
};

enum class AddendPlace {
  own,      ///< memory of the rank's own
  offered,  ///< the reducer's, where it offers any
  apart,    ///< own memory, rows apart from each other
  mixed,    ///< offered on even ranks, own on odd ones
};

/// Whole numbers whose float sum is exact in every order (float32), or large integers (i64),
/// against their closed form.
void check_reducer_sums(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                        std::int64_t cols, DType dtype, AddendPlace place = AddendPlace::own);

/// Random addends: the bits of a plain loop in rank order.
void check_reducer_order(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                         std::int64_t cols);

/// Random addends in [-1, 1] and what the reducer makes of their sum, which is within `tolerance`
/// of it in double.
std::vector<float> check_reducer_rounding(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                                          std::int64_t cols, double tolerance);

}  // namespace shardlm
