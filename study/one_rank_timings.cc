#include "study/one_rank_timings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace shardlm {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& where, const std::string& expected,
                         const std::string& found) {
  fail(ExitCode::usage, {.what = "timings of one rank",
                         .expected = expected,
                         .found = found,
                         .where = where,
                         .remedy = "make them: shardlm bench --format jsonl, without mpirun"});
}

std::int64_t whole(const Json& line, const char* key) {
  if (!line.is_object() || !line.contains(key) || !line[key].is_number_integer()) return -1;
  return line[key].get<std::int64_t>();
}

std::string text(const Json& line, const char* key) {
  if (!line.is_object() || !line.contains(key) || !line[key].is_string()) return {};
  return line[key].get<std::string>();
}

std::optional<double> real(const Json& line, const char* key) {
  if (!line.is_object() || !line.contains(key) || !line[key].is_number()) return std::nullopt;
  const auto x = line[key].get<double>();
  return std::isfinite(x) && x >= 0 && x < 1e9 ? std::optional(x) : std::nullopt;
}

bool same_model(const Json& line, const ModelConfig& c) {
  if (!line.contains("model")) return false;
  const Json& m = line["model"];
  return whole(m, "n_layer") == c.n_layer && whole(m, "n_embd") == c.n_embd &&
         whole(m, "n_head") == c.n_head && whole(m, "n_inner") == c.n_inner &&
         whole(m, "vocab_size") == c.vocab_size;
}

std::string described(const Json& line) {
  const Json model = line.contains("model") ? line["model"] : Json::object();
  return printable(fmt::format(
      "{} at batch {} in {}, {} ranks, {} layers {} wide", text(line, "test"), whole(line, "batch"),
      text(line, "dtype"), whole(line, "ranks"), whole(model, "n_layer"), whole(model, "n_embd")));
}

bool fits(const Json& line, const TimingWanted& w) {
  const bool prefill = text(line, "kind") == "prefill";
  return whole(line, "ranks") == 1 && same_model(line, *w.config) && prefill == w.prefill &&
         whole(line, "batch") == w.batch && text(line, "dtype") == w.dtype &&
         (!prefill || whole(line, "tokens") == w.prompt);
}

OneRankTiming timing_of(const Json& line, const std::string& where) {
  OneRankTiming timing;
  timing.where = where;
  timing.test = text(line, "test");
  timing.tokens = whole(line, "tokens");
  timing.threads = static_cast<int>(std::clamp<std::int64_t>(whole(line, "threads"), 1, 4096));
  const bool prefill = text(line, "kind") == "prefill";
  const auto speed = real(line, "tokens_per_s");
  const std::int64_t batch = whole(line, "batch");
  if (!speed || *speed <= 0 || timing.tokens < 1 || batch < 1)
    refuse(where, "tokens, batch and tokens_per_s above 0", "none");
  timing.seconds = static_cast<double>(prefill ? timing.tokens * batch : batch) / *speed;
  if (!line.contains("step_ms")) return timing;
  const double steps = prefill ? real(line, "steps_per_repetition").value_or(1) : 1;
  if (const auto other = real(line["step_ms"], "other")) timing.other_s = *other * 1e-3 * steps;
  return timing;
}

}  // namespace

OneRankTiming read_one_rank_timing(const std::filesystem::path& path, const TimingWanted& wanted) {
  std::ifstream file(path);
  if (!file) refuse(path.string(), "a file of shardlm bench --format jsonl", "none to read");
  std::optional<OneRankTiming> timing;
  std::set<std::string> there;
  std::string words;
  for (int number = 1; std::getline(file, words); ++number) {
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    Json line;
    try {
      line = parse_json(words, where);
    } catch (const Error& error) {
      refuse(where, "a result of shardlm bench --format jsonl", error.what());
    }
    if (text(line, "test").empty() || !line.contains("model"))
      refuse(where, "a result of shardlm bench --format jsonl", "another object");
    if (fits(line, wanted)) timing = timing_of(line, where);
    if (there.size() < 20) there.insert(described(line));
  }
  if (timing) return *timing;
  const ModelConfig& c = *wanted.config;
  refuse(path.string(),
         fmt::format("a result of 1 rank: {} at batch {} in {}, {} layers {} wide",
                     wanted.prefill ? fmt::format("pp{}", wanted.prompt) : "tgN", wanted.batch,
                     wanted.dtype, c.n_layer, c.n_embd),
         there.empty() ? "nothing" : fmt::format("{}", fmt::join(there, "; ")));
}

}  // namespace shardlm
