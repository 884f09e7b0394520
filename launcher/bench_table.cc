// The table of `shardlm bench`, which is Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/bench_report.h"
#include "launcher/environment_record.h"
#include "launcher/model_shape.h"

namespace shardlm {
namespace {

struct Column {
  const char* name;
  int width;
};
constexpr std::array kTable = {
    Column{"test", 7},     Column{"batch", 5},     Column{"dtype", 5},   Column{"kv", 4},
    Column{"ranks", 5},    Column{"threads", 7},   Column{"reps", 4},    Column{"tokens/s", 9},
    Column{"95 % CI", 17}, Column{"min..max", 17}, Column{"ttft ms", 8}, Column{"step ms", 8},
    Column{"comm", 6},     Column{"wait", 6},      Column{"GB/s", 7},    Column{"of read", 7},
    Column{"GFLOP/s", 8},  Column{"J/token", 8},   Column{"closes", 6}};

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
    out_ << fmt::format("shardlm {} ({}, {}), {} on {}\n", fact(c.environment, "version"),
                        fact(c.environment, "commit"), fact(c.environment, "build_type"),
                        fact(c.environment, "cpu"), fact(c.environment, "host"));
    out_ << "ppN: a prefill of N tokens; tgN: N decoding steps after 1 token; medians; comm, wait: "
            "shares of a step; GB/s: weights read, all ranks\n";
    for (const std::string& warning : c.warnings) out_ << warning << '\n';
  }

  void add(const BenchContext& c, const BenchResult& r) override {
    begin_group(r);
    const MedianEstimate speed = tokens_per_s(r);
    const std::optional<StepTimes> step = step_times(r);
    const auto range = [](double low, double high) {
      return speed_text(low) + ".." + speed_text(high);
    };
    row({r.test.name(), std::to_string(r.test.batch), r.dtype, r.kv_dtype, std::to_string(c.ranks),
         std::to_string(r.threads), std::to_string(r.samples.seconds.size()),
         speed_text(speed.median), speed.low ? range(*speed.low, *speed.high) : "-",
         range(speed.least, speed.most), bench_cell(ttft_ms(r), 2), bench_cell(ms_per_step(r), 3),
         step ? percent(step->comm_share()) : "-", step ? percent(step->wait_share()) : "-",
         bench_cell(weight_gb_per_s(r), 2), share_text(share_of_read(r)),
         bench_cell(gflop_per_s(c, r), 1), bench_cell(joules_per_token(r), 3),
         step ? (r.samples.account->closes() ? "yes" : "NO") : "-"});
    add_notes(r);
    out_ << std::flush;
  }

  // What makes a result worth less, a line each time; and once why there are no joules.
  void end(const BenchContext&) override {
    for (const std::string& note : notes_) out_ << note << '\n';
  }

 private:
  static std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
  static std::string share_text(const std::optional<double>& share) {
    return share ? percent(*share) : "-";
  }

  void note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }
  void add_notes(const BenchResult& r) {
    if (!r.samples.joules) note("no joules: " + r.joules_source);
    if (r.oversubscribed)
      note("oversubscribed: more threads than cores, so times hold the system's scheduling");
    if (r.samples.canary.ratio() <= kNoisyRatio) return;
    note(fmt::format("noisy: before {} (batch {}) a fixed loop took {:.1f} times its median at p99",
                     r.test.name(), r.test.batch, r.samples.canary.ratio()));
  }

  // A headline for each loading of the model: the limit belongs to it.
  void begin_group(const BenchResult& r) {
    const std::string group = fmt::format(
        "{}; {}; weights of a step {:.1f} MB, read bandwidth {} GB/s, loaded in {:.2f} s",
        r.backend_text, r.comm_text, static_cast<double>(r.weight_bytes) * 1e-6,
        bench_cell(r.read_gb_per_s, 2), r.load_s);
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
  std::vector<std::string> notes_;
};

}  // namespace

std::string bench_cell(const std::optional<double>& x, int decimals) {
  return x ? fmt::format("{:.{}f}", *x, decimals) : "-";
}

std::unique_ptr<BenchReport> make_bench_table(std::ostream& out) {
  return std::make_unique<TableReport>(out);
}

}  // namespace shardlm
