// gpu_check golden: the golden models through the whole engine.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "engine/generate.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/golden_pack.h"
#include "tools/gpu_check/model_rank.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

constexpr std::int64_t kBlockTokens = 8, kBlocksEach = 5, kSequences = 2;

// Roundings on the way to a logit: every layer adds a few chains of n_embd and n_inner terms. Their
// errors being independent, the sum's is their square root's; four times that is allowed.
double tolerance(const GoldenCase& golden, DType dtype) {
  const ModelConfig& c = golden.config;
  const double depth = static_cast<double>(c.n_layer * (3 * c.n_embd + c.n_inner));
  double scale = 0;
  for (const float logit : golden.logits) scale = std::max<double>(scale, std::abs(logit));
  const double epsilon = dtype == DType::f32 ? 0x1p-23 : rounding(dtype);
  return 4 * std::sqrt(depth) * epsilon * scale;
}

/// One golden case on rank 0.
class GoldenRun {
 public:
  GoldenRun(const GoldenCase& golden, DType dtype, const std::string& where, Coordinator& ranks,
            Findings& findings)
      : golden_(golden),
        tolerance_(tolerance(golden, dtype)),
        where_(where + ", case " + golden.name),
        ranks_(ranks),
        findings_(findings) {}

  void run(bool exact_ids) {
    prompt_at_once();
    prompt_by_tokens();
    if (exact_ids) {
      greedy_ids();
    } else {
      for (const GreedyText& text : golden_.greedy) greedy_ids_within_the_type(text);
    }
  }

 private:
  // All logits of the row's vocabulary, from every rank's share.
  static RowQuery all_logits(std::int64_t row, std::int64_t vocab_size) {
    RowQuery query{.row = static_cast<std::int32_t>(row), .query = {}, .penalties = {}};
    query.query.n_top = static_cast<int>(vocab_size);
    return query;
  }

  void compare(const std::vector<LogitReply>& by_rank, std::size_t position, const char* how) {
    const auto vocab = static_cast<std::size_t>(golden_.config.vocab_size);
    std::vector<float> got(vocab, std::numeric_limits<float>::quiet_NaN());
    for (const LogitReply& reply : by_rank) {
      for (const Candidate& candidate : reply.top) {
        const auto id = static_cast<std::size_t>(candidate.id);
        if (id < vocab) got[id] = candidate.raw;
      }
    }
    const auto row = std::span(golden_.logits).subspan(position * vocab, vocab);
    const std::vector<double> want(row.begin(), row.end());
    findings_.near(where_ + ", " + how + ", logits of position " + std::to_string(position), got,
                   want, tolerance_);
  }

  void prompt_at_once() {
    StepPlan plan;
    plan.sequences.push_back(sequence_plan(0, kBlocksEach, 0, golden_.prompt));
    for (std::int64_t row = 0; row < std::ssize(golden_.prompt); ++row) {
      plan.queries.push_back(all_logits(row, golden_.config.vocab_size));
    }
    const auto& replies = ranks_.run(plan);
    for (std::size_t p = 0; p < replies.size(); ++p) compare(replies[p], p, "prompt at once");
  }

  // Decode steps of two sequences: the first of a form runs eagerly, the second is recorded, the
  // others are replayed.
  void prompt_by_tokens() {
    for (std::size_t p = 0; p < golden_.prompt.size(); ++p) {
      StepPlan plan;
      for (std::int64_t s = 0; s < kSequences; ++s) {
        plan.sequences.push_back(
            sequence_plan(s, kBlocksEach, static_cast<std::int64_t>(p), {golden_.prompt[p]}));
        plan.queries.push_back(all_logits(s, golden_.config.vocab_size));
      }
      for (const auto& by_rank : ranks_.run(plan)) compare(by_rank, p, "token by token");
    }
  }

  void greedy_ids() {
    std::vector<Request> requests;
    for (const GreedyText& text : golden_.greedy) {
      requests.push_back({.prompt = text.prompt,
                          .sampling = {.temperature = 0},
                          .max_tokens = std::ssize(text.ids)});
    }
    GenerateTiming timing;
    const GenerateSetup setup{.n_positions = golden_.config.n_positions,
                              .vocab_size = golden_.config.vocab_size,
                              .block_tokens = kBlockTokens,
                              .limits = {.prefill_chunk = 4, .max_batch = kSequences}};
    const auto sequences = generate(ranks_, setup, requests, kBlocksEach * kSequences, {}, timing);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      findings_.require(sequences[i].ids() == golden_.greedy[i].ids,
                        where_ + ", greedy continuation " + std::to_string(i), "other ids");
    }
  }

  // In a 2-byte type a near tie may turn: the golden id must be the best but for the type's error.
  void greedy_ids_within_the_type(const GreedyText& text) {
    std::vector<std::int32_t> ids = text.prompt;
    ids.insert(ids.end(), text.ids.begin(), text.ids.end() - 1);
    StepPlan plan;
    plan.sequences.push_back(sequence_plan(0, kBlocksEach, 0, ids));
    for (std::size_t i = 0; i < text.ids.size(); ++i) {
      RowQuery query{.row = static_cast<std::int32_t>(text.prompt.size() - 1 + i),
                     .query = {},
                     .penalties = {}};
      query.query.target = text.ids[i];
      plan.queries.push_back(query);
    }
    const auto& replies = ranks_.run(plan);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      double best = -std::numeric_limits<double>::infinity(), golden = best;
      for (const LogitReply& reply : replies[i]) {
        for (const Candidate& c : reply.candidates) best = std::max<double>(best, c.raw);
        if (reply.target) golden = *reply.target;
      }
      findings_.require(best - golden <= 2 * tolerance_,
                        where_ + ", greedy id " + std::to_string(i),
                        "another id is better by " + std::to_string(best - golden));
    }
  }

  const GoldenCase& golden_;
  double tolerance_;
  std::string where_;
  Coordinator& ranks_;
  Findings& findings_;
};

struct GoldenOptions {
  RankOptions ranks;
  std::vector<DType> dtypes;
  std::vector<bool> graphs;
  std::vector<std::string> cases;  ///< {"all"} or names
  std::string pack, figures;

  bool has(const std::string& name) const {
    return cases.front() == "all" || std::count(cases.begin(), cases.end(), name) > 0;
  }
};

int check_golden(const GoldenOptions& options, std::unique_ptr<Communicator> host) {
  const GoldenPack pack(options.pack);
  Findings findings;
  std::string transport;
  HostEnd end(options.ranks, std::move(host));
  for (const DType dtype : options.dtypes) {
    for (const bool graphs : options.graphs) {
      const std::string where = dtype_text(dtype) + (graphs ? ", recorded" : ", enqueued");
      end.with_device({dtype, dtype, dtype}, graphs, [&](Communicator& comm, Backend& backend) {
        transport = comm.describe();
        for (const GoldenCase& golden : pack.cases()) {
          if (!options.has(golden.name)) continue;
          GoldenWeights weights(golden);
          const ModelRun model{.config = golden.config,
                               .weights = weights,
                               .n_blocks = kBlocksEach * kSequences,
                               .block_tokens = kBlockTokens};
          run_model(model, comm, backend, [&](Coordinator& coordinator) {
            GoldenRun(golden, dtype, where, coordinator, findings).run(dtype == DType::f32);
          });
        }
      });
    }
  }
  if (end.rank() != 0) return 0;
  findings.require(findings.checked() > 0, "--cases", "none of these is in the pack");
  findings.figures().set("transport", transport).save(options.figures);
  std::printf("%s; %s\n", findings.summary().c_str(), transport.c_str());
  return findings.report();
}

}  // namespace

int run_golden(Arguments& arguments) {
  const GoldenOptions options{.ranks = rank_options(arguments),
                              .dtypes = arguments.dtypes("dtypes", "f32,f16,bf16"),
                              .graphs = arguments.switches("graphs", "off,on"),
                              .cases = arguments.list("cases", "all"),
                              .pack = arguments.text("pack", "tests/data/golden/gpu_check.pack"),
                              .figures = arguments.text("figures", "")};
  arguments.finish();
  return common_code(fork_ranks(options.ranks, [&](int, std::unique_ptr<Communicator> host) {
    return check_golden(options, std::move(host));
  }));
}

}  // namespace shardlm::gpu_check
