#include "study/coll_bench.h"

#include <algorithm>
#include <cstring>

#include "comm/call_record.h"
#include "comm/ticks.h"
#include "engine/wire.h"
#include "study/cost_model.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

constexpr int kWarmupRounds = 20, kBlockRounds = 50;

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(steady_ns() - start_ns) * 1e-9;
}

/// All candidates at one size, on one rank.
class Measurement {
 public:
  Measurement(Communicator& control, Backend& backend, const std::vector<CollCandidate>& candidates,
              const CollPlan& plan, std::size_t bytes)
      : control_(control),
        candidates_(candidates),
        plan_(plan),
        call_(make_timed_call(plan.op, backend, bytes)),
        order_(candidates.size()),
        us_(candidates.size()) {}

  std::vector<CollSample> run() {
    std::vector<std::uint64_t> wrong;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      wrong.push_back(call_->n_wrong(*candidates_[i].comm, meet(i)));
    warm_up();
    const Stopped stopped = measure();
    std::vector<CollSample> samples;
    const auto wrong_by_rank = gathered(control_, wrong);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const std::optional<double> wire_tx = sent_in_a_call(i);
      if (control_.rank() != 0) continue;
      CollSample& s = samples.emplace_back();
      s = {.op = plan_.op,
           .algorithm = candidates_[i].name,
           .choice = candidates_[i].choice,
           .bytes = call_->bytes(),
           .isolated = plan_.isolated,
           .us = std::move(us_[i]),
           .calls = 0,
           .stopped = stopped,
           .n_wrong = 0,
           .wire_tx = wire_tx,
           .model_us = std::nullopt};
      s.calls = s.us.size() * (plan_.isolated ? 1U : unsigned{CollPlan::kBurst});
      for (const auto& of_rank : wrong_by_rank) s.n_wrong += of_rank[i];
    }
    return samples;
  }

 private:
  // Another candidate meets as quickly as this one.
  Communicator& meet(std::size_t i) {
    return candidates_.size() == 1 ? control_ : *candidates_[i == 0 ? 1 : 0].comm;
  }

  double time_us(std::size_t i) {
    Communicator& comm = *candidates_[i].comm;
    return plan_.isolated ? call_->call_us(comm, meet(i), plan_.before)
                          : call_->burst_us(comm, meet(i), CollPlan::kBurst, plan_.before);
  }

  // Rounds through all candidates; the times of the slowest rank, [candidate], at rank 0.
  std::vector<std::vector<double>> rounds(int n) {
    std::vector<std::vector<double>> mine(candidates_.size()), all;
    for (int i = 0; i < n; ++i) {
      draw_order(order_, round_++);
      for (const std::size_t k : order_) mine[k].push_back(time_us(k));
    }
    for (const auto& times : mine) all.push_back(slowest_of_ranks(control_, times));
    return all;
  }

  bool agreed(bool of_root) {
    std::vector<std::byte> message{static_cast<std::byte>(of_root ? 1 : 0)};
    control_.broadcast({SiteKind::load}, message, 0);
    return message[0] != std::byte{0};
  }

  void warm_up() {
    const WarmupRule rule{
        .least = 1, .most = 20, .max_seconds = std::min(2.0, plan_.rule.max_seconds / 2)};
    const std::int64_t start = steady_ns();
    std::vector<double> blocks;  // the sum of the candidates' medians
    bool warm = false;
    while (!warm) {
      double sum = 0;
      for (auto& times : rounds(kWarmupRounds)) sum += median(times);
      blocks.push_back(sum);
      warm = agreed(rule.warm(blocks, seconds_since(start)));
    }
  }

  // Why it is enough, if it is: the least of the candidates' reasons.
  std::optional<Stopped> enough(double elapsed_s) const {
    Stopped worst = Stopped::precise;
    for (const auto& times : us_) {
      const auto stopped = plan_.rule.stop(times, elapsed_s);
      if (!stopped) return std::nullopt;
      worst = std::max(worst, *stopped);
    }
    return worst;
  }

  Stopped measure() {
    const std::int64_t start = steady_ns();
    std::optional<Stopped> stopped;
    std::int64_t done = 0;
    while (true) {
      const std::int64_t left = plan_.rule.most - done;
      const std::int64_t more =
          std::clamp<std::int64_t>(done < plan_.rule.least ? plan_.rule.least - done : done / 4, 1,
                                   std::max<std::int64_t>(left, 1));
      const auto n = std::min<std::int64_t>(more, std::max<std::int64_t>(kBlockRounds, done / 4));
      const auto all = rounds(static_cast<int>(n));
      done += n;
      for (std::size_t i = 0; i < all.size(); ++i)
        us_[i].insert(us_[i].end(), all[i].begin(), all[i].end());
      if (control_.rank() == 0) stopped = enough(seconds_since(start));
      if (agreed(stopped.has_value())) return stopped.value_or(Stopped::most);
    }
  }

  // By the record of one more call, so that no call that is timed is recorded.
  std::optional<double> sent_in_a_call(std::size_t i) {
    std::int64_t sent = -1;
    if (CallLog* log = candidates_[i].comm->log()) {
      *log = CallLog(4);
      call_->call_us(*candidates_[i].comm, meet(i));
      if (log->calls.size() > 0) sent = log->calls[log->calls.size() - 1].wire_tx;
      *log = CallLog();
    }
    const auto all = gathered(control_, std::vector<std::int64_t>{sent});
    double sum = 0;
    for (const auto& of_rank : all) {
      if (of_rank[0] < 0) return std::nullopt;
      sum += static_cast<double>(of_rank[0]);
    }
    if (all.empty()) return std::nullopt;
    return sum / static_cast<double>(all.size());
  }

  Communicator& control_;
  const std::vector<CollCandidate>& candidates_;
  const CollPlan& plan_;
  std::unique_ptr<TimedCall> call_;
  std::vector<std::size_t> order_;
  std::uint32_t round_ = 0;
  std::vector<std::vector<double>> us_;  // [candidate]; rank 0's
};

bool by_memory(const CollSample& s) { return s.choice && needs_one_node(s.choice->algorithm); }

}  // namespace

std::vector<CollSample> measure_collective(Communicator& control, Backend& backend,
                                           const std::vector<CollCandidate>& candidates,
                                           const CollPlan& plan, std::size_t bytes) {
  check(!candidates.empty(), "something to measure");
  return Measurement(control, backend, candidates, plan, bytes).run();
}

CollVolume volume_of(Op op, int ranks, std::size_t bytes) {
  const double p = ranks, n = static_cast<double>(bytes);
  switch (op) {
    case Op::all_reduce:
      return {n, 2 * (p - 1) / p};
    case Op::gather:
      return {p * n, (p - 1) / p};
    case Op::broadcast:
      return {n, 1};
    case Op::barrier:
      return {0, 1};
  }
  return {};
}

CollModel fitted_model(const std::vector<CollSample>& samples, int ranks) {
  std::optional<LinkCost> links[2];  // by messages, by memory
  for (const bool memory : {false, true}) {
    std::vector<TimedSum> sums;
    for (const CollSample& s : samples) {
      if (!s.choice || by_memory(s) != memory) continue;
      std::vector<double> us = s.us;
      sums.push_back({s.choice->algorithm, static_cast<double>(s.bytes), median(us) * 1e-6});
    }
    links[memory ? 1 : 0] = fit_link(sums, ranks);
  }
  return [memory = links[1], messages = links[0], ranks](
             const AllReduceChoice& choice, std::size_t bytes) -> std::optional<double> {
    const auto& link = needs_one_node(choice.algorithm) ? memory : messages;
    const auto terms = cost_terms(choice.algorithm, ranks, static_cast<double>(bytes));
    if (!link || !terms) return std::nullopt;
    return terms->seconds(*link);
  };
}

}  // namespace shardlm
