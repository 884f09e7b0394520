#include "study/collective_time.h"

#include <algorithm>
#include <bit>

namespace shardlm {
namespace {

using Rounds = std::vector<MessageRound>;

int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

// The ranks of the largest power of two below; the others hand theirs in before and get it after.
struct Core {
  explicit Core(int ranks)
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        left_over(ranks > size) {}
  void add_both_ends(Rounds& rounds, double n) const {
    if (left_over) rounds.push_back({.times = 1, .bytes = n, .summed_bytes = n});
    if (left_over) rounds.push_back({.times = 1, .bytes = n});
  }
  int size;
  bool left_over;
};

Rounds recursive_doubling(int ranks, double n) {
  const Core core(ranks);
  const double log = ceil_log2(core.size);
  Rounds rounds = {{.times = log, .bytes = n, .summed_bytes = n}};
  core.add_both_ends(rounds, n);
  return rounds;
}

Rounds rabenseifner(int ranks, double n) {
  const Core core(ranks);
  Rounds rounds;
  for (double part = n / 2; part >= n / core.size * (1 - 1e-9) && core.size > 1; part /= 2) {
    rounds.push_back({.times = 1, .bytes = part, .summed_bytes = part});  // halving
    rounds.push_back({.times = 1, .bytes = part});                        // doubling
  }
  core.add_both_ends(rounds, n);
  return rounds;
}

}  // namespace

double gamma_s_per_byte(std::span<const GammaClass> gamma, double bytes) {
  if (gamma.empty()) return 0;
  const auto it = std::find_if(gamma.begin(), gamma.end(), [&](const GammaClass& g) {
    return bytes <= static_cast<double>(g.to_bytes);
  });
  return it == gamma.end() ? gamma.back().s_per_byte : it->s_per_byte;
}

std::optional<std::vector<MessageRound>> rounds_of(Algorithm algorithm, int ranks, double n) {
  if (ranks <= 1) return Rounds{};
  const double others = ranks - 1, part = n / ranks, tree = ceil_log2(ranks);
  switch (algorithm) {
    case Algorithm::shm_oneshot:
    case Algorithm::direct:
      return Rounds{{1, n, others, others, others * n}};
    case Algorithm::shm_twoshot:
      return Rounds{{1, part, others, others, others * part}, {1, part, others, others, 0}};
    case Algorithm::recdbl:
      return recursive_doubling(ranks, n);
    case Algorithm::rabenseifner:
      return rabenseifner(ranks, n);
    case Algorithm::ring:
      return Rounds{{others, part, 1, 0, part}, {others, part, 1, 0, 0}};
    case Algorithm::star:
      return Rounds{{1, n, others, others, others * n}, {1, n, others, others, 0}};
    case Algorithm::tree:
      return Rounds{{tree, n, 1, 0, n}, {tree, n, 1, 0, 0}};
    case Algorithm::two_level:
    case Algorithm::mpi:
      return std::nullopt;
  }
  return std::nullopt;
}

double rounds_s(std::span<const MessageRound> rounds, const LinkClass& link,
                std::span<const GammaClass> gamma, double sharers) {
  double total = 0;
  for (const MessageRound& round : rounds) {
    const LinkSegment& cost = link.segment(round.bytes);
    const double counted = link.alpha_holds_one_message ? 1 : 0;
    const double further = std::max(0.0, round.posted - counted);
    const double moved = round.partners * round.bytes * sharers;
    total += round.times * (cost.alpha_s + moved * cost.beta_s_per_byte +
                            further * link.per_message_s.value_or(0) +
                            round.summed_bytes * gamma_s_per_byte(gamma, round.summed_bytes));
  }
  return total;
}

double rounds_count(std::span<const MessageRound> rounds) {
  double count = 0;
  for (const MessageRound& round : rounds) count += round.times;
  return count;
}

}  // namespace shardlm
