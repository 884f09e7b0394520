// A network that is slower than this machine's: what the user asks for, and how long messages take
// over it. Everything measured over one is to be called `emulated`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardlm {

/// Over a real network of the same kind calls would last as long as over this one; its times are
/// added to those of the real transport beneath, which should be quick (shared memory).
struct Emulation {
  double latency_us = 0;   ///< of a round of messages, one way
  double gbit_per_s = 0;   ///< at which a rank sends and receives; 0: no limit
  double jitter_us = 0;    ///< at most so much more, evenly spread, drawn for each exchange
  int slow_rank = -1;      ///< comes later than it could to every all-reduce; -1: none
  double slow_us = 0;      ///< by so much
  std::uint64_t seed = 0;  ///< of the jitter: equal seeds repeat it
  bool operator==(const Emulation&) const = default;

  bool delays() const { return latency_us > 0 || gbit_per_s > 0 || jitter_us > 0; }
  bool slows() const { return slow_rank >= 0 && slow_us > 0; }
};

/// "latency_us=100,gbit=1,jitter_us=5,slow_rank=2,slow_us=300,seed=7", any of them, in any order.
/// Error(ExitCode::usage) with the part that cannot be read.
Emulation parse_emulation(std::string_view text);
/// The inverse, of what is not at its default.
std::string emulation_text(const Emulation& emulation);

/// What an exchange asks of the network, on its longest path.
struct NetworkLoad {
  double rounds = 0;  ///< of messages that wait for each other
  double bytes = 0;
};

/// Nanoseconds of an exchange. `call` and `part` (of its exchanges, from 0) choose the jitter,
/// which is so the same on all ranks, and in every run.
std::int64_t network_ns(const Emulation& emulation, const NetworkLoad& load, std::uint64_t call,
                        std::uint32_t part);

}  // namespace shardlm
