#include "launcher/config_file.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using Kind = PromptSource::Kind;

GenerateOptions generate_with(const std::string& yaml, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"generate", "--config", write_file("c.yaml", yaml)});
  return parse_as<GenerateOptions>(flags);
}

std::string error_of(const std::string& yaml) {
  return usage_error(
      {"generate", "--config", write_file("c.yaml", yaml), "--model", "m", "--prompt", "x"});
}

TEST(ConfigFile, EveryKindOfValue) {
  const GenerateOptions o = generate_with(R"(
model: /models/demo
prompt: [Once upon a time, "yes", "", 12]
max-tokens: 64
temperature: 0.5
seed: 18446744073709551615
stop: "\n\n"
ignore-eos: true
stream: false
comm: mpi
json: true
quiet: true
)");
  EXPECT_EQ(o.engine.model, "/models/demo");
  ASSERT_EQ(o.prompts.size(), 4U);
  EXPECT_EQ(o.prompts[0].text, "Once upon a time");
  EXPECT_EQ(o.prompts[1].text, "yes");
  EXPECT_EQ(o.prompts[2].text, "");
  EXPECT_EQ(o.prompts[3].text, "12");
  EXPECT_EQ(o.max_tokens, 64);
  EXPECT_EQ(o.temperature, 0.5);
  EXPECT_EQ(o.seed, 18446744073709551615ULL);
  EXPECT_THAT(o.stops, ElementsAre("\n\n"));
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_EQ(o.stream, false);
  EXPECT_EQ(o.engine.comm, CommChoice::mpi);
  EXPECT_TRUE(o.shared.json);
  EXPECT_EQ(o.shared.verbosity, Verbosity::quiet);
}

TEST(ConfigFile, PromptsKeepTheOrderOfTheKeys) {
  const GenerateOptions o =
      generate_with("model: m\nprompt-ids: [[1, 2], [3]]\nprompt: a\nprompt-file: [\"-\", f]\n");
  ASSERT_EQ(o.prompts.size(), 5U);
  EXPECT_THAT(o.prompts[0].ids, ElementsAre(1, 2));
  EXPECT_THAT(o.prompts[1].ids, ElementsAre(3));
  EXPECT_EQ(o.prompts[2].text, "a");
  EXPECT_EQ(o.prompts[3].kind, Kind::standard_input);
  EXPECT_THAT(o.prompts[4].text, EndsWith("/f"));
}

TEST(ConfigFile, IdsAsListOrText) {
  EXPECT_THAT(generate_with("model: m\nprompt-ids: [1, 2]\n").prompts.at(0).ids, ElementsAre(1, 2));
  EXPECT_THAT(generate_with("model: m\nprompt-ids: 1,2\n").prompts.at(0).ids, ElementsAre(1, 2));
  EXPECT_THAT(generate_with("model: m\nprompt-ids: \"1,2\"\n").prompts.at(0).ids,
              ElementsAre(1, 2));
  EXPECT_THAT(generate_with("model: m\nprompt-ids: 7\n").prompts.at(0).ids, ElementsAre(7));
  EXPECT_TRUE(generate_with("model: m\nprompt-ids: []\n").prompts.at(0).ids.empty());
}

TEST(ConfigFile, FlagsOverrideAndReplaceLists) {
  const std::string yaml =
      "model: m\nprompt: [a, b]\nprompt-ids: [1]\nstop: [x]\nseed: 1\nignore-eos: true\n"
      "quiet: true\nstream: true\ntop-k: 3\n";
  const GenerateOptions o =
      generate_with(yaml, {"--prompt-ids", "9", "--stop", "y", "--stop", "z", "--seed", "2",
                           "--ignore-eos=false", "--verbose", "--no-stream", "--model", "n"});
  ASSERT_EQ(o.prompts.size(), 1U);
  EXPECT_THAT(o.prompts[0].ids, ElementsAre(9));
  EXPECT_THAT(o.stops, ElementsAre("y", "z"));
  EXPECT_EQ(o.seed, 2U);
  EXPECT_FALSE(o.ignore_eos);
  EXPECT_EQ(o.shared.verbosity, Verbosity::verbose);
  EXPECT_EQ(o.stream, false);
  EXPECT_EQ(o.engine.model, "n");
  EXPECT_EQ(o.top_k, 3);
}

TEST(ConfigFile, ASectionOverridesTheTop) {
  const std::string yaml =
      "generate:\n  seed: 7\n  prompt: inner\nmodel: m\nseed: 1\nprompt: [a, b]\nscore:\n"
      "  window: 4\n  stride: 2\n  text-file: t\nversion:\n";
  const GenerateOptions o = generate_with(yaml);
  EXPECT_EQ(o.seed, 7U);
  ASSERT_EQ(o.prompts.size(), 1U);
  EXPECT_EQ(o.prompts[0].text, "inner");
  EXPECT_EQ(generate_with(yaml, {"--seed", "9"}).seed, 9U);

  const auto score = parse_as<ScoreOptions>({"score", "--config", write_file("c.yaml", yaml)});
  EXPECT_EQ(score.window, 4);
  EXPECT_THAT(score.engine.model, EndsWith("/m"));
}

TEST(ConfigFile, OptionsOfOtherCommandsAreSaidToBeUnused) {
  const std::string path = write_file("c.yaml", "model: m\nranks: 2\ntop-k: 4\n");
  const Options options = parse({"plan", "--config", path});
  EXPECT_EQ(std::get<PlanOptions>(options.command).ranks, 2);
  ASSERT_EQ(options.notes.size(), 1U);
  EXPECT_THAT(options.notes[0], AllOf(HasSubstr(path), HasSubstr("plan"), HasSubstr("top-k")));
}

TEST(ConfigFile, RelativePathsStartAtTheFile) {
  const std::string path = write_file("c.yaml", "model: ../models/demo\nprompt-file: ./p.txt\n");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto o = parse_as<GenerateOptions>({"generate", "--config", path});
  EXPECT_EQ(o.engine.model, (folder.parent_path() / "models/demo").string());
  EXPECT_EQ(o.prompts[0].text, (folder / "p.txt").string());

  const std::string dump = write_file("d.yaml", "dump:\n  diff: [a, /b]\n");
  const auto diff = parse_as<DumpOptions>({"dump", "--config", dump});
  EXPECT_EQ(diff.diff, std::make_pair((folder / "a").string(), std::string("/b")));
}

TEST(ConfigFile, EmptyFilesSayNothing) {
  EXPECT_EQ(generate_with("", {"--model", "m", "--prompt", "x"}).max_tokens, 128);
  EXPECT_EQ(generate_with("# only a comment\n", {"--model", "m", "--prompt", "x"}).top_k, 0);
}

struct BadFile {
  std::string yaml;
  std::vector<std::string> parts;  // of the message
};

class BadConfig : public testing::TestWithParam<BadFile> {};

TEST_P(BadConfig, IsRefusedWithFileAndLine) {
  const std::string message = error_of(GetParam().yaml);
  for (const std::string& part : GetParam().parts) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadConfig,
    testing::Values(
        BadFile{"seed: 1\n\ntemprature: 1\n",
                {"c.yaml:3: unknown key temprature", "did you mean temperature?"}},
        BadFile{"max_tokens: 1\n", {"c.yaml:1: unknown key max_tokens", "max-tokens"}},
        BadFile{"generat:\n  seed: 1\n", {"c.yaml:1: unknown key generat", "generate"}},
        BadFile{"generate:\n  seed: 1\n  windw: 1\n", {"c.yaml:3: unknown key windw of generate"}},
        BadFile{"generate:\n  window: 1\n", {"c.yaml:2: unknown key window of generate"}},
        BadFile{"score:\n  windw: 1\n", {"c.yaml:2: unknown key windw of score", "window"}},
        BadFile{"no-stream: true\n", {"c.yaml:1", "write stream: false"}},
        BadFile{"seed: 1\ntop-k: 2\nseed: 1\n", {"c.yaml:3: seed: given twice, first in line 1"}},
        BadFile{"generate: {seed: 1}\ngenerate: {seed: 2}\n", {"c.yaml:2: generate: given twice"}},
        BadFile{"verbose: true\nquiet: true\n",
                {"c.yaml:2: quiet: cannot stand beside", "c.yaml:1"}},
        BadFile{"config: other.yaml\n", {"c.yaml:1: config: a file cannot name a further file"}},
        BadFile{"? [a]\n: 1\n", {"c.yaml:1: expected a name, found a list"}},
        BadFile{"<<: {seed: 1}\n", {"unknown key <<"}}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadConfig,
    testing::Values(
        BadFile{"\nmax-tokens: abc\n", {"c.yaml:2: max-tokens: expected an integer", "\"abc\""}},
        BadFile{"max-tokens: 1.5\n", {"c.yaml:1: max-tokens", "\"1.5\""}},
        BadFile{"max-tokens: \"5\"\n", {"max-tokens: expected a number", "in quotation marks"}},
        BadFile{"max-tokens: [5]\n", {"max-tokens: expected a number, found a list"}},
        BadFile{"max-tokens: {a: 5}\n", {"expected a number, found a map"}},
        BadFile{"max-tokens:\n", {"expected a number, found nothing"}},
        BadFile{"temperature: .nan\n", {"temperature: expected a finite number", "\".nan\""}},
        BadFile{"temperature: .inf\n", {"temperature"}},
        BadFile{"ignore-eos: yes\n", {"ignore-eos: expected true or false, found \"yes\""}},
        BadFile{"ignore-eos: \"true\"\n", {"ignore-eos: expected true or false"}},
        BadFile{"ignore-eos: 1\n", {"ignore-eos: expected true or false, found \"1\""}},
        BadFile{"prompt: null\n", {"prompt: expected a text", "quotation marks"}},
        BadFile{"prompt: [a, [b]]\n", {"prompt: expected a text", "a list"}},
        BadFile{"prompt-ids: [1, x]\n", {"prompt-ids", "\"x\""}},
        BadFile{"prompt-ids: [1, \"2,3\"]\n", {"prompt-ids", "in quotation marks"}},
        BadFile{"prompt-ids: [[1], 2]\n", {"prompt-ids: expected a list of token ids"}},
        BadFile{"prompt-ids: [-1]\n", {"prompt-ids", "\"-1\""}},
        BadFile{"model: [a, b]\n", {"model: expected a path, found a list"}},
        BadFile{"model: \"\"\n", {"model: expected a path"}},
        BadFile{"comm: tcp\n", {"comm: expected one of auto, shm, mpi"}},
        BadFile{"window: x\n", {"c.yaml:1: window: expected an integer"}},  // of another command
        BadFile{"score: {window: x}\n", {"c.yaml:1: window: expected an integer"}},
        BadFile{"score: 5\n", {"c.yaml:1: score: expected a map", "\"5\""}}));

INSTANTIATE_TEST_SUITE_P(
    Broken, BadConfig,
    testing::Values(BadFile{"seed: 1\nprompt: [a\n", {"not valid YAML"}},
                    BadFile{"seed: 1\n\ttop-k: 1\n", {"c.yaml:2: not valid YAML"}},
                    BadFile{"prompt: \"a\n", {"not valid YAML"}},
                    BadFile{"prompt: *unknown\n", {"c.yaml:1: not valid YAML"}},
                    BadFile{"- a\n- b\n", {"c.yaml:1: the file: expected a map", "a list"}},
                    BadFile{"text\n", {"c.yaml:1: the file: expected a map"}},
                    BadFile{"seed: 1\n---\nseed: 2\n", {"expected one YAML document, found 2"}},
                    BadFile{std::string(100000, '['), {"not valid YAML"}},
                    BadFile{std::string((1 << 20) + 1, '#'), {"larger than 1 MiB"}}));

TEST(ConfigFile, UnreadableFilesAreNamed) {
  EXPECT_THAT(usage_error({"generate", "--config", "/nonexistent/c.yaml"}),
              AllOf(HasSubstr("--config /nonexistent/c.yaml"), HasSubstr("cannot be opened")));
  EXPECT_THAT(usage_error({"generate", "--config", testing::TempDir()}), HasSubstr("is a folder"));
  EXPECT_THAT(usage_error({"generate", "--config", "a", "--config", "b"}), HasSubstr("--config"));
}

}  // namespace
}  // namespace shardlm
