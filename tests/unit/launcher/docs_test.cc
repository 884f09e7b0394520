// docs/cli.md and configs/*.yaml against the tables of options.
#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "launcher/options_layers.h"
#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

std::filesystem::path project() { return std::filesystem::path(SHARDLM_MODELS).parent_path(); }

std::string docs() {
  std::ifstream file(project() / "docs/cli.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "| `--max-tokens N` | 128 |", with the bars of a choice escaped as a table wants them.
std::string row_of(const OptionSpec& option) {
  std::string flag = "--" + option.name;
  if (option.negatable) flag += "`, `--no-" + option.name;
  if (!option.value.empty()) flag += " " + option.value;
  flag = std::regex_replace(flag, std::regex("\\|"), "\\|");
  const std::string fallback = option.is_switch() && option.default_text.empty() ? "off"
                               : option.default_text.empty()                     ? "none"
                                                             : option.default_text;
  return "| `" + flag + "` | " + fallback + " |";
}

TEST(Docs, EveryOptionHasItsRowWithTheDefault) {
  const std::string text = docs();
  CommandSet set;
  for (const CommandTable& table : command_tables(set)) {
    EXPECT_THAT(text, HasSubstr("\n## " + table.name)) << table.name;
    for (const OptionSpec& option : table.options) EXPECT_THAT(text, HasSubstr(row_of(option)));
  }
}

TEST(Docs, EveryFlagThereExists) {
  const std::string text = docs();
  std::set<std::string> known = {"--help"};
  CommandSet set;
  for (const CommandTable& table : command_tables(set)) {
    for (const OptionSpec& option : table.options) {
      known.insert("--" + option.name);
      if (option.negatable) known.insert("--no-" + option.name);
    }
  }
  const std::regex flag("--[a-z][a-z-]*[a-z]");
  for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at) {
    EXPECT_TRUE(known.contains(at->str())) << at->str();
  }
}

TEST(Configs, EachIsReadByTheCommandsThatItServes) {
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(project() / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++n_files;
    const std::string path = entry.path().string();
    const auto o = parse_as<GenerateOptions>({"generate", "--config", path});
    EXPECT_FALSE(o.prompts.empty()) << path;
    EXPECT_TRUE(std::filesystem::path(o.engine.model).is_absolute()) << o.engine.model;
    EXPECT_GT(parse_as<PlanOptions>({"plan", "--config", path}).ranks, 0) << path;
    EXPECT_EQ(parse_as<ScoreOptions>({"score", "--config", path, "--text-file", "t"}).engine.model,
              o.engine.model);
  }
  EXPECT_GE(n_files, 4);
}

TEST(Configs, TheDemoNamesTheModelThatShips) {
  const auto o = parse_as<GenerateOptions>(
      {"generate", "--config", (project() / "configs/demo.yaml").string()});
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(o.engine.model) / "config.json"))
      << o.engine.model;
}

}  // namespace
}  // namespace shardlm
