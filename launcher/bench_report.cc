#include "launcher/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/utf8.h"
#include "launcher/model_shape.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

bool decodes(const BenchResult& r) { return r.test.kind == BenchTest::Kind::decode; }

Json number(const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); }

Json environment_json(const BenchContext& c) {
  Json object = Json::object();
  for (const auto& [name, value] : c.environment) object[name] = sanitize_utf8(value);
  object["ranks"] = c.ranks;
  object["prefill_chunk"] = c.prefill_chunk;
  object["comm"] = c.comm;
  object["reduction"] = c.reduction;
  object["compute"] = c.compute;
  object["warnings"] = c.warnings;
  return object;
}

Json model_json(const BenchContext& c) {
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

Json result_json(const BenchContext& c, const BenchResult& r) {
  const Spread speed = tokens_per_s(r);
  Json object = {{"test", r.test.name()},
                 {"kind", decodes(r) ? "decode" : "prefill"},
                 {"tokens", r.test.tokens},
                 {"batch", r.test.batch},
                 {"dtype", r.dtype},
                 {"kv_dtype", r.kv_dtype},
                 {"ranks", c.ranks},
                 {"threads", r.threads},
                 {"repetitions", r.seconds.size()},
                 {"tokens_per_s", speed.median},
                 {"tokens_per_s_min", speed.least},
                 {"tokens_per_s_max", speed.most},
                 {"ttft_ms", number(ttft_ms(r))},
                 {"ms_per_step", number(ms_per_step(r))},
                 {"weight_bytes", r.weight_bytes},
                 {"weight_gb_per_s", number(weight_gb_per_s(r))},
                 {"read_gb_per_s", number(r.read_gb_per_s)},
                 {"share_of_read", number(share_of_read(r))},
                 {"gflop_per_s", number(gflop_per_s(c, r))},
                 {"load_s", r.load_s},
                 {"backend", r.backend},
                 {"backend_text", r.backend_text},
                 {"comm_text", r.comm_text},
                 {"shared_gpu", r.shared_gpu},
                 {"seconds", r.seconds}};
  add_quality(r, object);
  return object;
}

class JsonReport final : public BenchReport {
 public:
  explicit JsonReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext& c) override {
    all_ = {
        {"environment", environment_json(c)}, {"model", model_json(c)}, {"tests", Json::array()}};
  }
  void add(const BenchContext& c, const BenchResult& r) override {
    all_["tests"].push_back(result_json(c, r));
  }
  void end(const BenchContext&) override { out_ << all_.dump() << '\n'; }

 private:
  std::ostream& out_;
  Json all_;
};

// A line stands for itself: it repeats what the results share.
class JsonLinesReport final : public BenchReport {
 public:
  explicit JsonLinesReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext&) override {}
  void add(const BenchContext& c, const BenchResult& r) override {
    Json line = result_json(c, r);
    line["environment"] = environment_json(c);
    line["model"] = model_json(c);
    out_ << line.dump() << '\n' << std::flush;
  }
  void end(const BenchContext&) override {}

 private:
  std::ostream& out_;
};

// The numbers of result_json(), and no texts that could hold a comma.
class CsvReport final : public BenchReport {
 public:
  explicit CsvReport(std::ostream& out) : out_(out) {}
  void begin(const BenchContext&) override {
    const char* comma = "";
    for (const char* column : kColumns) {
      out_ << comma << column;
      comma = ",";
    }
    out_ << '\n';
  }
  void add(const BenchContext& c, const BenchResult& r) override {
    const Json values = result_json(c, r);
    const char* comma = "";
    for (const char* column : kColumns) {
      out_ << comma << text(values.at(column));
      comma = ",";
    }
    out_ << '\n' << std::flush;
  }
  void end(const BenchContext&) override {}

 private:
  static constexpr std::array kColumns = {"test",
                                          "kind",
                                          "tokens",
                                          "batch",
                                          "dtype",
                                          "kv_dtype",
                                          "ranks",
                                          "threads",
                                          "repetitions",
                                          "tokens_per_s",
                                          "tokens_per_s_min",
                                          "tokens_per_s_max",
                                          "ttft_ms",
                                          "ms_per_step",
                                          "weight_bytes",
                                          "weight_gb_per_s",
                                          "read_gb_per_s",
                                          "share_of_read",
                                          "gflop_per_s",
                                          "load_s",
                                          "backend",
                                          "exactness",
                                          "quality_tokens",
                                          "quality_text",
                                          "max_logit_difference",
                                          "top1_agreement",
                                          "kl",
                                          "perplexity_change"};

  static std::string text(const Json& value) {
    if (value.is_null()) return {};
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  std::ostream& out_;
};

struct Column {
  const char* name;
  int width;
};
constexpr std::array kTable = {Column{"test", 7},    Column{"batch", 5},    Column{"dtype", 5},
                               Column{"kv", 4},      Column{"ranks", 5},    Column{"threads", 7},
                               Column{"reps", 4},    Column{"tokens/s", 9}, Column{"min..max", 17},
                               Column{"ttft ms", 8}, Column{"step ms", 8},  Column{"GB/s", 7},
                               Column{"of read", 7}, Column{"GFLOP/s", 8}};

std::string cell(const std::optional<double>& x, int decimals) {
  return x ? fmt::format("{:.{}f}", *x, decimals) : "-";
}

// Three or four digits that count, whatever the size.
std::string speed_text(double x) {
  return fmt::format("{:.{}f}", x, x < 10 ? 3 : x < 100 ? 2 : x < 1000 ? 1 : 0);
}

class TableReport final : public BenchReport {
 public:
  explicit TableReport(std::ostream& out) : out_(out) {}

  void begin(const BenchContext& c) override {
    out_ << fmt::format(
        "{}: {:.1f} M parameters, {}; {} layers, {} wide, {} heads, MLP {}, {} ids, "
        "context {}\n",
        c.source, static_cast<double>(parameter_count(c.config)) * 1e-6,
        c.fake_weights ? "made-up weights" : "weights of the folder", c.config.n_layer,
        c.config.n_embd, c.config.n_head, c.config.n_inner, c.config.vocab_size,
        c.config.n_positions);
    out_ << fmt::format("shardlm {} ({}, {}), {} on {}\n", fact(c, "version"), fact(c, "commit"),
                        fact(c, "build_type"), fact(c, "cpu"), fact(c, "host"));
    out_ << "ppN: a prefill of N tokens; tgN: N decoding steps after 1 token; medians; GB/s: "
            "weights "
            "read, all ranks\n";
    for (const std::string& warning : c.warnings) out_ << warning << '\n';
  }

  void add(const BenchContext& c, const BenchResult& r) override {
    begin_group(r);
    const Spread speed = tokens_per_s(r);
    const auto share = share_of_read(r);
    row({r.test.name(), std::to_string(r.test.batch), r.dtype, r.kv_dtype, std::to_string(c.ranks),
         std::to_string(r.threads), std::to_string(r.seconds.size()), speed_text(speed.median),
         speed_text(speed.least) + ".." + speed_text(speed.most), cell(ttft_ms(r), 2),
         cell(ms_per_step(r), 3), cell(weight_gb_per_s(r), 2),
         share ? fmt::format("{:.1f} %", 100 * *share) : "-", cell(gflop_per_s(c, r), 1)});
    out_ << std::flush;
  }

  void end(const BenchContext&) override {}

 private:
  static std::string fact(const BenchContext& c, const std::string& name) {
    const auto found = std::find_if(c.environment.begin(), c.environment.end(),
                                    [&](const auto& f) { return f.first == name; });
    return found == c.environment.end() ? "unknown" : found->second;
  }

  // A headline for each loading of the model: the limit belongs to it.
  void begin_group(const BenchResult& r) {
    const std::string group = fmt::format(
        "{}; {}; weights of a step {:.1f} MB, read bandwidth {} GB/s, loaded in {:.2f} s",
        r.backend_text, r.comm_text, static_cast<double>(r.weight_bytes) * 1e-6,
        cell(r.read_gb_per_s, 2), r.load_s);
    if (group == group_) return;
    group_ = group;
    out_ << '\n' << group << '\n';
    if (r.quality) out_ << quality_text(*r.quality) << '\n';
    out_ << '\n';
    std::vector<std::string> names, rules;
    for (std::size_t i = 0; i < kTable.size(); ++i) {
      names.emplace_back(kTable[i].name);
      const bool left = i == 0;
      rules.push_back(std::string(static_cast<std::size_t>(kTable[i].width - (left ? 0 : 1)), '-') +
                      (left ? "" : ":"));
    }
    row(names);
    row(rules);
  }

  void row(const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < kTable.size(); ++i) {
      out_ << (i == 0 ? fmt::format("| {:<{}} |", cells[i], kTable[i].width)
                      : fmt::format(" {:>{}} |", cells[i], kTable[i].width));
    }
    out_ << '\n';
  }

  std::ostream& out_;
  std::string group_;
};

}  // namespace

Spread spread(std::vector<double> values) {
  check(!values.empty(), "a spread of something");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values.front(), values.back()};
}

Spread tokens_per_s(const BenchResult& r) {
  const auto tokens = static_cast<double>(r.test.tokens * r.test.batch);
  std::vector<double> speeds;
  for (const double s : r.seconds) speeds.push_back(tokens / s);
  return spread(std::move(speeds));
}

std::optional<double> ttft_ms(const BenchResult& r) {
  if (decodes(r)) return std::nullopt;
  return spread(r.seconds).median * 1e3;
}

std::optional<double> ms_per_step(const BenchResult& r) {
  if (!decodes(r)) return std::nullopt;
  return spread(r.seconds).median * 1e3 / static_cast<double>(r.test.tokens);
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

std::optional<double> gflop_per_s(const BenchContext& c, const BenchResult& r) {
  if (c.compute == "none") return std::nullopt;
  return bench_flops(c.config, r.test) * 1e-9 / spread(r.seconds).median;
}

std::unique_ptr<BenchReport> make_bench_report(BenchFormat format, std::ostream& out) {
  switch (format) {
    case BenchFormat::table:
      return std::make_unique<TableReport>(out);
    case BenchFormat::csv:
      return std::make_unique<CsvReport>(out);
    case BenchFormat::json:
      return std::make_unique<JsonReport>(out);
    case BenchFormat::jsonl:
      return std::make_unique<JsonLinesReport>(out);
  }
  return std::make_unique<TableReport>(out);
}

}  // namespace shardlm
