#include "launcher/tokenize_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "io/tokenizer.h"
#include "io/utf8.h"
#include "launcher/options_values.h"
#include "launcher/output.h"
#include "launcher/text_input.h"

namespace shardlm {
namespace {

using nlohmann::ordered_json;

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& model) {
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(model);
  if (tokenizer) return tokenizer;
  fail(ExitCode::model_files,
       {.expected = "tokenizer files (vocab.json and merges.txt, or tokenizer.json)",
        .found = "none",
        .where = model});
}

// answer(value) for the JSON value of each line; errors name the line.
template <typename Answer>
void each_json_line(std::istream& in, std::ostream& out, Answer answer) {
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    const std::string where = fmt::format("standard input, line {}", number);
    try {
      out << answer(parse_json(line, where), where).dump() << '\n';
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool placed = message.find(where) != std::string::npos;
      throw Error(ExitCode::usage, placed ? message : where + ": " + message);
    }
    finish_output(out);
  }
  if (in.bad()) fail(ExitCode::usage, {.what = "cannot be read", .where = "standard input"});
}

const std::string& string_of(const nlohmann::json& value, const std::string& where) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  fail(ExitCode::usage, {.expected = "a JSON string", .found = value.type_name(), .where = where});
}

std::vector<std::int32_t> ids_of(const nlohmann::json& value, const std::string& where) {
  const auto refuse = [&](const std::string& found) {
    fail(ExitCode::usage, {.expected = "a JSON array of token ids from 0 to 2147483647",
                           .found = found,
                           .where = where});
  };
  if (!value.is_array()) refuse(value.type_name());
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : value) {
    const bool fits = id.is_number_unsigned() &&
                      id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!fits) refuse(id.is_structured() ? id.type_name() : id.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

int run_tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.model);
  const SpecialText special = options.no_special ? SpecialText::plain : SpecialText::recognise;
  if (options.json_lines) {
    each_json_line(in, out, [&](const nlohmann::json& value, const std::string& where) {
      return ordered_json(tokenizer->encode(string_of(value, where), special));
    });
    return 0;
  }
  const std::vector<std::int32_t> ids =
      tokenizer->encode(options.text ? *options.text : read_all(in, "standard input"), special);
  if (options.shared.json) {
    out << ordered_json{{"ids", ids}, {"count", ids.size()}}.dump() << '\n';
  } else {
    out << fmt::format("{}\n", fmt::join(ids, " "));
  }
  finish_output(out);
  return 0;
}

int run_detokenize(const DetokenizeOptions& options, std::istream& in, std::ostream& out) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.model);
  if (options.json_lines) {
    each_json_line(in, out, [&](const nlohmann::json& value, const std::string& where) {
      return ordered_json(sanitize_utf8(tokenizer->decode(ids_of(value, where))));
    });
    return 0;
  }
  const std::string bytes = tokenizer->decode(
      options.ids ? *options.ids : parse_ids(read_all(in, "standard input"), "standard input"));
  if (options.shared.json) {
    out << ordered_json{{"text", sanitize_utf8(bytes)}}.dump() << '\n';
  } else {
    out << bytes;
  }
  finish_output(out);
  return 0;
}

}  // namespace shardlm
