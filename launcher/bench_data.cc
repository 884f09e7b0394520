// The results of `shardlm bench` for programs: JSON, JSON lines, CSV.
#include <array>

#include "launcher/bench_json.h"
#include "launcher/environment_record.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

class JsonReport final : public BenchReport {
 public:
  explicit JsonReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext&) override {}
  void add(const BenchContext& c, const BenchResult& r) override {
    tests_.push_back(bench_result_json(c, r));
    for (const auto& [name, value] : result_facts(r)) add_fact(of_results_, name, value);
  }
  void end(const BenchContext& c) override {
    Facts facts = c.environment;
    facts.insert(facts.end(), of_results_.begin(), of_results_.end());
    const Json all = {{"environment", bench_environment_json(c, facts)},
                      {"model", bench_model_json(c)},
                      {"tests", tests_}};
    out_ << all.dump() << '\n';
  }

 private:
  std::ostream& out_;
  Json tests_ = Json::array();
  Facts of_results_;
};

// A line stands for itself: it repeats what the results share.
class JsonLinesReport final : public BenchReport {
 public:
  explicit JsonLinesReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext&) override {}
  void add(const BenchContext& c, const BenchResult& r) override {
    Json line = bench_result_json(c, r);
    Facts facts = c.environment;
    const Facts of_result = result_facts(r);
    facts.insert(facts.end(), of_result.begin(), of_result.end());
    line["environment"] = bench_environment_json(c, facts);
    line["model"] = bench_model_json(c);
    out_ << line.dump() << '\n' << std::flush;
  }
  void end(const BenchContext&) override {}

 private:
  std::ostream& out_;
};

// The numbers of bench_result_json() and its short texts.
class CsvReport final : public BenchReport {
 public:
  explicit CsvReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext&) override {
    const char* comma = "";
    for (const std::string_view column : kColumns) {
      out_ << comma << column.substr(column.find('/') + 1);
      comma = ",";
    }
    out_ << '\n';
  }
  void add(const BenchContext& c, const BenchResult& r) override {
    const Json values = bench_result_json(c, r);
    const char* comma = "";
    for (const std::string_view column : kColumns) {
      out_ << comma << text(find(values, column));
      comma = ",";
    }
    out_ << '\n' << std::flush;
  }
  void end(const BenchContext&) override {}

 private:
  // "OBJECT/FIELD" of a field inside; its name is then FIELD.
  static constexpr std::array<std::string_view, 52> kColumns = {"test",
                                                                "kind",
                                                                "tokens",
                                                                "batch",
                                                                "dtype",
                                                                "kv_dtype",
                                                                "ranks",
                                                                "nodes",
                                                                "threads",
                                                                "wire",
                                                                "overlap",
                                                                "repetitions",
                                                                "stopped",
                                                                "tokens_per_s",
                                                                "tokens_per_s_low",
                                                                "tokens_per_s_high",
                                                                "tokens_per_s_min",
                                                                "tokens_per_s_max",
                                                                "ttft_ms",
                                                                "tpot_ms",
                                                                "ms_per_step",
                                                                "weight_bytes",
                                                                "weight_gb_per_s",
                                                                "read_gb_per_s",
                                                                "share_of_read",
                                                                "gflop_per_s",
                                                                "steps_per_repetition",
                                                                "step_ms/compute",
                                                                "step_ms/wait",
                                                                "step_ms/transfer",
                                                                "step_ms/other",
                                                                "step_ms/wall",
                                                                "closes",
                                                                "comm_share",
                                                                "wait_share",
                                                                "load_balance",
                                                                "serialisation",
                                                                "transfer_efficiency",
                                                                "parallel_efficiency",
                                                                "joules_per_token",
                                                                "oversubscribed",
                                                                "noisy",
                                                                "load_s",
                                                                "backend",
                                                                "exactness",
                                                                "quality_tokens",
                                                                "quality_text",
                                                                "max_logit_difference",
                                                                "top1_agreement",
                                                                "kl",
                                                                "perplexity_change",
                                                                "allreduce"};

  static Json find(const Json& values, std::string_view column) {
    const std::size_t slash = column.find('/');
    if (slash == std::string_view::npos) return values.at(std::string(column));
    const Json& inner = values.at(std::string(column.substr(0, slash)));
    return inner.is_null() ? inner : inner.at(std::string(column.substr(slash + 1)));
  }
  static std::string text(const Json& value) {
    if (value.is_null()) return {};
    if (!value.is_string()) return value.dump();
    const auto text = value.get<std::string>();
    return text.find(',') == std::string::npos ? text : '"' + text + '"';  // rules of sums
  }
  std::ostream& out_;
};

}  // namespace

std::unique_ptr<BenchReport> make_bench_data(BenchFormat format, std::ostream& out) {
  if (format == BenchFormat::csv) return std::make_unique<CsvReport>(out);
  if (format == BenchFormat::json) return std::make_unique<JsonReport>(out);
  return std::make_unique<JsonLinesReport>(out);
}

}  // namespace shardlm
