// How the ranks of a job meet. `comm` knows no model; it knows that a sum of addends updates a
// residual stream, since fusing the two is what makes an all-reduce cheap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "comm/algorithm.h"

namespace shardlm {

/// What a collective is for. `layer` is -1 where the kind has none.
enum class SiteKind : std::uint8_t { load, step, embed, attn_out, mlp_out, lm_head, dump };
struct Site {
  SiteKind kind = SiteKind::step;
  int layer = -1;
};
std::string site_text(Site site);  ///< "attn_out[3]"

/// What a forward pass is, as far as its collectives differ.
enum class Phase : std::uint8_t {
  load,     ///< before the first pass
  prefill,  ///< some sequence has more than one new token
  decode,   ///< one token a sequence
};
struct StepMark {
  std::uint64_t number = 0;  ///< of the pass, from 1; 0: before the first
  Phase phase = Phase::load;
  std::int32_t rows = 0;  ///< tokens
};
std::string_view phase_text(Phase phase);  ///< "prefill"

struct CallLog;

/// One rank's end of a group. Every member calls the same functions in the same order. A member
/// that does not come within the time limit ends the wait with Error(ExitCode::peer) that names
/// the rank that is missing, the site and the call's sequence number.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string describe() const = 0;  ///< "shared memory, 2 ranks"

  /// Memory [rows, cols] where this rank may write its addend of the next collective, an all_reduce
  /// at `site`, so that the others read it where it was written. None: any tensor will do.
  virtual std::optional<Tensor> addend(Site /*site*/, std::int64_t /*rows*/, std::int64_t /*cols*/,
                                       DType /*dtype*/ = DType::f32) {
    return std::nullopt;
  }

  /// Sums the ranks' addends [T, n], float32 or fixed point (DType::i64, backend/fixed_point.h),
  /// with equal bits on all ranks, and applies the sum to the residual stream as ResidualUpdate
  /// says. T and n are the same on all ranks.
  virtual void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) = 0;

  /// True: a pass that can should compute in two parts whose sums go on in the background, by the
  /// two calls below.
  virtual bool overlaps() const { return false; }
  /// An all_reduce in two parts. The addend stays as it is until finish_all_reduce() has applied
  /// its sum; that takes the oldest one started. At most kMostStarted may be under way, and
  /// meanwhile no other collective may be called.
  static constexpr int kMostStarted = 2;
  virtual void start_all_reduce(Site site, const Tensor& addend);
  virtual void finish_all_reduce(const ResidualUpdate& update);

  /// What the sums keep of the addends, at worst; with `fixed_point`, those of fixed point.
  virtual Exactness exactness(bool /*fixed_point*/ = false) const { return Exactness::exact; }
  /// Off: sums whose addends would be rounded on the way go the same way without, so that the two
  /// can be compared. By all ranks together, between passes.
  virtual void set_rounding(bool /*on*/) {}

  /// The root's bytes arrive in `message` of every other rank, resized to fit.
  virtual void broadcast(Site site, std::vector<std::byte>& message, int root) = 0;

  /// At the root, all[r] becomes rank r's bytes (lengths may differ); elsewhere `all` is untouched.
  virtual void gather(Site site, std::span<const std::byte> mine,
                      std::vector<std::vector<std::byte>>& all, int root) = 0;

  virtual void barrier(Site site) = 0;

  /// A forward pass begins, and ends: what the collectives in between belong to. On all ranks
  /// alike.
  virtual void begin_step(const StepMark& /*step*/) {}
  virtual void end_step() {}

  /// Where this rank's calls are recorded, once it has a capacity; none: nowhere.
  virtual CallLog* log() { return nullptr; }
  /// Where its passes are recorded, also by one rank alone, which has no calls.
  virtual CallLog* pass_log() { return log(); }
  /// The sums that a device takes without the host have a log of their own, by the steady clock:
  /// the last `capacity` from now on; 0: none. Before any pass, or after the last.
  virtual void record_device_calls(std::size_t /*capacity*/) {}
  /// Waits for the device and gives what it has recorded; none: there is no such device.
  virtual const CallLog* device_log() { return nullptr; }

  /// True: an all-reduce is enqueued on the device without the host's help, so that a pass with
  /// its all-reduces may be recorded and replayed.
  virtual bool recordable() const { return false; }
};

/// How long to wait for the others; 0 or less: for ever. A rank that waits for a broadcast of
/// SiteKind::step (or, while loading, of SiteKind::load) waits 5 s longer, so that the coordinator
/// is the first to name a missing rank. A server whose coordinator may be idle for longer than that
/// must either set no limit or send an empty step in time.
struct Deadlines {
  double collective_s = 60;  ///< any collective but those of loading
  double load_s = 600;       ///< collectives of SiteKind::load: ranks read files at different speed
};

}  // namespace shardlm
