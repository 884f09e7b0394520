#include "launcher/prompts.h"

#include <fmt/format.h>

#include <iostream>

#include "base/error.h"
#include "launcher/text_input.h"

namespace shardlm {

std::string read_text(const PromptSource& source) {
  switch (source.kind) {
    case PromptSource::Kind::file:
      return read_file(source.text);
    case PromptSource::Kind::standard_input:
      return read_all(std::cin, "standard input");
    default:
      return source.text;
  }
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
    const auto start = session.start_of_text();
    if (!start) {
      fail(ExitCode::usage,
           {.what = "prompt",
            .expected = "at least one token",
            .found = "an empty one",
            .where = where,
            .remedy = "its tokenizer, if it has one, has no end-of-text id to start from"});
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
