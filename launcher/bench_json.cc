#include "launcher/bench_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "io/utf8.h"
#include "launcher/model_shape.h"
#include "study/statistics.h"

namespace shardlm {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostGaps = 4096;  // raw ones in a line

Json number(const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); }

Json facts_json(const Facts& facts) {
  Json object = Json::object();
  for (const auto& [name, value] : facts) object[name] = sanitize_utf8(value);
  return object;
}

// Of rounded sums; of others empty.
void add_quality(const BenchResult& r, Json& object) {
  const std::optional<WireQuality>& q = r.quality;
  object["exactness"] = r.exactness;
  object["quality_tokens"] = q ? Json(q->tokens) : Json(nullptr);
  object["quality_text"] = q ? Json(q->text ? "fixed" : "random") : Json(nullptr);
  object["max_logit_difference"] = q ? Json(q->max_logit_difference) : Json(nullptr);
  object["top1_agreement"] = q ? Json(q->top1_agreement) : Json(nullptr);
  object["kl"] = q ? Json(q->kl) : Json(nullptr);
  object["perplexity_change"] = q ? Json(q->perplexity_change) : Json(nullptr);
}

// What was asked for.
Json test_json(const BenchContext& c, const BenchResult& r) {
  return {{"schema", "shardlm bench 2"},
          {"method_version", kMethodVersion},
          {"test", r.test.name()},
          {"kind", r.decodes() ? "decode" : "prefill"},
          {"tokens", r.test.tokens},
          {"batch", r.test.batch},
          {"prompt", r.decodes() ? 1 : r.test.tokens},
          {"dtype", r.dtype},
          {"kv_dtype", r.kv_dtype},
          {"ranks", c.ranks},
          {"nodes", c.ranks_of_nodes.size()},
          {"ranks_of_nodes", c.ranks_of_nodes},
          {"threads", r.threads},
          {"allreduce", r.allreduce},
          {"wire", r.wire},
          {"overlap", r.overlap},
          {"emulate", r.emulate}};
}

void add_speed(const BenchContext& c, const BenchResult& r, Json& object) {
  const MedianEstimate speed = tokens_per_s(r);
  object["repetitions"] = r.samples.seconds.size();
  object["stopped"] = name(r.samples.stopped);
  object["tokens_per_s"] = speed.median;
  object["tokens_per_s_low"] = number(speed.low);
  object["tokens_per_s_high"] = number(speed.high);
  object["tokens_per_s_min"] = speed.least;
  object["tokens_per_s_max"] = speed.most;
  object["ttft_ms"] = number(ttft_ms(r));
  object["tpot_ms"] = number(ms_per_step(r));
  object["ms_per_step"] = number(ms_per_step(r));
  object["weight_bytes"] = r.weight_bytes;
  object["weight_gb_per_s"] = number(weight_gb_per_s(r));
  object["read_gb_per_s"] = number(r.read_gb_per_s);
  object["share_of_read"] = number(share_of_read(r));
  object["gflop_per_s"] = number(gflop_per_s(c, r));
}

Json itl_json(const BenchResult& r) {
  if (!r.decodes()) return nullptr;
  std::vector<double> ms;
  for (const double s : r.samples.gaps_s) ms.push_back(s * 1e3);
  Json object = {{"n", ms.size()},
                 {"p50", number(supported_quantile(ms, 0.5))},
                 {"p95", number(supported_quantile(ms, 0.95))},
                 {"p99", number(supported_quantile(ms, 0.99))}};
  object["max"] = ms.empty() ? Json(nullptr) : Json(*std::max_element(ms.begin(), ms.end()));
  return object;
}

Json gaps_json(const BenchResult& r) {
  const std::size_t n = r.samples.gaps_s.size(), step = n / (kMostGaps + 1) + 1;
  Json list = Json::array();
  for (std::size_t i = 0; i < n; i += step) list.push_back(r.samples.gaps_s[i] * 1e3);
  return list;
}

Json core_json(const std::string& cores) {
  int core = 0;
  const auto [end, error] = std::from_chars(cores.data(), cores.data() + cores.size(), core);
  const bool one = error == std::errc() && end == cores.data() + cores.size();
  return one ? Json(core) : Json(nullptr);
}

Json ranks_json(const TestAccount& account) {
  const double ms = 1e3 / static_cast<double>(account.steps());
  Json list = Json::array();
  for (std::size_t i = 0; i < account.ranks().size(); ++i) {
    const RankRow& row = account.ranks()[i];
    list.push_back({{"rank", i},
                    {"host", row.who.host},
                    {"core", core_json(row.who.cores)},
                    {"cores", row.who.cores},
                    {"compute", row.compute_s * ms},
                    {"wait", row.wait_s * ms},
                    {"transfer", row.transfer_s * ms},
                    {"other", row.other_s * ms}});
  }
  return list;
}

Json all_reduces_json(const TestAccount& account) {
  const AllReduceCount& count = account.all_reduces();
  const auto steps = static_cast<double>(account.steps());
  const auto per_step = [&](std::uint64_t n) { return static_cast<double>(n) / steps; };
  std::vector<double> us = count.transfers_us;
  Json object = {{"calls_per_step", per_step(count.calls)},
                 {"bytes_per_call", count.calls == 0 ? 0.0
                                                     : static_cast<double>(count.bytes) /
                                                           static_cast<double>(count.calls)}};
  object["sent_bytes_per_step"] = count.sent ? Json(per_step(*count.sent)) : Json(nullptr);
  object["expected_calls"] = per_step(count.expected_calls);
  object["expected_bytes_per_step"] = per_step(count.expected_bytes);
  object["counted_bytes_per_step"] = per_step(count.bytes);
  object["as_expected"] = count.as_expected();
  object["transfer_us_p50"] = us.empty() ? Json(nullptr) : Json(median(us));
  object["transfer_us_p99"] = number(supported_quantile(us, 0.99));
  object["algorithms"] = fmt::format("{}", fmt::join(count.algorithms, " + "));
  return object;
}

// Where the time went; null where nothing is recorded.
void add_split(const BenchResult& r, Json& object) {
  const std::optional<StepTimes> step = step_times(r);
  for (const char* key :
       {"step_ms", "closes", "closing_error", "comm_share", "wait_share", "load_balance",
        "serialisation", "transfer_efficiency", "parallel_efficiency", "rank_ms", "all_reduce"}) {
    object[key] = nullptr;
  }
  object["steps_per_repetition"] = r.samples.passes;
  if (!step) return;
  const TestAccount& account = *r.samples.account;
  object["step_ms"] = {{"compute", step->compute_ms},   {"wait", step->wait_ms},
                       {"transfer", step->transfer_ms}, {"other", step->other_ms},
                       {"total", step->total_ms()},     {"wall", step->wall_ms}};
  object["closes"] = account.closes();
  object["closing_error"] = account.closing_error();
  object["comm_share"] = step->comm_share();
  object["wait_share"] = step->wait_share();
  object["load_balance"] = account.load_balance();
  object["serialisation"] = account.serialisation();
  object["transfer_efficiency"] = account.transfer_efficiency();
  object["parallel_efficiency"] = account.parallel_efficiency();
  object["rank_ms"] = ranks_json(account);
  object["all_reduce"] = all_reduces_json(account);
  object["records_lost"] = account.lost();
  object["causality_violations"] = account.violations();
}

void add_energy(const BenchResult& r, Json& object) {
  const auto n = static_cast<double>(r.samples.seconds.size());
  object["joules"] = r.samples.joules ? Json(*r.samples.joules / n) : Json(nullptr);
  object["joules_per_token"] = number(joules_per_token(r));
  object["joules_source"] = r.joules_source;
}

}  // namespace

Json bench_environment_json(const BenchContext& c, const Facts& facts) {
  Json object = facts_json(facts);
  object["ranks"] = c.ranks;
  object["prefill_chunk"] = c.prefill_chunk;
  object["comm"] = c.comm;
  object["reduction"] = c.reduction;
  object["compute"] = c.compute;
  object["warnings"] = c.warnings;
  return object;
}

Json bench_model_json(const BenchContext& c) {
  return {{"source", sanitize_utf8(c.source)},
          {"fake_weights", c.fake_weights},
          {"n_layer", c.config.n_layer},
          {"n_embd", c.config.n_embd},
          {"n_head", c.config.n_head},
          {"n_inner", c.config.n_inner},
          {"n_positions", c.config.n_positions},
          {"vocab_size", c.config.vocab_size},
          {"parameters", parameter_count(c.config)}};
}

Json bench_result_json(const BenchContext& c, const BenchResult& r) {
  Json object = test_json(c, r);
  add_speed(c, r, object);
  object["itl_ms"] = itl_json(r);
  add_split(r, object);
  add_energy(r, object);
  object["oversubscribed"] = r.oversubscribed;
  object["noisy"] = r.samples.canary.ratio() > kNoisyRatio;
  object["canary_p99_over_p50"] = r.samples.canary.ratio();
  object["load_s"] = r.load_s;
  object["backend"] = r.backend;
  object["backend_text"] = r.backend_text;
  object["comm_text"] = r.comm_text;
  object["shared_gpu"] = r.shared_gpu;
  add_quality(r, object);
  object["seconds"] = r.samples.seconds;
  object["itl_samples_ms"] = gaps_json(r);
  return object;
}

}  // namespace shardlm
