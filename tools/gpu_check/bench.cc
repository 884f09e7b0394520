// gpu_check bench: steps of a model of random weights, timed as the engine runs them, with its
// queries about logits and their answers.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "comm/gpu.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/figures.h"
#include "tools/gpu_check/model_rank.h"
#include "tools/gpu_check/peaks.h"
#include "tools/gpu_check/pseudo_weights.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

struct Size {
  std::string name;
  std::int64_t n_layer, n_embd, n_head, n_positions, vocab_size;
  std::int64_t context;  ///< tokens in the cache before the first decode step
  std::int64_t prefill;  ///< tokens of a prompt
};
const std::array<Size, 3> kSizes = {{
    {"tiny", 2, 24, 3, 64, 101, 16, 24},
    {"gpt2", 12, 768, 12, 1024, 50257, 128, 512},
    {"gpt2-xl", 48, 1600, 25, 1024, 50257, 128, 512},
}};
constexpr std::array<std::int64_t, 2> kBatches = {1, 16};
constexpr std::int64_t kBlockTokens = 32;
constexpr std::int64_t kWarmUp = 3;  // libraries set themselves up; the pass is recorded

const Size& size_of(const std::string& name) {
  for (const Size& size : kSizes) {
    if (size.name == name) return size;
  }
  fail(ExitCode::usage,
       {.what = "--size", .expected = "tiny, gpt2 or gpt2-xl", .found = "'" + name + "'"});
}

ModelConfig config_of(const Size& size) {
  ModelConfig config;
  config.family = "gpt2";
  config.n_layer = size.n_layer;
  config.n_embd = size.n_embd;
  config.n_head = size.n_head;
  config.n_inner = 4 * size.n_embd;
  config.n_positions = size.n_positions;
  config.vocab_size = size.vocab_size;
  return config;
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Work of a step, from the model's shape.
struct Work {
  explicit Work(const ModelConfig& c)
      : layer_weights(static_cast<double>(c.n_layer * c.n_embd * (4 * c.n_embd + 2 * c.n_inner))),
        head_weights(static_cast<double>(c.vocab_size * c.n_embd)),
        per_pair(static_cast<double>(4 * c.n_layer * c.n_embd)) {}
  double layer_weights;  ///< elements that every row is multiplied with
  double head_weights;   ///< elements that a row whose logits are wanted is multiplied with
  double per_pair;       ///< operations of attention for a query and a key

  double weights() const { return layer_weights + head_weights; }
  double operations(double rows, double logit_rows, double pairs) const {
    return 2 * (layer_weights * rows + head_weights * logit_rows) + per_pair * pairs;
  }
};

class Bench {
 public:
  /// Peaks are those of all GPUs that take part.
  Bench(const Size& size, DType dtype, std::int64_t repeats, int n_gpus, Coordinator& ranks)
      : size_(size), work_(config_of(size)), dtype_(dtype), repeats_(repeats), ranks_(ranks) {
    const GpuSurvey survey = survey_gpus();
    if (survey.devices.empty()) return;
    const Peaks of_one = peaks_of(survey.devices.front());
    memory_peak_ = n_gpus * of_one.memory_gb_s;
    compute_peak_ = n_gpus * compute_peak(of_one, dtype);
  }

  static std::int64_t blocks_each(const Size& size, std::int64_t repeats) {
    const std::int64_t tokens = std::max(size.prefill, size.context + kWarmUp + repeats);
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }

  Figures run() {
    Figures figures;
    for (const std::int64_t batch : kBatches) {
      figures.set("decode_" + std::to_string(batch), decode(batch));
    }
    figures.set("prefill_" + std::to_string(size_.prefill), prefill());
    return figures;
  }
  const std::string& summary() const { return summary_; }

 private:
  std::int32_t token(std::int64_t sequence, std::int64_t position) const {
    return static_cast<std::int32_t>((position * 7919 + sequence * 104729 + 17) % size_.vocab_size);
  }

  // New tokens [start, end) of a sequence, and a question about the last one.
  void add(StepPlan& plan, std::int64_t sequence, std::int64_t start, std::int64_t end) const {
    std::vector<std::int32_t> ids;
    for (std::int64_t p = start; p < end; ++p) ids.push_back(token(sequence, p));
    std::int64_t rows = 0;
    for (const SequencePlan& other : plan.sequences) rows += std::ssize(other.ids);
    plan.sequences.push_back(
        sequence_plan(sequence, blocks_each(size_, repeats_), start, std::move(ids)));
    plan.queries.push_back(
        {.row = static_cast<std::int32_t>(rows + end - start - 1), .query = {}, .penalties = {}});
  }

  double timed(const StepPlan& plan) {
    const auto start = Clock::now();
    const auto& replies = ranks_.run(plan);
    const double seconds = seconds_since(start);
    for (const auto& by_rank : replies) {
      for (const LogitReply& reply : by_rank) {
        if (reply.first_bad_id >= 0) {
          fail(ExitCode::bug, {.what = "a logit that is not finite",
                               .found = "id " + std::to_string(reply.first_bad_id)});
        }
      }
    }
    return seconds;
  }

  Figures decode(std::int64_t batch) {
    for (std::int64_t s = 0; s < batch; ++s) {
      StepPlan context;
      add(context, s, 0, size_.context);
      timed(context);
    }
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < kWarmUp + repeats_; ++i) {
      StepPlan step;
      const std::int64_t position = size_.context + i;
      for (std::int64_t s = 0; s < batch; ++s) add(step, s, position, position + 1);
      const double step_seconds = timed(step);
      if (i >= kWarmUp) seconds.push_back(step_seconds);
    }
    const auto rows = static_cast<double>(batch);
    const double keys = static_cast<double>(size_.context + kWarmUp + repeats_ / 2);
    return figures_of("decode " + std::to_string(batch), seconds, rows,
                      work_.operations(rows, rows, rows * keys), true);
  }

  Figures prefill() {
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < kWarmUp + std::max<std::int64_t>(repeats_ / 3, 3); ++i) {
      StepPlan prompt;
      add(prompt, 0, 0, size_.prefill);
      const double step_seconds = timed(prompt);
      if (i >= kWarmUp) seconds.push_back(step_seconds);
    }
    const auto rows = static_cast<double>(size_.prefill);
    return figures_of("prefill", seconds, rows, work_.operations(rows, 1, rows * (rows + 1) / 2),
                      false);
  }

  // `bound_by_memory`: which share of which peak the summary tells.
  Figures figures_of(const std::string& what, const std::vector<double>& seconds, double tokens,
                     double operations, bool bound_by_memory) {
    const double middle = median(seconds);
    const double weight_bytes = work_.weights() * static_cast<double>(bits(dtype_)) / 8;
    const double gb_s = weight_bytes / middle / 1e9, tflop_s = operations / middle / 1e12;
    Figures figures;
    figures.set("ms", middle * 1e3)
        .set("fastest_ms", 1e3 * *std::min_element(seconds.begin(), seconds.end()));
    figures.set("repeats", seconds.size()).set("tokens_per_s", tokens / middle);
    figures.set("weights_gb_s", gb_s).set("tflop_s", tflop_s);
    set_share(figures, "share_of_memory_peak", gb_s, memory_peak_);
    set_share(figures, "share_of_compute_peak", tflop_s, compute_peak_);
    char text[160];
    std::snprintf(
        text, sizeof text, "%s: %.0f tokens/s, %.2f ms, %.0f %s (%s)", what.c_str(),
        tokens / middle, middle * 1e3, bound_by_memory ? gb_s : tflop_s,
        bound_by_memory ? "GB/s" : "TFLOP/s",
        share_text(bound_by_memory ? gb_s : tflop_s, bound_by_memory ? memory_peak_ : compute_peak_)
            .c_str());
    summary_ += (summary_.empty() ? "" : "; ") + std::string(text);
    return figures;
  }

  static void set_share(Figures& figures, const char* name, double value, double peak) {
    if (peak > 0) {
      figures.set(name, value / peak);
    } else {
      figures.set(name, "unknown");
    }
  }
  static std::string share_text(double value, double peak) {
    return peak > 0 ? std::to_string(static_cast<int>(100 * value / peak + 0.5)) + " % of peak"
                    : "peak unknown";
  }

  const Size& size_;
  Work work_;
  DType dtype_;
  std::int64_t repeats_;
  Coordinator& ranks_;
  double memory_peak_ = 0, compute_peak_ = 0;  // 0: unknown
  std::string summary_;
};

struct BenchOptions {
  RankOptions ranks;
  const Size* size;
  DType dtype;
  std::int64_t repeats;
  std::string figures;
};

int measure(const BenchOptions& options, std::unique_ptr<Communicator> host) {
  const Size& size = *options.size;
  const ModelConfig config = config_of(size);
  const DType dtype = options.dtype;
  PseudoWeights weights(dtype, config.n_embd * std::max(config.vocab_size, config.n_inner));
  const std::int64_t n_blocks = kBatches.back() * Bench::blocks_each(size, options.repeats);
  HostEnd end(options.ranks, std::move(host));
  end.with_device({dtype, dtype, dtype}, true, [&](Communicator& comm, Backend& backend) {
    const ModelRun model{
        .config = config, .weights = weights, .n_blocks = n_blocks, .block_tokens = kBlockTokens};
    const auto start = Clock::now();
    run_model(model, comm, backend, [&](Coordinator& coordinator) {
      const double load_s = seconds_since(start);
      const int n_gpus = options.ranks.gpus == "own" ? comm.size() : 1;
      Bench bench(size, dtype, options.repeats, n_gpus, coordinator);
      Figures figures = bench.run();
      figures.set("size", size.name).set("dtype", dtype_text(dtype)).set("load_s", load_s);
      figures.set("ranks", comm.size()).set("transport", comm.describe());
      figures.set("weight_elements", Work(config).weights());
      figures.save(options.figures);
      std::printf("%s\n", bench.summary().c_str());
    });
  });
  return 0;
}

}  // namespace

int run_bench(Arguments& arguments) {
  const RankOptions ranks = rank_options(arguments);
  const BenchOptions options{.ranks = ranks,
                             .size = &size_of(arguments.text("size", "tiny")),
                             .dtype = arguments.dtypes("dtype", "bf16").front(),
                             .repeats = arguments.number("repeats", 40),
                             .figures = arguments.text("figures", "")};
  arguments.finish();
  const std::int64_t most = options.size->n_positions - options.size->context - kWarmUp;
  if (options.repeats < 1 || options.repeats > most) {
    fail(ExitCode::usage, {.what = "--repeats",
                           .expected = "1 to " + std::to_string(most),
                           .found = std::to_string(options.repeats)});
  }
  return common_code(fork_ranks(ranks, [&](int, std::unique_ptr<Communicator> host) {
    return measure(options, std::move(host));
  }));
}

}  // namespace shardlm::gpu_check
