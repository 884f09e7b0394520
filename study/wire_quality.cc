#include "study/wire_quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/wire.h"

namespace shardlm {
namespace {

// The last tokens go one by one: the rules of an all-reduce may differ by phase and size.
constexpr std::int64_t kDecoded = 16;

// Rows [begin, end) of the text, all asked about.
StepPlan plan_rows(const std::vector<std::int32_t>& ids, std::int64_t begin, std::int64_t end,
                   std::int64_t block_tokens) {
  StepPlan plan;
  SequencePlan& s = plan.sequences.emplace_back();
  s.start = begin;
  s.ids.assign(ids.begin() + begin, ids.begin() + end);
  s.blocks.resize(static_cast<std::size_t>((end + block_tokens - 1) / block_tokens));
  std::iota(s.blocks.begin(), s.blocks.end(), 0);
  for (std::int64_t i = begin; i < end; ++i)
    plan.queries.push_back(
        {.row = static_cast<std::int32_t>(i - begin), .query = {}, .penalties = {}});
  return plan;
}

// This rank's logits of all rows but the text's last id: [rows, local ids].
std::vector<float> logits_of(const Context& context, Executor& executor,
                             const std::vector<std::int32_t>& ids, std::int64_t decoded,
                             std::int64_t block_tokens) {
  std::vector<float> all;
  const std::int64_t n = std::ssize(ids) - 1;
  for (std::int64_t begin = 0, end = n - decoded; begin < n; begin = end, ++end) {
    const Tensor logits = executor.forward(plan_rows(ids, begin, end, block_tokens));
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(logits.elements()));
    context.backend.download(logits, std::span(all).subspan(at));
  }
  return all;
}

std::vector<LogitComparison> compare_rows(std::span<const float> a, std::span<const float> b,
                                          Range ids, std::span<const std::int32_t> text) {
  const auto width = static_cast<std::size_t>(ids.size());
  std::vector<LogitComparison> rows;
  for (std::size_t t = 0; t + 1 < text.size(); ++t) {
    rows.push_back(compare_logits(a.subspan(t * width, width), b.subspan(t * width, width),
                                  static_cast<std::int32_t>(ids.begin), text[t + 1]));
  }
  return rows;
}

// The shards' parts of one row as one.
LogitComparison join_row(const std::vector<std::vector<LogitComparison>>& parts, std::size_t row) {
  LogitComparison all;
  for (const auto& part : parts) {  // in the order of the ids: equal ones by the lowest
    const LogitComparison& p = part.at(row);
    if (p.max_a > all.max_a) all.max_a = p.max_a, all.top_a = p.top_a;
    if (p.max_b > all.max_b) all.max_b = p.max_b, all.top_b = p.top_b;
    if (!(p.max_difference <= all.max_difference)) all.max_difference = p.max_difference;
    if (p.has_target != 0) all.target_a = p.target_a, all.target_b = p.target_b;
  }
  for (const auto& part : parts) {
    const LogitComparison& p = part[row];
    all.sum_a += p.sum_a * std::exp(p.max_a - all.max_a);
    all.sum_b += p.sum_b * std::exp(p.max_b - all.max_b);
    all.weighted += p.weighted * std::exp(p.max_a - all.max_a);
  }
  return all;
}

}  // namespace

LogitComparison compare_logits(std::span<const float> a, std::span<const float> b,
                               std::int32_t begin, std::int32_t target) {
  check(a.size() == b.size(), "two rows of logits of equal length");
  LogitComparison c;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto id = begin + static_cast<std::int32_t>(i);
    const double x = a[i], y = b[i], difference = std::abs(x - y);
    if (!(difference <= c.max_difference)) c.max_difference = difference;
    if (x > c.max_a) c.max_a = x, c.top_a = id;
    if (y > c.max_b) c.max_b = y, c.top_b = id;
    if (id == target) c.target_a = x, c.target_b = y, c.has_target = 1;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i], weight = std::exp(x - c.max_a);
    c.sum_a += weight;
    c.sum_b += std::exp(y - c.max_b);
    c.weighted += weight * (x - y);
  }
  return c;
}

WireQuality join_comparisons(const std::vector<std::vector<LogitComparison>>& parts) {
  WireQuality q;
  const std::size_t rows = parts.at(0).size();
  q.tokens = static_cast<std::int64_t>(rows);
  double same = 0, nats_a = 0, nats_b = 0;
  for (std::size_t t = 0; t < rows; ++t) {
    const LogitComparison r = join_row(parts, t);
    const double lse_a = r.max_a + std::log(r.sum_a), lse_b = r.max_b + std::log(r.sum_b);
    if (!(r.max_difference <= q.max_logit_difference)) q.max_logit_difference = r.max_difference;
    same += r.top_a == r.top_b ? 1 : 0;
    // sum of p (log p - log q), where log p = a - lse_a
    q.kl += r.weighted / r.sum_a - (lse_a - lse_b);
    nats_a += lse_a - r.target_a;
    nats_b += lse_b - r.target_b;
  }
  const auto n = static_cast<double>(rows);
  q.kl = q.kl < 0 ? 0 : q.kl / n;  // below 0 by a rounding; not a number stays so
  q.top1_agreement = same / n;
  q.perplexity = std::exp(nats_a / n);
  q.perplexity_change = std::expm1((nats_b - nats_a) / n);
  return q;
}

std::string quality_text(const WireQuality& q) {
  return fmt::format(
      "quality of {}: max |dlogit| {:.2g}, top-1 {:.1f} %, KL {:.1e}, perplexity {:+.2g} % ({} "
      "tokens of {}, the last {} one by one)",
      q.asked, q.max_logit_difference, 100 * q.top1_agreement, q.kl, 100 * q.perplexity_change,
      q.tokens, q.text ? "the fixed text" : "no language: ids drawn at random", q.decoded);
}

std::optional<WireQuality> measure_wire_quality(const Context& context, Executor& executor,
                                                Range vocab_ids, const QualityText& text,
                                                const QualitySetup& setup) {
  Communicator& comm = context.comm;
  std::vector<std::byte> message;
  if (comm.rank() == 0) ByteWriter(message).put_all(text.ids);
  comm.broadcast({SiteKind::step}, message, 0);
  std::vector<std::int32_t> ids;
  ByteReader(message).get_all(ids);
  if (ids.size() < 2) return std::nullopt;
  const std::int64_t n = std::ssize(ids) - 1, decoded = std::min(kDecoded, n / 2);
  comm.set_rounding(false);
  const std::vector<float> a = logits_of(context, executor, ids, decoded, setup.block_tokens);
  comm.set_rounding(true);
  const std::vector<float> b = logits_of(context, executor, ids, decoded, setup.block_tokens);

  const std::vector<LogitComparison> mine = compare_rows(a, b, vocab_ids, ids);
  std::vector<std::vector<std::byte>> all;
  ByteWriter(message).put_all(mine);
  comm.gather({SiteKind::lm_head}, message, all, 0);
  if (comm.rank() != 0) return std::nullopt;
  std::vector<std::vector<LogitComparison>> parts(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) ByteReader(all[r]).get_all(parts[r]);
  WireQuality quality = join_comparisons(parts);
  quality.asked = setup.asked;
  quality.text = text.text;
  quality.decoded = decoded;
  return quality;
}

}  // namespace shardlm
