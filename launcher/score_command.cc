#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "engine/score.h"
#include "launcher/commands.h"
#include "launcher/output.h"
#include "launcher/prompts.h"
#include "launcher/session.h"

namespace shardlm {
namespace {

class ScoreCommand {
 public:
  explicit ScoreCommand(const ScoreOptions& options) : o_(options) {}

  Demand prepare(Session& session) {
    choose_windows(session);
    read_ids(session);
    session.warn_of_rounding();
    const std::int64_t rows = std::min(setup_.rows_per_step, setup_.window);
    return {.n_blocks = score_blocks(setup_), .rows = rows, .logit_rows = rows};
  }

  void run(const Session& session, Coordinator& coordinator) const {
    const Score result = score(coordinator, ids_, setup_);
    o_.shared.json ? write_json(session, result) : write_text(result);
    finish_output(std::cout);
  }

 private:
  void choose_windows(const Session& session) {
    const std::int64_t context = session.config().n_positions;
    setup_.window = o_.window == 0 ? context : o_.window;
    setup_.stride = o_.stride == 0 ? setup_.window : o_.stride;
    setup_.rows_per_step = o_.engine.prefill_chunk;
    setup_.block_tokens = Session::kBlockTokens;
    if (setup_.window > context) {
      fail(ExitCode::usage, {.what = "--window",
                             .expected = fmt::format("at most {} (n_positions)", context),
                             .found = std::to_string(setup_.window)});
    }
    if (setup_.stride > setup_.window) {
      fail(ExitCode::usage, {.what = "--stride",
                             .expected = fmt::format("at most the window, {}", setup_.window),
                             .found = std::to_string(setup_.stride),
                             .remedy = "a larger stride would leave tokens unpredicted"});
    }
  }

  void read_ids(const Session& session) {
    PromptSource text = o_.text;
    if (text.kind != PromptSource::Kind::ids)
      text = {.kind = PromptSource::Kind::text, .text = read_text(o_.text), .ids = {}};
    ids_ = source_ids(session, text, o_.no_special);
    check_ids(session, ids_, "text");
    bytes_ = text_bytes(session, text);
    if (o_.bos) {
      const auto bos = session.end_of_text();
      if (!bos)
        fail(ExitCode::usage,
             {.what = "--bos", .expected = "a model with an end-of-text id", .found = "none"});
      ids_.insert(ids_.begin(), *bos);
    }
    if (ids_.size() < 2) {
      fail(ExitCode::usage, {.what = "text",
                             .expected = "at least 2 tokens (the first is not predicted)",
                             .found = fmt::format("{}", ids_.size()),
                             .remedy = "use --bos or a longer text"});
    }
  }

  // Bytes of the text; of ids, of what they stand for, which only a tokenizer knows.
  static std::optional<std::size_t> text_bytes(const Session& session, const PromptSource& text) {
    if (text.kind != PromptSource::Kind::ids) return text.text.size();
    if (session.tokenizer() == nullptr) return std::nullopt;
    return session.tokenizer()->decode(text.ids).size();
  }

  std::optional<double> bits_per_byte(const Score& s) const {
    if (!bytes_ || *bytes_ == 0) return std::nullopt;
    return s.nats / std::log(2.0) / static_cast<double>(*bytes_);
  }

  void write_json(const Session& session, const Score& s) const {
    using nlohmann::json;
    const auto bits = bits_per_byte(s);
    const json result = {{"tokens", s.tokens},
                         {"nats", s.nats},
                         {"perplexity", std::exp(s.nats / static_cast<double>(s.tokens))},
                         {"bytes", bytes_ ? json(*bytes_) : json(nullptr)},
                         {"bits_per_byte", bits ? json(*bits) : json(nullptr)},
                         {"window", setup_.window},
                         {"stride", setup_.stride},
                         {"backend", backend_name(session.backend().kind)},
                         {"shared_gpu", session.backend().shared_gpu},
                         {"warnings", session.warnings()}};
    std::cout << result.dump() << '\n';
  }

  void write_text(const Score& s) const {
    fmt::print("tokens predicted  {}\n", s.tokens);
    fmt::print("nats per token    {:.4f}\n", s.nats / static_cast<double>(s.tokens));
    fmt::print("perplexity        {:.4f}\n", std::exp(s.nats / static_cast<double>(s.tokens)));
    if (const auto bits = bits_per_byte(s)) {
      fmt::print("bits per byte     {:.4f} ({} bytes)\n", *bits, *bytes_);
    }
    fmt::print("windows           {} tokens every {}\n", setup_.window, setup_.stride);
    std::fflush(stdout);
  }

  const ScoreOptions& o_;
  ScoreSetup setup_;
  std::vector<std::int32_t> ids_;
  std::optional<std::size_t> bytes_;
};

}  // namespace

int run_score(const ScoreOptions& options, const Job& job) {
  Session session(job, options.engine, /*dump_activations=*/false);
  ScoreCommand command(options);
  session.load([&](Session& s) { return command.prepare(s); });
  return session.run([&](Coordinator& coordinator) { command.run(session, coordinator); });
}

}  // namespace shardlm
