// A kind of path between ranks (shared memory, messages on a machine, messages between machines)
// and what a message over it costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardlm {

/// Messages of up to `to_bytes` take alpha_s + bytes x beta_s_per_byte.
struct LinkSegment {
  std::uint64_t from_bytes = 0, to_bytes = 0;
  double alpha_s = 0, beta_s_per_byte = 0;
};

/// What was measured of one size: a message one way.
struct LinkPoint {
  std::uint64_t bytes = 0;
  double low_s = 0;     ///< 5th percentile: what the fit takes
  double median_s = 0;  ///< what a reader should expect
  std::int64_t n = 0;
};

struct LinkClass {
  std::string name = {};       ///< "shm", "node", "network", "emulated"
  std::string transport = {};  ///< "shm" or "mpi": how its bytes go
  int pairs = 0;               ///< of ranks that were measured; 0: documented, not measured
  std::vector<std::string> hosts = {};
  std::vector<LinkSegment> segments = {};    ///< ascending; never empty once read or made
  std::optional<double> per_message_s = {};  ///< `o`: a further message at the same time
  /// True of what was measured: alpha is that of a whole ping-pong and holds the sending of one
  /// message, so that only the further ones cost `o`. The formulas of docs/communication.md count
  /// P - 1.
  bool alpha_holds_one_message = false;
  std::optional<double> fit_error = {};  ///< median relative error of the fit
  std::vector<LinkPoint> points = {};

  /// The segment of a message; that of the largest ones above all that was measured.
  const LinkSegment& segment(double bytes) const;
  double message_s(double bytes) const;
};

}  // namespace shardlm
