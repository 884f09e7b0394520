// One call of a collective, and how it fails: the same words whatever the transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"

namespace shardlm {

enum class Op : std::uint8_t { all_reduce, broadcast, gather, barrier };

struct Call {
  Op op = Op::barrier;
  Site site;
  std::uint64_t number = 0;  ///< counts this rank's collectives, from 1: equal on ranks in step
};

/// "all_reduce at attn_out[3] (call 12)"
std::string call_text(const Call& call);

/// Seconds that this rank waits in the call (0 or less: for ever). A rank that waits for
/// the root of a broadcast waits a little longer than the root waits for a missing rank, so that
/// the one that knows the culprit speaks first.
double wait_limit(const Call& call, bool waits_for_root, const Deadlines& deadlines);

/// How long to wait for a rank that itself waits so long for others: a little longer, likewise.
double limit_behind(double limit_s);

/// "rank 2", "ranks 0, 2-4", of ascending numbers.
std::string ranks_text(std::span<const int> ranks);

/// The last call in which a rank was known to take part, by whom waits for it.
struct LastSeen {
  int rank = 0;
  Call call;  ///< number 0: none yet
};

/// "within 3 s, since 10:05:23 UTC", of a wait that has lasted for its limit.
std::string waited_text(
    double limit_s, std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// The ranks have not come within the limit: Error(ExitCode::peer). `last`: of these ranks, where
/// the transport knows.
[[noreturn]] void fail_missing(const Call& call, std::span<const int> ranks, double limit_s,
                               std::span<const LastSeen> last = {});

/// The ranks ended their part in the group: Error(ExitCode::peer).
[[noreturn]] void fail_departed(const Call& call, std::span<const int> ranks);

/// The peer is in another call than this rank ("all_reduce at embed of [3, 8]"), which is a fault
/// of the program: Error(ExitCode::bug).
[[noreturn]] void fail_out_of_step(const Call& call, int peer, const std::string& expected,
                                   const std::string& found);

}  // namespace shardlm
