#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <functional>

namespace shardlm {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

// Fills in what a query asks on behalf of its sequence: the next token's position is the number of
// tokens before it.
void fill_query(Sequence& s, RowQuery& row) {
  row.query = s.sampler().query(static_cast<std::uint64_t>(s.n_tokens()));
  row.penalties.assign(row.query.penalties.begin(), row.query.penalties.end());
}

class Run {
 public:
  Run(Coordinator& coordinator, const GenerateSetup& setup, const OnText& on_text)
      : coordinator_(coordinator), setup_(setup), on_text_(on_text) {}

  void step(Scheduler& scheduler) {
    scheduler.next(plan_, asked_);
    for (std::size_t i = 0; i < asked_.size(); ++i) fill_query(*asked_[i], plan_.queries[i]);
    while (true) {
      const auto& replies = coordinator_.run(plan_);
      if (!take(replies)) break;
      plan_.command = Command::ask;  // some need more candidates for the same rows
    }
    scheduler.retire_finished();
  }

 private:
  // Lets each asked sequence choose. Those that cannot yet stay in the plan with a wider query.
  bool take(const std::vector<std::vector<LogitReply>>& replies) {
    const double now = setup_.clock();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      Sequence& s = *asked_[i];
      std::optional<Sampled> sampled = s.sampler().choose(replies[i]);
      if (sampled) {
        accept(s, std::move(*sampled), now);
        continue;
      }
      fill_query(s, plan_.queries[i]);
      if (kept != i) std::swap(plan_.queries[kept], plan_.queries[i]);
      asked_[kept++] = &s;
    }
    asked_.resize(kept);
    plan_.queries.resize(kept);
    return kept > 0;
  }

  void accept(Sequence& s, Sampled sampled, double now) {
    if (s.ids().empty()) s.first_id_s = now;
    s.last_id_s = now;
    const std::int32_t id = sampled.id;
    const std::string_view bytes =
        setup_.tokenizer ? setup_.tokenizer->token_bytes(id) : std::string_view();
    const std::string text = s.accept(std::move(sampled), bytes, id == setup_.eos);
    if (!text.empty() && on_text_) on_text_(s.index(), text);
  }

  Coordinator& coordinator_;
  const GenerateSetup& setup_;
  const OnText& on_text_;
  StepPlan plan_;
  std::vector<Sequence*> asked_;
};

GenerateTiming measure(const std::vector<Sequence>& sequences, double start_s) {
  GenerateTiming timing;
  double first = 0, last = 0, between = 0;
  std::int64_t gaps = 0;
  for (const Sequence& s : sequences) {
    if (s.ids().empty()) continue;
    first = timing.ttft_ms ? std::min(first, s.first_id_s) : s.first_id_s;
    last = std::max(last, s.last_id_s);
    timing.ttft_ms = (first - start_s) * 1e3;
    between += s.last_id_s - s.first_id_s;
    gaps += static_cast<std::int64_t>(s.ids().size()) - 1;
  }
  if (gaps > 0) {
    timing.tpot_ms = between * 1e3 / static_cast<double>(gaps);
    timing.tokens_per_s = static_cast<double>(gaps) / (last - first);
  }
  return timing;
}

}  // namespace

std::int64_t blocks_needed(const std::vector<Request>& requests, const GenerateSetup& setup) {
  std::vector<std::int64_t> blocks;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Sequence s(requests[i], i, setup.n_positions, setup.vocab_size);
    blocks.push_back((s.most_cached() + setup.block_tokens - 1) / setup.block_tokens);
  }
  std::sort(blocks.begin(), blocks.end(), std::greater<>());
  const auto batch = std::min(blocks.size(), static_cast<std::size_t>(setup.limits.max_batch));
  std::int64_t total = 0;
  for (std::size_t i = 0; i < batch; ++i) total += blocks[i];
  return total;
}

std::vector<Sequence> generate(Coordinator& coordinator, const GenerateSetup& setup,
                               std::vector<Request> requests, std::int64_t n_blocks,
                               const OnText& on_text, GenerateTiming& timing) {
  std::vector<Sequence> sequences;
  sequences.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequences.emplace_back(std::move(requests[i]), i, setup.n_positions, setup.vocab_size);
  }
  KvAllocator cache(n_blocks, setup.block_tokens);
  Scheduler scheduler(sequences, cache, setup.limits);
  Run run(coordinator, setup, on_text);
  const double start_s = setup.clock();
  while (!scheduler.done()) run.step(scheduler);
  timing = measure(sequences, start_s);
  return sequences;
}

}  // namespace shardlm
