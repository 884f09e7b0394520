#include "launcher/options_kinds.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/nearest_name.h"

namespace shardlm {
OptionSpec switch_option(std::string name, std::string help, bool& target) {
  OptionSpec option{.name = std::move(name), .value = {}, .help = std::move(help)};
  option.kind = ValueKind::switch_;
  option.values = 0;
  option.store = [&target](Words words, const std::string& where) {
    target = parse_switch(words[0], where);
  };
  return option;
}

OptionSpec optional_switch(std::string name, std::string help, std::string unset,
                           std::optional<bool>& target) {
  OptionSpec option{.name = std::move(name), .value = {}, .help = std::move(help)};
  option.kind = ValueKind::switch_;
  option.values = 0;
  option.negatable = true;
  option.default_text = std::move(unset);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_switch(words[0], where);
  };
  return option;
}

OptionSpec value_option(std::string name, std::string value, std::string help, ValueKind kind) {
  return {
      .name = std::move(name), .value = std::move(value), .help = std::move(help), .kind = kind};
}

OptionSpec path_option(std::string name, std::string value, std::string help, std::string& target) {
  OptionSpec option =
      value_option(std::move(name), std::move(value), std::move(help), ValueKind::path);
  option.store = [&target](Words words, const std::string& where) {
    if (words[0].empty()) {
      fail(ExitCode::usage, {.expected = "a path", .found = "an empty text", .where = where});
    }
    target = words[0];
  };
  return option;
}

OptionSpec real_option(std::string name, std::string help, double& target) {
  OptionSpec option = value_option(std::move(name), "X", std::move(help), ValueKind::number);
  option.default_text = fmt::format("{}", target);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_real(words[0], where);
  };
  return option;
}

OptionSpec seconds_option(std::string name, std::string help, double& target) {
  OptionSpec option = value_option(std::move(name), "SECONDS", std::move(help), ValueKind::number);
  option.default_text = fmt::format("{}", target);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_seconds(words[0], where);
  };
  return option;
}

std::size_t parse_choice(const std::string& word, const std::vector<std::string>& choices,
                         const std::string& where) {
  const auto chosen = std::find(choices.begin(), choices.end(), word);
  if (chosen != choices.end()) return static_cast<std::size_t>(chosen - choices.begin());
  fail(ExitCode::usage, {.expected = fmt::format("one of {}", fmt::join(choices, ", ")),
                         .found = in_quotes(word),
                         .where = where,
                         .remedy = suggestion(word, choices, "")});
}

void in_option(const std::string& where, const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
  }
}

OptionSpec integer_list_option(std::string name, std::string help,
                               std::vector<std::int64_t>& target, IntegerRange range) {
  OptionSpec option = value_option(std::move(name), "N,...", std::move(help), ValueKind::list);
  option.default_text = fmt::format("{}", fmt::join(target, ","));
  option.store = [&target, range](Words words, const std::string& where) {
    target.clear();
    for (const std::string& word : split_list(words[0], where)) {
      target.push_back(parse_integer(word, where, range));
    }
  };
  return option;
}

OptionSpec ids_option(std::string name, std::string help,
                      std::function<void(std::vector<std::int32_t>)> keep) {
  OptionSpec option = value_option(std::move(name), "1,2,3", std::move(help), ValueKind::ids);
  option.store = [keep = std::move(keep)](Words words, const std::string& where) {
    keep(parse_ids(words[0], where));
  };
  return option;
}

// A text, file or ids that becomes one PromptSource.
OptionSpec source_option(std::string name, std::string help, PromptSource::Kind kind,
                         std::function<void(PromptSource)> keep) {
  using Kind = PromptSource::Kind;
  OptionSpec option = kind == Kind::text
                          ? value_option(std::move(name), "TEXT", std::move(help), ValueKind::text)
                      : kind == Kind::file
                          ? value_option(std::move(name), "FILE", std::move(help), ValueKind::path)
                          : value_option(std::move(name), "1,2,3", std::move(help), ValueKind::ids);
  option.store = [kind, keep = std::move(keep)](Words words, const std::string& where) {
    if (kind == Kind::ids)
      return keep({.kind = kind, .text = {}, .ids = parse_ids(words[0], where)});
    if (kind == Kind::file && words[0] == "-") return keep({.kind = Kind::standard_input});
    if (kind == Kind::file && words[0].empty()) {
      fail(ExitCode::usage, {.expected = "a file", .found = "an empty text", .where = where});
    }
    keep({.kind = kind, .text = words[0]});
  };
  return option;
}

OptionSpec grouped(std::string group, OptionSpec option) {
  option.group = std::move(group);
  return option;
}

OptionSpec repeating(OptionSpec option) {
  option.repeats = true;
  return option;
}

OptionSpec bare(BareWords words, OptionSpec option) {
  option.bare = words;
  return option;
}

OptionSpec with_default(std::string text, OptionSpec option) {
  option.default_text = std::move(text);
  return option;
}

}  // namespace shardlm
