// One constructor for each kind of option. Each stores into its target, which must outlive it, and
// shows the target's value as the default.
#pragma once

#include <fmt/format.h>

#include <optional>

#include "launcher/options_table.h"
#include "launcher/options_values.h"

namespace shardlm {

using Words = std::span<const std::string>;

OptionSpec switch_option(std::string name, std::string help, bool& target);
/// With a --no- form; `unset` says what holds while neither is given.
OptionSpec optional_switch(std::string name, std::string help, std::string unset,
                           std::optional<bool>& target);
OptionSpec value_option(std::string name, std::string value, std::string help, ValueKind kind);
OptionSpec path_option(std::string name, std::string value, std::string help, std::string& target);
OptionSpec real_option(std::string name, std::string help, double& target);
OptionSpec seconds_option(std::string name, std::string help, double& target);
OptionSpec ids_option(std::string name, std::string help,
                      std::function<void(std::vector<std::int32_t>)> keep);
/// A text, file or ids (`kind`) that becomes one PromptSource.
OptionSpec source_option(std::string name, std::string help, PromptSource::Kind kind,
                         std::function<void(PromptSource)> keep);

template <typename Integer>
OptionSpec integer_option(std::string name, std::string help, Integer& target, IntegerRange range) {
  OptionSpec option = value_option(std::move(name), "N", std::move(help), ValueKind::number);
  option.default_text = fmt::format("{}", target);
  option.store = [&target, range](Words words, const std::string& where) {
    target = static_cast<Integer>(parse_integer(words[0], where, range));
  };
  return option;
}

/// The place of the word among the choices, else Error(usage) with the nearest one.
std::size_t parse_choice(const std::string& word, const std::vector<std::string>& choices,
                         const std::string& where);

/// A word for each value of an enumeration, in its order.
template <typename Choice>
OptionSpec choice_option(std::string name, std::string help, Choice& target,
                         std::vector<std::string> choices) {
  OptionSpec option = value_option(std::move(name), fmt::format("{}", fmt::join(choices, "|")),
                                   std::move(help), ValueKind::choice);
  option.default_text = choices.at(static_cast<std::size_t>(target));
  option.store = [&target, choices = std::move(choices)](Words words, const std::string& where) {
    target = static_cast<Choice>(parse_choice(words[0], choices, where));
  };
  return option;
}

/// A list in the place of the one value of `option`, which stores into `one`: each word is read as
/// the option reads it.
template <typename Value>
OptionSpec listed(OptionSpec option, std::string value, Value& one, std::vector<Value>& all) {
  option.kind = ValueKind::list;
  option.value = std::move(value);
  option.store = [store = std::move(option.store), &one, &all](Words words,
                                                               const std::string& where) {
    all.clear();
    for (const std::string& word : split_list(words[0], where)) {
      store(std::span(&word, 1), where);
      all.push_back(one);
    }
  };
  return option;
}

OptionSpec integer_list_option(std::string name, std::string help,
                               std::vector<std::int64_t>& target, IntegerRange range);

/// Runs `check`; what it refuses is told with the place of the option.
void in_option(const std::string& where, const std::function<void()>& check);

// Changes of one property.
OptionSpec grouped(std::string group, OptionSpec option);
OptionSpec repeating(OptionSpec option);
OptionSpec bare(BareWords words, OptionSpec option);
OptionSpec with_default(std::string text, OptionSpec option);

}  // namespace shardlm
