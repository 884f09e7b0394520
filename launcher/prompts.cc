#include "launcher/prompts.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>

#include "base/error.h"

namespace shardlm {
namespace {

// The bytes up to the end; nothing if they cannot be read. A folder opens, and fails here.
std::optional<std::string> read_all(std::istream& in) {
  std::string text;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()) || in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return std::nullopt;
  return text;
}

std::string read_standard_input() {
  std::optional<std::string> text = read_all(std::cin);
  // std::cin takes an error of the C stream below it for the end.
  if (text && std::ferror(stdin) == 0) return *text;
  fail(ExitCode::usage, {.what = "cannot be read", .where = "standard input"});
}

}  // namespace

std::string read_text(const PromptSource& source) {
  if (source.kind == PromptSource::Kind::text) return source.text;
  if (source.kind == PromptSource::Kind::standard_input) return read_standard_input();
  std::ifstream file(source.text, std::ios::binary);
  std::optional<std::string> text;
  if (file.is_open()) text = read_all(file);
  if (text) return *std::move(text);
  fail(ExitCode::usage, {.what = "text file",
                         .expected = "a readable file",
                         .found = file.is_open() ? "one that cannot be read" : "none",
                         .where = source.text});
}

std::vector<std::int32_t> source_ids(const Session& session, const PromptSource& source,
                                     bool no_special) {
  if (source.kind == PromptSource::Kind::ids) return source.ids;
  const std::string text = read_text(source);
  if (session.tokenizer() == nullptr) {
    fail(ExitCode::model_files, {.what = "tokenizer",
                                 .expected = "vocab.json and merges.txt, or tokenizer.json",
                                 .found = "none of them in the model folder",
                                 .remedy = "use --prompt-ids"});
  }
  return session.tokenizer()->encode(text,
                                     no_special ? SpecialText::plain : SpecialText::recognise);
}

void check_ids(const Session& session, const std::vector<std::int32_t>& ids,
               const std::string& where) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < session.config().vocab_size) continue;
    fail(ExitCode::usage,
         {.what = "token id",
          .expected = fmt::format("0 to {} (vocab_size {})", session.config().vocab_size - 1,
                                  session.config().vocab_size),
          .found = std::to_string(id),
          .where = where});
  }
}

std::vector<std::int32_t> prompt_ids(const Session& session, const PromptSource& source,
                                     bool no_special, const std::string& where) {
  std::vector<std::int32_t> ids = source_ids(session, source, no_special);
  check_ids(session, ids, where);
  if (ids.empty()) {
    const auto start = session.end_of_text();
    if (!start) {
      fail(ExitCode::usage, {.what = "prompt",
                             .expected = "at least one token",
                             .found = "an empty one",
                             .where = where,
                             .remedy = "this model has no end-of-text id to start from"});
    }
    ids.push_back(*start);
  }
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length > session.config().n_positions) {
    fail(ExitCode::usage,
         {.what = "prompt length",
          .expected = fmt::format("at most {} tokens (n_positions)", session.config().n_positions),
          .found = fmt::format("{} tokens", length),
          .where = where,
          .remedy = "shorten the prompt"});
  }
  return ids;
}

}  // namespace shardlm
