#include "launcher/coll_report.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/utf8.h"
#include "launcher/bench_report.h"
#include "launcher/environment_record.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostSamples = 2000;  // raw ones in a line

Json number(const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); }

Json samples_json(const std::vector<double>& us) {
  const std::size_t step = us.size() / (kMostSamples + 1) + 1;
  Json list = Json::array();
  for (std::size_t i = 0; i < us.size(); i += step) list.push_back(us[i]);
  return list;
}

const char* mode_name(bool isolated) { return isolated ? "isolated" : "back-to-back"; }

std::size_t count_of(const CollSample& s) {
  return s.op == Op::all_reduce ? s.bytes / sizeof(float) : s.bytes;
}
const char* type_of(const CollSample& s) { return s.op == Op::all_reduce ? "f32" : "u8"; }

Json result_json(const CollContext& c, const CollResult& r) {
  const CollSample& s = r.sample;
  const CollNumbers n = numbers_of(r, c.ranks);
  Json object = {{"schema", "shardlm coll 1"},
                 {"method_version", kMethodVersion},
                 {"op", op_name(s.op)},
                 {"algorithm", s.algorithm},
                 {"bytes", s.bytes},
                 {"count", count_of(s)},
                 {"type", type_of(s)},
                 {"ranks", c.ranks},
                 {"nodes", c.ranks_of_nodes.size()},
                 {"ranks_of_nodes", c.ranks_of_nodes},
                 {"emulate", c.emulate},
                 {"mode", mode_name(s.isolated)},
                 {"buffers", c.buffers},
                 {"t_min_us", n.median.least},
                 {"t_p50_us", n.median.median}};
  object["low_us"] = number(n.median.low);
  object["high_us"] = number(n.median.high);
  object["t_p99_us"] = number(n.p99);
  object["cv"] = n.cv;
  object["algbw_gb_s"] = n.algbw_gb_s;
  object["busbw_gb_s"] = n.busbw_gb_s;
  object["wire_tx"] = number(s.wire_tx);
  object["model_us"] = number(s.model_us);
  object["efficiency"] = number(n.efficiency);
  object["model_source"] = s.model_us ? Json(c.model_source) : Json(nullptr);
  object["wrong"] = s.n_wrong;
  object["calls"] = s.calls;
  object["stopped"] = name(s.stopped);
  object["oversubscribed"] = c.oversubscribed;
  object["noisy"] = r.canary_ratio > kNoisyRatio;
  object["canary_p99_over_p50"] = r.canary_ratio;
  object["samples_us"] = samples_json(s.us);
  return object;
}

Json environment_json(const CollContext& c) {
  Json object = Json::object();
  for (const auto& [name, value] : c.environment) object[name] = sanitize_utf8(value);
  return object;
}

class CollJson final : public CollReport {
 public:
  explicit CollJson(std::ostream& out) : out_(out) {}
  void begin(const CollContext&) override {}
  void add(const CollContext& c, const CollResult& r) override {
    results_.push_back(result_json(c, r));
  }
  void end(const CollContext& c) override {
    const Json all = {{"environment", environment_json(c)}, {"results", results_}};
    out_ << all.dump() << '\n';
  }

 private:
  std::ostream& out_;
  Json results_ = Json::array();
};

class CollJsonLines final : public CollReport {
 public:
  explicit CollJsonLines(std::ostream& out) : out_(out) {}
  void begin(const CollContext&) override {}
  void add(const CollContext& c, const CollResult& r) override {
    Json line = result_json(c, r);
    line["environment"] = environment_json(c);
    out_ << line.dump() << '\n' << std::flush;
  }
  void end(const CollContext&) override {}

 private:
  std::ostream& out_;
};

class CollCsv final : public CollReport {
 public:
  explicit CollCsv(std::ostream& out) : out_(out) {}
  void begin(const CollContext&) override { row(kColumns); }
  void add(const CollContext& c, const CollResult& r) override {
    const Json values = result_json(c, r);
    std::array<std::string, kColumns.size()> cells;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Json& value = values.at(std::string(kColumns[i]));
      if (!value.is_null()) cells[i] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    row(cells);
  }
  void end(const CollContext&) override {}

 private:
  static constexpr std::array<std::string_view, 24> kColumns = {
      "op",       "algorithm",  "bytes",   "count",      "type",           "ranks",
      "nodes",    "mode",       "buffers", "t_min_us",   "t_p50_us",       "low_us",
      "high_us",  "t_p99_us",   "cv",      "algbw_gb_s", "busbw_gb_s",     "wire_tx",
      "model_us", "efficiency", "wrong",   "calls",      "oversubscribed", "noisy"};

  template <class Cells>
  void row(const Cells& cells) {
    const char* comma = "";
    for (const auto& cell : cells) {
      out_ << comma << cell;
      comma = ",";
    }
    out_ << '\n' << std::flush;
  }
  std::ostream& out_;
};

struct Column {
  const char* name;
  int width;
};
constexpr std::array kTable = {
    Column{"op", 10},   Column{"algorithm", 22}, Column{"bytes", 8},   Column{"count", 8},
    Column{"type", 4},  Column{"P", 3},          Column{"nodes", 5},   Column{"t_min", 8},
    Column{"t_p50", 8}, Column{"95 % CI", 19},   Column{"t_p99", 8},   Column{"cv%", 6},
    Column{"algbw", 7}, Column{"busbw", 7},      Column{"wire_tx", 8}, Column{"model", 8},
    Column{"eff", 5},   Column{"#wrong", 6},     Column{"calls", 6}};

class CollTable final : public CollReport {
 public:
  explicit CollTable(std::ostream& out) : out_(out) {}

  void begin(const CollContext& c) override {
    out_ << fmt::format("shardlm {} ({}, {}), {} on {}; {}\n", fact(c.environment, "version"),
                        fact(c.environment, "commit"), fact(c.environment, "build_type"),
                        fact(c.environment, "cpu"), fact(c.environment, "hosts"),
                        fact(c.environment, "mpi"));
    out_ << "microseconds of the slowest rank; algbw, busbw: GB/s; wire_tx: bytes that a rank "
            "sends; "
            "eff: model / t_p50\n";
  }

  void add(const CollContext& c, const CollResult& r) override {
    const CollSample& s = r.sample;
    begin_group(c, s);
    const CollNumbers n = numbers_of(r, c.ranks);
    const std::string interval =
        n.median.low ? fmt::format("[{:.2f}, {:.2f}]", *n.median.low, *n.median.high) : "-";
    row({op_name(s.op), s.algorithm, std::to_string(s.bytes), std::to_string(count_of(s)),
         type_of(s), std::to_string(c.ranks), std::to_string(c.ranks_of_nodes.size()),
         fmt::format("{:.2f}", n.median.least), fmt::format("{:.2f}", n.median.median), interval,
         bench_cell(n.p99, 2), fmt::format("{:.1f}", 100 * n.cv),
         fmt::format("{:.2f}", n.algbw_gb_s), fmt::format("{:.2f}", n.busbw_gb_s),
         bench_cell(s.wire_tx, 0), bench_cell(s.model_us, 2), bench_cell(n.efficiency, 2),
         std::to_string(s.n_wrong), std::to_string(s.calls)});
    noisy_ = noisy_ || r.canary_ratio > kNoisyRatio;
    out_ << std::flush;
  }

  void end(const CollContext& c) override {
    out_ << '\n';
    if (!c.model_source.empty()) out_ << "model: " << c.model_source << '\n';
    if (c.oversubscribed)
      out_ << "oversubscribed: more ranks than cores, so times hold the system's scheduling\n";
    if (noisy_) out_ << "noisy: before some size a fixed loop's p99 was above 1.5 of its median\n";
  }

 private:
  void begin_group(const CollContext& c, const CollSample& s) {
    const std::string group = fmt::format("{}, {} buffers", mode_name(s.isolated), c.buffers);
    if (group == group_) return;
    group_ = group;
    out_ << '\n' << group << "\n\n";
    std::vector<std::string> names, rules;
    for (const Column& column : kTable) {
      names.emplace_back(column.name);
      rules.push_back(std::string(static_cast<std::size_t>(column.width - 1), '-') + ":");
    }
    row(names);
    row(rules);
  }
  void row(const std::vector<std::string>& cells) {
    out_ << '|';
    for (std::size_t i = 0; i < kTable.size(); ++i)
      out_ << fmt::format(" {:>{}} |", cells[i], kTable[i].width);
    out_ << '\n';
  }
  std::ostream& out_;
  std::string group_;
  bool noisy_ = false;
};

}  // namespace

std::string op_name(Op op) {
  constexpr std::array names = {"all_reduce", "broadcast", "gather", "barrier"};
  return names.at(static_cast<std::size_t>(op));
}

CollNumbers numbers_of(const CollResult& r, int ranks) {
  CollNumbers n;
  std::vector<double> us = r.sample.us;
  n.median = estimate_median(us);
  n.p99 = supported_quantile(us, 0.99);
  double sum = 0, squares = 0;
  for (const double t : us) sum += t;
  const double mean = sum / static_cast<double>(us.size());
  for (const double t : us) squares += (t - mean) * (t - mean);
  if (us.size() > 1 && mean > 0)
    n.cv = std::sqrt(squares / static_cast<double>(us.size() - 1)) / mean;
  const CollVolume volume = volume_of(r.sample.op, ranks, r.sample.bytes);
  if (n.median.median > 0) {
    n.algbw_gb_s = volume.bytes / n.median.median * 1e-3;
    n.busbw_gb_s = n.algbw_gb_s * volume.bus_factor;
    if (r.sample.model_us) n.efficiency = *r.sample.model_us / n.median.median;
  }
  return n;
}

std::unique_ptr<CollReport> make_coll_report(BenchFormat format, std::ostream& out) {
  switch (format) {
    case BenchFormat::table:
    case BenchFormat::md:
      return std::make_unique<CollTable>(out);
    case BenchFormat::csv:
      return std::make_unique<CollCsv>(out);
    case BenchFormat::json:
      return std::make_unique<CollJson>(out);
    case BenchFormat::jsonl:
      return std::make_unique<CollJsonLines>(out);
  }
  return std::make_unique<CollTable>(out);
}

}  // namespace shardlm
