// What a result of `shardlm bench` says of its samples.
#include "launcher/bench_report.h"

#include <fmt/format.h>

namespace shardlm {
namespace {

double median_s(const BenchResult& r) { return estimate_median(r.samples.seconds).median; }

}  // namespace

MedianEstimate tokens_per_s(const BenchResult& r) {
  const auto tokens = static_cast<double>(r.test.tokens * r.test.batch);
  std::vector<double> speeds;
  for (const double s : r.samples.seconds) speeds.push_back(tokens / s);
  return estimate_median(std::move(speeds));
}

std::optional<double> ttft_ms(const BenchResult& r) {
  if (r.decodes()) return std::nullopt;
  return median_s(r) * 1e3;
}

std::optional<double> ms_per_step(const BenchResult& r) {
  if (!r.decodes()) return std::nullopt;
  return median_s(r) * 1e3 / static_cast<double>(r.test.tokens);
}

std::optional<double> weight_gb_per_s(const BenchResult& r) {
  const auto step_ms = ms_per_step(r);
  if (!step_ms || r.weight_bytes == 0) return std::nullopt;
  return static_cast<double>(r.weight_bytes) * 1e-6 / *step_ms;
}

std::optional<double> share_of_read(const BenchResult& r) {
  const auto rate = weight_gb_per_s(r);
  if (!rate || !r.read_gb_per_s) return std::nullopt;
  return *rate / *r.read_gb_per_s;
}

std::optional<double> joules_per_token(const BenchResult& r) {
  if (!r.samples.joules) return std::nullopt;
  const auto tokens = static_cast<double>(r.test.tokens * r.test.batch);
  return *r.samples.joules / static_cast<double>(r.samples.seconds.size()) / tokens;
}

std::optional<StepTimes> step_times(const BenchResult& r) {
  const std::optional<TestAccount>& account = r.samples.account;
  if (!account || account->empty() || account->steps() == 0) return std::nullopt;
  const RankRow mean = account->mean();
  const double ms = 1e3 / static_cast<double>(account->steps());
  return StepTimes{mean.compute_s * ms, mean.wait_s * ms, mean.transfer_s * ms, mean.other_s * ms,
                   mean.wall_s * ms};
}

std::optional<double> gflop_per_s(const BenchContext& c, const BenchResult& r) {
  if (c.compute == "none") return std::nullopt;
  return bench_flops(c.config, r.test) * 1e-9 / median_s(r);
}

Facts result_facts(const BenchResult& r) {
  const std::optional<TestAccount>& account = r.samples.account;
  const bool known = account && !account->empty();
  return {
      {"allreduce_table", fmt::format("{} ({})", r.comm_text, r.allreduce_source)},
      {"clock", known ? account->clock() + ", wait " + account->split() : "unknown"},
      {"clock_error_us", known ? fmt::format("{:.3f}", account->clock_error_us()) : "unknown"},
      {"dtypes",
       fmt::format("weights {}, keys and values {}, wire {}", r.dtype, r.kv_dtype, r.wire)},
      {"backend", r.backend_text},
      {"gpu", r.backend == "cuda" ? r.backend_text : "none used"},
      {"link", "unknown"},  // that is what shardlm calibrate measures
      {"seed", "none: prompts and made-up weights are the same in every run, sampling is greedy"},
      {"joules_source", r.joules_source},
      {"model_hash", r.model_hash}};
}

std::unique_ptr<BenchReport> make_bench_report(BenchFormat format, std::ostream& out) {
  switch (format) {
    case BenchFormat::table:
    case BenchFormat::md:
      return make_bench_table(out);
    case BenchFormat::csv:
    case BenchFormat::json:
    case BenchFormat::jsonl:
      return make_bench_data(format, out);
  }
  return make_bench_table(out);
}

}  // namespace shardlm
