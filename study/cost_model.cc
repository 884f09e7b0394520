#include "study/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardlm {
namespace {

// Ranks that recursive halving and doubling run on: the others hand theirs in before, and get the
// sum after.
struct PowerOfTwo {
  explicit PowerOfTwo(int ranks)
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        log(std::bit_width(static_cast<unsigned>(size)) - 1),
        left_over(ranks - size) {}
  int size, log, left_over;
};

int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

CostTerms recursive_doubling(int ranks, double n) {
  const PowerOfTwo p(ranks);
  const double extra = p.left_over > 0 ? 1 : 0, log = p.log;
  return {log + 2 * extra, (log + 2 * extra) * n, (log + extra) * n, 0};
}

CostTerms rabenseifner(int ranks, double n) {
  const PowerOfTwo p(ranks);
  const double extra = p.left_over > 0 ? 1 : 0, share = 1.0 - 1.0 / p.size;
  return {2.0 * p.log + 2 * extra, 2 * share * n + 2 * extra * n, share * n + extra * n, 0};
}

}  // namespace

double CostTerms::seconds(const LinkCost& link) const {
  return rounds * link.alpha_s + moved_bytes * link.beta_s_per_byte +
         summed_bytes * link.gamma_s_per_byte + messages * link.per_message_s;
}

std::optional<CostTerms> cost_terms(Algorithm algorithm, int ranks, double n) {
  if (ranks <= 1) return CostTerms{};
  const double others = ranks - 1, share = others / ranks;
  const double tree = ceil_log2(ranks);
  switch (algorithm) {
    case Algorithm::shm_oneshot:
    case Algorithm::direct:
      return CostTerms{1, others * n, others * n, others};
    case Algorithm::shm_twoshot:
      return CostTerms{2, 2 * share * n, share * n, 2 * others};
    case Algorithm::recdbl:
      return recursive_doubling(ranks, n);
    case Algorithm::rabenseifner:
      return rabenseifner(ranks, n);
    case Algorithm::ring:
      return CostTerms{2 * others, 2 * share * n, share * n, 0};
    case Algorithm::star:
      return CostTerms{2, 2 * others * n, others * n, 2 * others};
    case Algorithm::tree:
      return CostTerms{2 * tree, 2 * tree * n, tree * n, 0};
    case Algorithm::two_level:
    case Algorithm::mpi:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> total_sent_bytes(Algorithm algorithm, int ranks, std::uint64_t n) {
  if (ranks <= 1) return 0;
  const auto p = static_cast<std::uint64_t>(ranks);
  const PowerOfTwo two(ranks);
  const auto size = static_cast<std::uint64_t>(two.size);
  const auto outside = 2 * static_cast<std::uint64_t>(two.left_over) * n;
  switch (algorithm) {
    case Algorithm::shm_oneshot:
      return p * n;
    case Algorithm::shm_twoshot:
      return p * n + n;
    case Algorithm::direct:
      return p * (p - 1) * n;
    case Algorithm::recdbl:
      return size * static_cast<std::uint64_t>(two.log) * n + outside;
    case Algorithm::rabenseifner:
      return 2 * (size - 1) * n + outside;
    case Algorithm::ring:
    case Algorithm::star:
    case Algorithm::tree:
      return 2 * (p - 1) * n;
    case Algorithm::two_level:
    case Algorithm::mpi:
      return std::nullopt;
  }
  return std::nullopt;
}

ExpectedTraffic expected_traffic(const ModelConfig& config, std::int64_t tokens) {
  ExpectedTraffic t;
  t.all_reduces = 2 * config.n_layer + 1;
  t.bytes_each = static_cast<std::uint64_t>(tokens * config.n_embd) * sizeof(float);
  t.bytes = static_cast<std::uint64_t>(t.all_reduces) * t.bytes_each;
  return t;
}

std::optional<LinkCost> fit_link(std::span<const TimedSum> sums, int ranks) {
  // Minimise sum of ((a x + b y) / t - 1)^2, x rounds and y bytes of a call of time t.
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  double least = 0, most = 0;
  for (const TimedSum& s : sums) {
    const std::optional<CostTerms> terms = cost_terms(s.algorithm, ranks, s.bytes);
    if (!terms || s.seconds <= 0 || terms->rounds <= 0) continue;
    const double x = terms->rounds / s.seconds;
    const double y = (terms->moved_bytes + terms->summed_bytes) / s.seconds;
    least = xx == 0 ? s.bytes : std::min(least, s.bytes);
    most = std::max(most, s.bytes);
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (most <= least || determinant <= 1e-12 * xx * yy) return std::nullopt;
  LinkCost link{.source = "fit to this run's all-reduces"};
  link.alpha_s = std::max(0.0, (x1 * yy - y1 * xy) / determinant);
  link.beta_s_per_byte = std::max(0.0, (y1 * xx - x1 * xy) / determinant);
  link.gamma_s_per_byte = link.beta_s_per_byte;
  return link;
}

}  // namespace shardlm
