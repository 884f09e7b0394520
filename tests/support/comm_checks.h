// What every transport must do, whatever carries the ranks: run by the thread tests and under
// mpirun. All ranks of the communicator call a check together; failures go to GoogleTest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"

namespace shardlm {

/// Sums whose every order gives the same float, against their closed form.
void check_exact_sums(Communicator& comm, Backend& backend, std::int64_t rows, std::int64_t cols);

/// Random addends with bias, with and without LayerNorm: the bits of a plain loop in rank order;
/// the normed rows agree with the formula and have the same bits on all ranks, fused or not.
void check_rank_order(Communicator& comm, Backend& backend, std::int64_t rows, std::int64_t cols,
                      std::uint64_t seed);

/// Broadcast and gather of messages of `bytes` bytes (gather: different lengths) with this root.
void check_messages(Communicator& comm, std::size_t bytes, int root);

/// `calls` collectives in an order that is random, and the same on all ranks.
void check_mixed_calls(Communicator& comm, Backend& backend, int calls, std::uint64_t seed,
                       std::size_t largest_message);

/// What the call threw, or an empty text.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace shardlm
