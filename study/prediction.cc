#include "study/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "comm/shm_team.h"
#include "comm/wire_codec.h"
#include "study/compute_facts.h"
#include "study/emulated_load.h"
#include "study/work_shares.h"

namespace shardlm {
namespace {

constexpr double kMostReplicated = 0.9;  // of a measured time: more is no measurement of this model

double real(std::int64_t n) { return static_cast<double>(n); }

std::vector<AllReduceChoice> candidates_of(const PredictionRequest& r, const GroupShape& shape) {
  if (r.choice) return {*r.choice};
  std::vector<AllReduceChoice> all;
  const auto by_messages = {Algorithm::direct, Algorithm::recdbl, Algorithm::rabenseifner,
                            Algorithm::ring};
  if (shape.nodes == 1 && (r.links.find("shm") || r.links.find("emulated")))
    return {{Algorithm::shm_oneshot}, {Algorithm::shm_twoshot}};
  for (const Algorithm a : by_messages) {
    if (shape.nodes > 1 && shape.most_ranks_on_a_node > 1) {
      all.push_back({Algorithm::two_level, WireFormat::f32, a});
    } else {
      all.push_back({a});
    }
  }
  return all;
}

std::size_t wire_bytes(const AllReduceChoice& choice, std::size_t bytes) {
  if (choice.wire == WireFormat::f32) return bytes;
  return wire_codec(SumType::f32, choice.wire).wire_bytes(bytes / sizeof(float));
}

/// The messages of a pass: so many rows at a time.
struct Chunk {
  double times = 1;
  std::int64_t rows = 1;
};

class Predictor {
 public:
  explicit Predictor(const PredictionRequest& request) : r_(request) {
    set_pass();
    set_one_rank();
  }

  Prediction run() {
    Prediction p;
    for (const int ranks : r_.ranks) p.points.push_back(point(ranks));
    double best = 0;
    for (const PredictedPoint& point : p.points) {
      if (point.fits_memory.value_or(true) && point.tokens_per_s > best) {
        best = point.tokens_per_s;
        p.best_ranks = point.ranks;
      }
    }
    p.notes = notes_;
    return p;
  }

 private:
  void set_pass();
  void set_one_rank();
  void split_measured(double replicated_s);
  void estimate(double replicated_s);
  double estimated_s(double flops, double bytes) const;
  double contention(int ranks, const GroupShape& shape);
  PredictedPoint point(int ranks);
  PredictedParts parts_s(const GroupShape& shape, const LargestShares& shares);
  double meetings(const GroupShape& shape);
  void add_sums(const GroupShape& shape, PredictedPoint& point, double tokens);
  std::optional<double> sum_s(const AllReduceChoice& choice, const GroupShape& shape,
                              std::size_t bytes) const;
  void note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }

  const PredictionRequest& r_;
  std::vector<std::string> notes_;
  std::vector<Chunk> chunks_;
  PassWork work_;
  double rows_ = 1;       // of all chunks
  double sharded_s_ = 0;  // of one rank: what ranks share out, all parts
  double replicated_s_ = 0;
  double other_s_ = 0;
};

void Predictor::set_pass() {
  const std::int64_t rows = r_.prefill ? r_.batch * r_.prompt : r_.batch;
  const std::int64_t most = r_.prefill ? r_.prefill_chunk : rows;
  if (rows / most > 0) chunks_.push_back({real(rows / most), most});
  if (rows % most > 0) chunks_.push_back({1, rows % most});
  rows_ = real(rows);
  double keys = r_.prefill ? (real(r_.prompt) + 1) / 2 : real(r_.prompt);
  if (!r_.prefill && r_.timing) {  // what was timed: n steps after a prompt of one token
    keys = (real(r_.timing->tokens) + 1) / 2 + 1;
    note(fmt::format("decoding: {} tokens after a prompt of one, as was timed", r_.timing->tokens));
  } else if (!r_.prefill) {
    note(fmt::format("decoding: {} tokens stand before", r_.prompt));
  }
  work_ = pass_work(r_.config, rows_, keys, real(r_.batch));
}

void Predictor::set_one_rank() {
  const double sums = real(2 * r_.config.n_layer + 1);
  double replicated_s = 0, passes = 0;
  for (const Chunk& chunk : chunks_) passes += chunk.times;
  if (const auto& facts = r_.links.compute) {
    replicated_s = sums * (passes * facts->norm_row_s +
                           rows_ * real(r_.config.n_embd) * facts->norm_s_per_element) +
                   passes * real(4 * r_.config.n_layer + 1) * facts->op_s;
    note("every rank does residuals, LayerNorms and the start of ops in full, as calibrated");
  } else {
    note("what every rank does in full (LayerNorms, residuals) is not counted apart");
  }
  if (r_.timing) {
    split_measured(replicated_s);
  } else {
    estimate(replicated_s);
  }
}

void Predictor::split_measured(double replicated_s) {
  const OneRankTiming& t = *r_.timing;
  other_s_ = std::min(t.other_s.value_or(0), t.seconds / 2);
  if (!t.other_s)
    note("the timing does not say what passes between steps: counted with what is shared out");
  const double most = kMostReplicated * (t.seconds - other_s_);
  replicated_s_ = std::min(replicated_s, most);
  sharded_s_ = t.seconds - other_s_ - replicated_s_;
  note(fmt::format("one rank: {:.4g} ms, measured ({}, {})", t.seconds * 1e3, t.test, t.where));
  const auto& facts = r_.links.compute;
  if (facts && facts->threads != t.threads)
    note(fmt::format("the timing is of {} threads, the calibration of {}", t.threads,
                     facts->threads));
}

// Seconds of flops over matrices of so many bytes, by what is known of a rank.
double Predictor::estimated_s(double flops, double bytes) const {
  const auto& facts = r_.links.compute;
  if (r_.read_gb_per_s || r_.gflop_per_s) {
    const double read = r_.read_gb_per_s ? bytes * 1e-9 / *r_.read_gb_per_s : 0;
    const double arithmetic = r_.gflop_per_s ? flops * 1e-9 / *r_.gflop_per_s : 0;
    return std::max(read, arithmetic);
  }
  const auto seconds = facts ? slowness(*facts, real(chunks_[0].rows), bytes, 1) : std::nullopt;
  if (!seconds) {
    fail(ExitCode::usage,
         {.what = "the time of one rank",
          .expected = "--from BENCH.jsonl, a --calibration with rates, or --read-gbps and --gflops",
          .found = "none",
          .remedy = "measure it: shardlm bench --format jsonl, without mpirun"});
  }
  return flops * 1e-9 * *seconds;
}

void Predictor::estimate(double replicated_s) {
  const double bytes = real(largest_shares(r_.config, 1, r_.precision).weight_bytes);
  sharded_s_ = 0;
  for (const Chunk& chunk : chunks_) {
    const double flops = work_.total() * real(chunk.rows) / rows_;
    sharded_s_ += chunk.times * estimated_s(flops, bytes);
  }
  replicated_s_ = replicated_s;
  note(r_.read_gb_per_s || r_.gflop_per_s
           ? "one rank: the longer of reading its weights and computing, at the given rates"
           : "one rank: from the calibrated speed of its matrices, not from a run of the model");
}

// How much slower the busiest of P ranks does its share than one rank alone would.
double Predictor::contention(int ranks, const GroupShape& shape) {
  const auto& facts = r_.links.compute;
  if (ranks == 1) return 1;
  if (!facts || facts->matmul.empty()) {
    note("ranks of a machine do not slow each other down");
    return 1;
  }
  const double rows = real(chunks_[0].rows);
  const auto bytes = [&](int n) {
    return real(largest_shares(r_.config, n, r_.precision).weight_bytes);
  };
  const int local = shape.most_ranks_on_a_node;
  if (local > 1 && facts->ranks_at_once == 1) {
    note("calibrated with one rank: ranks of a machine do not slow each other down");
  } else if (local > facts->ranks_at_once) {
    note(fmt::format("how {} ranks of a machine share its memory is taken further from {}", local,
                     facts->ranks_at_once));
  } else if (local > 1) {
    note(fmt::format("ranks of a machine share its memory as {} calibrated ones do",
                     facts->ranks_at_once));
  }
  if (facts->dtype != r_.dtype)
    note(fmt::format("speeds are calibrated in {}, the model is in {}: only their ratios count",
                     facts->dtype, r_.dtype));
  return *slowness(*facts, rows, bytes(ranks), local) / *slowness(*facts, rows, bytes(1), 1);
}

// A plan out, replies in: rank 0 to all and all to rank 0.
double Predictor::meetings(const GroupShape& shape) {
  if (shape.ranks == 1) return 0;
  const double others = shape.ranks - 1;
  const auto by_formula = [&](const GroupShape& s) -> std::optional<double> {
    const LinkClass* link = link_of(r_.links, Algorithm::shm_oneshot, s);
    if (link == nullptr) link = link_of(r_.links, Algorithm::direct, s);
    if (link == nullptr) return std::nullopt;
    const auto n = static_cast<double>(
        (kPlanBytes + kReplyBytes) * static_cast<std::size_t>(std::max<std::int64_t>(1, r_.batch)));
    const LinkSegment& cost = link->segment(n / 2);
    const double p = s.ranks - 1;
    return 2 * cost.alpha_s + 2 * p * link->per_message_s.value_or(0) +
           p * n * cost.beta_s_per_byte;
  };
  double seconds = by_formula(shape).value_or(0);
  const auto& facts = r_.links.compute;
  const GroupShape calibrated = even_shape(r_.links.ranks, r_.links.nodes);
  if (facts && facts->meetings_s && calibrated.ranks > 1 &&
      (calibrated.nodes > 1) == (shape.nodes > 1)) {
    const auto then = by_formula(calibrated);
    if (then && *then > 0) seconds = *facts->meetings_s * (seconds / *then);
  }
  if (r_.emulation.delays()) {
    const double batch = real(std::max<std::int64_t>(1, r_.batch));
    for (const double bytes : {kPlanBytes * batch, kReplyBytes * batch})
      seconds += 1e-9 * static_cast<double>(network_ns(r_.emulation, {1, others * bytes}, 0, 0));
  }
  return seconds;
}

std::optional<double> Predictor::sum_s(const AllReduceChoice& choice, const GroupShape& shape,
                                       std::size_t bytes) const {
  auto seconds = predicted_all_reduce_s(r_.links, choice, shape, wire_bytes(choice, bytes));
  if (!seconds || !r_.emulation.delays()) return seconds;
  const bool cut = needs_one_node(choice.algorithm) || choice.algorithm == Algorithm::two_level;
  const std::size_t most = cut ? ShmTeam::kSlotBytes : std::max<std::size_t>(bytes, 1);
  Emulation mean = r_.emulation;
  mean.latency_us += mean.jitter_us / 2 * (mean.jitter_us > 0 ? 1 : 0);
  mean.jitter_us = 0;
  each_piece(bytes, most, [&](std::size_t piece, double times) {
    const NetworkLoad load = emulated_load(choice, shape, piece);
    *seconds += times * 1e-9 * static_cast<double>(network_ns(mean, load, 0, 0));
  });
  return seconds;
}

// The sums of the pass by the quickest choice, and the latency at which they eat all that is won.
void Predictor::add_sums(const GroupShape& shape, PredictedPoint& point, double one_rank_s) {
  if (shape.ranks == 1) return;
  const double sums = real(2 * r_.config.n_layer + 1);
  const double rest_s = point.ms.total() * 1e-3;
  double best_s = 0;
  std::optional<double> break_even;
  std::string refused;
  bool any = false;
  for (const AllReduceChoice& choice : candidates_of(r_, shape)) {
    double seconds = 0, rounds = 2;  // of the plan and the replies
    bool known = true;
    for (const Chunk& chunk : chunks_) {
      const auto bytes = static_cast<std::size_t>(chunk.rows * r_.config.n_embd) * sizeof(float);
      const auto one = sum_s(choice, shape, bytes);
      const auto count = rounds_in_all_reduce(choice, shape, wire_bytes(choice, bytes));
      known = known && one && count;
      if (!known) break;
      seconds += chunk.times * sums * *one;
      rounds += chunk.times * sums * *count;
    }
    if (!known) {
      refused = choice_text(choice);
      continue;
    }
    if (!any || seconds < best_s) {
      best_s = seconds;
      point.algorithm = choice_text(choice);
    }
    any = true;
    const LinkClass* link = choice.algorithm == Algorithm::two_level
                                ? r_.links.find("network")
                                : link_of(r_.links, choice.algorithm, shape);
    const auto row_bytes = real(chunks_[0].rows * r_.config.n_embd) * sizeof(float);
    const double now = link->segment(row_bytes).alpha_s + r_.emulation.latency_us * 1e-6;
    const double alpha = now + (one_rank_s - rest_s - seconds) / rounds;
    if (alpha > 0) break_even = std::max(break_even.value_or(0), alpha);
  }
  if (!any) {
    fail(ExitCode::usage,
         {.what = fmt::format("all-reduce {} of {} ranks on {} machines", refused, shape.ranks,
                              shape.nodes),
          .expected = "an algorithm and a class of links that the model knows",
          .found = fmt::format("none in {}", r_.links.source),
          .remedy = "calibrate over as many machines, or give --link, --nodes or --allreduce"});
  }
  if (r_.emulation.slows() && r_.emulation.slow_rank < shape.ranks) {
    double passes = 0;
    for (const Chunk& chunk : chunks_) passes += chunk.times;
    best_s += sums * passes * r_.emulation.slow_us * 1e-6;
  }
  point.ms.all_reduce = best_s * 1e3;
  if (break_even) point.break_even_alpha_us = *break_even * 1e6;
}

PredictedParts Predictor::parts_s(const GroupShape& shape, const LargestShares& shares) {
  const double slower = contention(shape.ranks, shape), all = work_.total();
  const double meetings_half = meetings(shape) / 2;
  PredictedParts ms;
  ms.compute =
      sharded_s_ * slower * (work_.attention * shares.attention + work_.mlp * shares.mlp) / all +
      replicated_s_;
  ms.head = sharded_s_ * slower * work_.head * shares.head / all + meetings_half;
  ms.other = other_s_ + meetings_half;
  for (double* part : {&ms.compute, &ms.head, &ms.other}) *part *= 1e3;
  return ms;
}

PredictedPoint Predictor::point(int ranks) {
  const GroupShape shape = layout_of(r_, ranks);
  const LargestShares shares = largest_shares(r_.config, ranks, r_.precision);
  PredictedPoint p;
  p.ranks = ranks;
  p.nodes = shape.nodes;
  p.algorithm = "-";
  p.ms = parts_s(shape, shares);
  const double one_rank_s = sharded_s_ + replicated_s_ + other_s_;
  add_sums(shape, p, one_rank_s);
  const double total_s = p.ms.total() * 1e-3;
  p.tokens_per_s = (r_.prefill ? rows_ : real(r_.batch)) / total_s;
  p.speedup = one_rank_s / total_s;
  p.efficiency = p.speedup / ranks;
  const double busiest =
      (work_.attention * shares.attention + work_.mlp * shares.mlp + work_.head * shares.head) /
      work_.total();
  p.load_balance = 1 / (ranks * busiest);
  p.rank_bytes = real(shares.weight_bytes) +
                 real(r_.batch) * real(r_.config.n_positions) * real(shares.kv_bytes_per_token);
  const auto& facts = r_.links.compute;
  std::optional<double> memory = r_.memory_bytes;
  if (!memory && facts && facts->node_memory_bytes > 0)
    memory = static_cast<double>(facts->node_memory_bytes) / shape.most_ranks_on_a_node;
  if (memory) p.fits_memory = p.rank_bytes <= *memory;
  return p;
}

}  // namespace

GroupShape layout_of(const PredictionRequest& r, int ranks) {
  if (r.layout.nodes) return even_shape(ranks, *r.layout.nodes);
  if (r.layout.ranks_per_node) {
    const int per = *r.layout.ranks_per_node;
    return even_shape(ranks, (ranks + per - 1) / per);
  }
  const bool network = r.links.find("network") != nullptr && !r.links.find("emulated");
  if (!network) return even_shape(ranks, 1);
  if (r.links.nodes > 1) {  // as many on each as were calibrated
    const int per = std::max(1, r.links.ranks / r.links.nodes);
    return even_shape(ranks, (ranks + per - 1) / per);
  }
  return even_shape(ranks, ranks);
}

Prediction predict(const PredictionRequest& request) {
  check(!request.ranks.empty(), "a prediction of some ranks");
  Prediction p = Predictor(request).run();
  const auto add = [&p](std::string text) { p.notes.push_back(std::move(text)); };
  add(fmt::format("links: {}", request.links.source));
  if (!request.links.emulate.empty()) add("links were emulated: " + request.links.emulate);
  if (!(request.emulation == Emulation{}))
    add(fmt::format("emulated network {}: its delays are added to the links' times",
                    emulation_text(request.emulation)));
  add("the rank with the largest share decides; ranks do not wait for each other beyond that");
  add("nothing is overlapped; ranks are spread evenly over machines");
  if (!request.choice) add("each pass takes the all-reduce that is the quickest by the model");
  const bool several = std::any_of(p.points.begin(), p.points.end(),
                                   [](const PredictedPoint& x) { return x.nodes > 1; });
  if (several)
    add("two levels: the ranks of a machine share its one link; flat algorithms: each message has "
        "a link of its own, and all cross the network");
  if (request.links.find("shm") && !request.links.find("shm")->per_message_s)
    add("two ranks cannot show what a further rank's flag costs: counted as nothing");
  return p;
}

}  // namespace shardlm
