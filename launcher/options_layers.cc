#include "launcher/options_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "launcher/nearest_name.h"

namespace shardlm {
namespace {

// The options of a group that does not repeat exclude each other within one layer.
void refuse_twice(std::span<const Assignment> layer) {
  std::map<std::string, const Assignment*> seen;
  for (const Assignment& assignment : layer) {
    const auto [first, fresh] = seen.emplace(assignment.option->group, &assignment);
    if (fresh || assignment.option->repeats) continue;
    const bool same = first->second->option == assignment.option;
    fail(ExitCode::usage,
         {.what = same ? "given twice" : "cannot stand beside " + first->second->where,
          .where = assignment.where,
          .remedy = "give one"});
  }
}

}  // namespace

const CommandTable* find_command(std::span<const CommandTable> tables, std::string_view name) {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const CommandTable& table) { return table.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

const OptionSpec* find_option(const CommandTable& table, std::string_view name) {
  const auto found = std::find_if(table.options.begin(), table.options.end(),
                                  [&](const OptionSpec& option) { return option.name == name; });
  return found == table.options.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(const CommandTable& table) {
  std::vector<std::string> names;
  for (const OptionSpec& option : table.options) names.push_back(option.name);
  return names;
}

std::vector<std::string> commands_with(std::span<const CommandTable> tables,
                                       std::string_view option) {
  std::vector<std::string> names;
  for (const CommandTable& table : tables) {
    if (find_option(table, option)) names.push_back(table.name);
  }
  return names;
}

void store_layers(std::span<const std::vector<Assignment>> weakest_first) {
  std::map<std::string, std::size_t> strongest;
  for (std::size_t i = 0; i < weakest_first.size(); ++i) {
    refuse_twice(weakest_first[i]);
    for (const Assignment& assignment : weakest_first[i]) strongest[assignment.option->group] = i;
  }
  for (std::size_t i = 0; i < weakest_first.size(); ++i) {
    for (const Assignment& assignment : weakest_first[i]) {
      if (strongest.at(assignment.option->group) != i) continue;
      assignment.option->store(assignment.words, assignment.where);
    }
  }
}

}  // namespace shardlm
