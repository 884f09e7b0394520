#include "study/clock_offsets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "comm/ticks.h"
#include "engine/wire.h"

namespace shardlm {
namespace {

constexpr int kExchanges = 100;
constexpr Site kSite{SiteKind::dump};

// Rank 0 tells all whether some rank has another clock.
bool any_other_machine(Communicator& comm, const std::string& machine, std::vector<bool>& same) {
  std::vector<std::vector<std::byte>> all;
  comm.gather(kSite, std::as_bytes(std::span(machine)), all, 0);
  std::vector<std::byte> answer(1);
  for (const auto& theirs : all) {
    same.push_back(!theirs.empty() && theirs == all[0]);
  }
  if (!same.empty()) same[0] = true;
  const bool others = std::find(same.begin(), same.end(), false) != same.end();
  answer[0] = static_cast<std::byte>(others ? 1 : 0);
  comm.broadcast(kSite, answer, 0);
  return answer[0] != std::byte{0};
}

}  // namespace

ClockOffset offset_of(std::int64_t sent_ns, std::int64_t there_ns, std::int64_t back_ns) {
  const std::int64_t round_trip = back_ns - sent_ns;
  const std::int64_t middle = sent_ns + round_trip / 2;
  return {middle, there_ns - middle, (round_trip + 1) / 2};
}

std::vector<ClockOffset> measure_clock_offsets(Communicator& comm, const std::string& machine) {
  std::vector<bool> same;
  std::vector<ClockOffset> best(comm.rank() == 0 ? static_cast<std::size_t>(comm.size()) : 0);
  const bool exchange = any_other_machine(comm, machine, same);
  for (ClockOffset& o : best) o = {steady_ns(), 0, 0};
  std::vector<std::byte> question;
  std::vector<std::vector<std::byte>> answers;
  for (int i = 0; exchange && i < kExchanges; ++i) {
    const std::int64_t sent_ns = steady_ns();
    comm.broadcast(kSite, question, 0);
    const std::int64_t there_ns = steady_ns();
    comm.gather(kSite, std::as_bytes(std::span(&there_ns, 1)), answers, 0);
    const std::int64_t back_ns = steady_ns();
    for (std::size_t r = 0; r < best.size(); ++r) {
      if (same[r]) continue;
      const auto theirs = ByteReader(answers[r]).get<std::int64_t>();
      const ClockOffset o = offset_of(sent_ns, theirs, back_ns);
      if (i == 0 || o.error_ns < best[r].error_ns) best[r] = o;
    }
  }
  return best;
}

ClockDrift::ClockDrift(const ClockOffset& first, const ClockOffset& last)
    : first_(first), error_ns_(std::max(first.error_ns, last.error_ns)) {
  if (last.at_ns > first.at_ns) {
    drift_ = static_cast<double>(last.offset_ns - first.offset_ns) /
             static_cast<double>(last.at_ns - first.at_ns);
  }
}

std::int64_t ClockDrift::to_rank_0(std::int64_t ns) const {
  // offset(t) = first + drift * (t - first.at), with t of rank 0's clock and ns = t + offset(t).
  const double since = static_cast<double>(ns - first_.at_ns - first_.offset_ns);
  return first_.at_ns + std::llround(since / (1 + drift_));
}

}  // namespace shardlm
