#include "launcher/version_command.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace shardlm {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Version, TextHasALineForEachFact) {
  std::ostringstream out;
  run_version({}, out);
  const std::string text = out.str();
  for (const char* name : {"version ", "commit ", "compiler ", "mpi ", "simd ", "build_type "}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
}

TEST(Version, JsonIsOneObjectOfTexts) {
  std::ostringstream out;
  VersionOptions options;
  options.shared.json = true;
  run_version(options, out);
  const auto object = nlohmann::json::parse(out.str());
  EXPECT_THAT(object.at("version").get<std::string>(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  // A commit as git writes it, or that there is none.
  EXPECT_THAT(object.at("commit").get<std::string>(),
              MatchesRegex("unknown|[0-9a-f]{7,40}(-dirty)?"));
  EXPECT_THAT(object.at("compiler").get<std::string>(), HasSubstr(" "));
  EXPECT_NE(object.at("mpi"), "");
  EXPECT_NE(object.at("simd"), "");
  for (const auto& [name, value] : object.items()) EXPECT_TRUE(value.is_string()) << name;
}

}  // namespace
}  // namespace shardlm
