#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "engine/generate.h"
#include "io/utf8.h"
#include "launcher/commands.h"
#include "launcher/output.h"
#include "launcher/prompts.h"
#include "launcher/session.h"

namespace shardlm {
namespace {

using nlohmann::json;

SamplingParams sampling_params(const GenerateOptions& o, std::uint64_t seed) {
  SamplingParams p{.temperature = o.temperature,
                   .top_k = o.top_k,
                   .top_p = o.top_p,
                   .min_p = o.min_p,
                   .repetition_penalty = o.repetition_penalty,
                   .presence_penalty = o.presence_penalty,
                   .frequency_penalty = o.frequency_penalty,
                   .seed = seed};
  if (o.logprobs) p.logprobs = static_cast<int>(*o.logprobs);
  validate(p);
  return p;
}

std::uint64_t draw_seed() {
  std::random_device device;
  return device();  // 32 bits: short enough to be typed again
}

/// Generation as rank 0 sees it: what is asked, and how it is written.
class GenerateCommand {
 public:
  explicit GenerateCommand(const GenerateOptions& options) : o_(options) {}

  Demand prepare(Session& session);
  void run(Session& session, Coordinator& coordinator);

 private:
  OnText streaming();
  std::int64_t batch() const { return std::min(std::ssize(requests_), o_.max_batch); }
  std::int64_t most_rows() const;
  void write_text(const std::vector<Sequence>& sequences) const;
  void write_json(const Session& session, const std::vector<Sequence>& sequences,
                  const GenerateTiming& timing) const;

  const GenerateOptions& o_;
  std::uint64_t seed_ = 0;
  GenerateSetup setup_;
  std::vector<Request> requests_;
  std::int64_t n_blocks_ = 0;
  bool stream_ = false;
};

Demand GenerateCommand::prepare(Session& session) {
  seed_ = o_.seed ? *o_.seed : draw_seed();
  const SamplingParams sampling = sampling_params(o_, seed_);
  if (session.tokenizer() == nullptr && !o_.stops.empty()) {
    fail(ExitCode::usage, {.what = "--stop",
                           .expected = "a model with a tokenizer",
                           .found = "none in " + o_.engine.model});
  }
  for (std::size_t i = 0; i < o_.prompts.size(); ++i) {
    requests_.push_back(
        {.prompt = prompt_ids(session, o_.prompts[i], o_.no_special, fmt::format("prompt {}", i)),
         .sampling = sampling,
         .max_tokens = o_.max_tokens,
         .stops = o_.stops,
         .ignore_eos = o_.ignore_eos});
  }
  setup_ = {.n_positions = session.config().n_positions,
            .vocab_size = session.config().vocab_size,
            .eos = session.end_of_text(),
            .tokenizer = session.tokenizer(),
            .block_tokens = Session::kBlockTokens,
            .limits = {.prefill_chunk = o_.engine.prefill_chunk, .max_batch = o_.max_batch}};
  stream_ = !o_.shared.json && o_.stream.value_or(isatty(STDOUT_FILENO) != 0);
  if (!o_.seed && sampling.temperature > 0 && !o_.shared.json)
    log::info(fmt::format("seed {}", seed_));
  session.warn_of_rounding();
  n_blocks_ = blocks_needed(requests_, setup_);
  return {.n_blocks = n_blocks_, .rows = most_rows(), .logit_rows = batch()};
}

// A step: one token of each sequence that decodes, and a chunk of the prompts.
std::int64_t GenerateCommand::most_rows() const {
  std::int64_t prompts = 0;
  for (const Request& r : requests_) prompts += std::ssize(r.prompt);
  return batch() + std::min(prompts, o_.engine.prefill_chunk);
}

// Sequence 0 is shown as it grows; the others, which would be mixed into it, when all is done.
OnText GenerateCommand::streaming() {
  if (!stream_) return {};
  return [](std::size_t sequence, std::string_view text) {
    if (sequence == 0) std::cout << text << std::flush;
  };
}

void GenerateCommand::run(Session& session, Coordinator& coordinator) {
  GenerateTiming timing;
  const std::vector<Sequence> sequences =
      generate(coordinator, setup_, std::move(requests_), n_blocks_, streaming(), timing);
  if (o_.shared.json) {
    write_json(session, sequences, timing);
  } else {
    write_text(sequences);
    log::verbose(fmt::format("load {:.3f} s, first token {:.1f} ms, then {:.2f} tokens/s",
                             session.load_s(), timing.ttft_ms.value_or(0),
                             timing.tokens_per_s.value_or(0)));
  }
  finish_output(std::cout);
}

// Plain output: one text, or several with a headline each; ids where there is no tokenizer.
void GenerateCommand::write_text(const std::vector<Sequence>& sequences) const {
  for (const Sequence& s : sequences) {
    if (sequences.size() > 1 && (!stream_ || s.index() > 0))
      fmt::print("--- sequence {}\n", s.index());
    if (setup_.tokenizer == nullptr) {
      for (const std::int32_t id : s.ids()) std::cout << id << ' ';
    } else if (!stream_ || s.index() > 0) {
      std::cout << s.text();
    }
    std::cout << '\n' << std::flush;
  }
}

json logprobs_json(const Sequence& s) {
  const auto number = [](double x) { return std::isfinite(x) ? json(x) : json(nullptr); };
  json list = json::array();
  for (const Sampled& sample : s.samples()) {
    json top = json::array();
    for (const TopLogprob& t : sample.top)
      top.push_back({{"id", t.id}, {"logprob", number(t.logprob)}});
    list.push_back({{"id", sample.id}, {"logprob", number(sample.logprob)}, {"top", top}});
  }
  return list;
}

void GenerateCommand::write_json(const Session& session, const std::vector<Sequence>& sequences,
                                 const GenerateTiming& timing) const {
  const auto number = [](const std::optional<double>& x) { return x ? json(*x) : json(nullptr); };
  json list = json::array();
  for (const Sequence& s : sequences) {
    list.push_back({{"prompt_ids", s.request().prompt},
                    {"ids", s.ids()},
                    {"text", s.text()},
                    {"finish_reason", name(*s.finish())},
                    {"logprobs", o_.logprobs ? logprobs_json(s) : json(nullptr)}});
  }
  const json result = {{"sequences", list},
                       {"seed", seed_},
                       {"ranks", session.size()},
                       {"backend", backend_name(session.backend().kind)},
                       {"shared_gpu", session.backend().shared_gpu},
                       {"warnings", session.warnings()},
                       {"timing",
                        {{"load_s", session.load_s()},
                         {"ttft_ms", number(timing.ttft_ms)},
                         {"tpot_ms", number(timing.tpot_ms)},
                         {"tokens_per_s", number(timing.tokens_per_s)}}}};
  std::cout << result.dump() << '\n';
}

}  // namespace

int run_generate(const GenerateOptions& options, const Job& job) {
  Session session(job, options.engine, /*dump_activations=*/false);
  GenerateCommand command(options);
  session.load([&](Session& s) { return command.prepare(s); });
  return session.run([&](Coordinator& coordinator) { command.run(session, coordinator); });
}

}  // namespace shardlm
