#include "launcher/options.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = PromptSource::Kind;

TEST(Options, DefaultsAreTheDocumentedOnes) {
  const GenerateOptions o = generate({});
  EXPECT_EQ(o.engine.model, "m");
  EXPECT_EQ(o.engine.threads, 0);
  EXPECT_EQ(o.engine.comm, CommChoice::automatic);
  EXPECT_EQ(o.engine.timeout_s, 60);
  EXPECT_EQ(o.engine.load_timeout_s, 600);
  EXPECT_EQ(o.engine.prefill_chunk, 512);
  EXPECT_EQ(o.engine.backend, BackendChoice::automatic);
  EXPECT_EQ(o.engine.dtype, DTypeChoice::f32);
  EXPECT_EQ(o.engine.kv_dtype, KvDTypeChoice::automatic);
  EXPECT_FALSE(o.engine.graphs);
  EXPECT_FALSE(o.engine.allow_shared_gpu);
  EXPECT_EQ(o.max_tokens, 128);
  EXPECT_EQ(o.temperature, 1);
  EXPECT_EQ(o.top_k, 0);
  EXPECT_EQ(o.top_p, 1);
  EXPECT_EQ(o.min_p, 0);
  EXPECT_EQ(o.repetition_penalty, 1);
  EXPECT_EQ(o.presence_penalty, 0);
  EXPECT_EQ(o.frequency_penalty, 0);
  EXPECT_FALSE(o.seed);
  EXPECT_FALSE(o.logprobs);
  EXPECT_FALSE(o.stream);
  EXPECT_FALSE(o.shared.json);
  EXPECT_EQ(o.max_batch, 64);
}

TEST(Options, AllOfGenerate) {
  const GenerateOptions o = generate({"--threads",
                                      "3",
                                      "--comm",
                                      "shm",
                                      "--timeout",
                                      "1.5",
                                      "--load-timeout",
                                      "7",
                                      "--prefill-chunk",
                                      "16",
                                      "--backend",
                                      "cpu",
                                      "--max-tokens",
                                      "0",
                                      "--temperature",
                                      "0.25",
                                      "--top-k",
                                      "40",
                                      "--top-p",
                                      "0.9",
                                      "--min-p",
                                      "0.01",
                                      "--repetition-penalty",
                                      "1.1",
                                      "--presence-penalty",
                                      "-0.5",
                                      "--frequency-penalty",
                                      "2e-1",
                                      "--seed",
                                      "18446744073709551615",
                                      "--stop",
                                      "a,b",
                                      "--stop",
                                      "--",
                                      "--ignore-eos",
                                      "--logprobs",
                                      "5",
                                      "--no-stream",
                                      "--no-special",
                                      "--max-batch",
                                      "2",
                                      "--json",
                                      "--verbose"});
  EXPECT_EQ(o.engine.threads, 3);
  EXPECT_EQ(o.engine.comm, CommChoice::shared_memory);
  EXPECT_EQ(o.engine.timeout_s, 1.5);
  EXPECT_EQ(o.engine.load_timeout_s, 7);
  EXPECT_EQ(o.engine.prefill_chunk, 16);
  EXPECT_EQ(o.engine.backend, BackendChoice::cpu);
  EXPECT_EQ(o.max_tokens, 0);
  EXPECT_EQ(o.temperature, 0.25);
  EXPECT_EQ(o.top_k, 40);
  EXPECT_EQ(o.top_p, 0.9);
  EXPECT_EQ(o.min_p, 0.01);
  EXPECT_EQ(o.repetition_penalty, 1.1);
  EXPECT_EQ(o.presence_penalty, -0.5);
  EXPECT_EQ(o.frequency_penalty, 0.2);
  EXPECT_EQ(o.seed, 18446744073709551615ULL);
  EXPECT_THAT(o.stops, ElementsAre("a,b", "--"));
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_EQ(o.logprobs, 5);
  EXPECT_EQ(o.stream, false);
  EXPECT_TRUE(o.no_special);
  EXPECT_EQ(o.max_batch, 2);
  EXPECT_TRUE(o.shared.json);
  EXPECT_EQ(o.shared.verbosity, Verbosity::verbose);
}

TEST(Options, PromptsOfAllKindsKeepTheirOrder) {
  const auto o = parse_as<GenerateOptions>(
      generate_words({"--prompt-ids", "1,2,3", "--prompt", "b", "-", "--prompt-file", "f",
                      "--prompt", "c", "--prompt-ids", "7 8"}));
  ASSERT_EQ(o.prompts.size(), 6U);
  EXPECT_THAT(o.prompts[0].ids, ElementsAre(1, 2, 3));
  EXPECT_EQ(o.prompts[1].text, "b");
  EXPECT_EQ(o.prompts[2].kind, Kind::standard_input);
  EXPECT_EQ(o.prompts[3].kind, Kind::file);
  EXPECT_EQ(o.prompts[3].text, "f");
  EXPECT_EQ(o.prompts[4].text, "c");
  EXPECT_THAT(o.prompts[5].ids, ElementsAre(7, 8));
}

// Each is one prompt, byte for byte, whether the value is a word of its own or stands after "=".
class PromptBytes : public testing::TestWithParam<std::string> {};

TEST_P(PromptBytes, StayAsTheyAre) {
  const auto apart = parse_as<GenerateOptions>(generate_words({"--prompt", GetParam(), "--json"}));
  const auto joined =
      parse_as<GenerateOptions>(generate_words({"--prompt=" + GetParam(), "--json"}));
  for (const auto& o : {apart, joined}) {
    ASSERT_EQ(o.prompts.size(), 1U);
    EXPECT_EQ(o.prompts[0].kind, Kind::text);
    EXPECT_EQ(o.prompts[0].text, GetParam());
    EXPECT_TRUE(o.shared.json);
  }
}

INSTANTIATE_TEST_SUITE_P(Hard, PromptBytes,
                         testing::Values("", " ", "a,b", "-", "--", "++", "-5 degrees", "--dashes",
                                         "-x", "[a,b]", "{}", "%%", "\"quoted\"", "'q'", "a=b",
                                         "--stop=", "generate", "\xff\xfe\x80", "caf\xc3\xa9",
                                         "line\nline\n", "\\n", "$HOME", "true"));

TEST(Options, AFlagAsAValueMustBeWrittenWithEquals) {
  EXPECT_THAT(usage_error(generate_words({"--prompt", "--json"})),
              AllOf(HasSubstr("--prompt: expected TEXT, found the flag --json"),
                    HasSubstr("--prompt=--json")));
  const auto o = parse_as<GenerateOptions>(generate_words({"--prompt=--json"}));
  EXPECT_EQ(o.prompts[0].text, "--json");
  EXPECT_FALSE(o.shared.json);
}

TEST(Options, SwitchesTakeTrueAndFalse) {
  EXPECT_FALSE(generate({"--ignore-eos=false"}).ignore_eos);
  EXPECT_TRUE(generate({"--ignore-eos=true"}).ignore_eos);
  EXPECT_EQ(generate({"--stream"}).stream, true);
  EXPECT_EQ(generate({"--stream=false"}).stream, false);
  EXPECT_THAT(generate_error({"--ignore-eos=maybe"}),
              HasSubstr("expected true or false, found \"maybe\""));
  EXPECT_THAT(generate_error({"--no-stream=false"}), HasSubstr("write --stream"));
}

struct Refusal {
  std::vector<std::string> words;
  std::vector<std::string> parts;  // of the message
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithFlagExpectedAndFound) {
  const std::string message = generate_error(GetParam().words);
  for (const std::string& part : GetParam().parts) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Values, Refused,
    testing::Values(
        Refusal{{"--max-tokens", "abc"}, {"--max-tokens", "integer of at least 0", "\"abc\""}},
        Refusal{{"--max-tokens", "-1"}, {"--max-tokens", "at least 0", "\"-1\""}},
        Refusal{{"--max-tokens", "1.5"}, {"--max-tokens", "integer", "\"1.5\""}},
        Refusal{{"--max-tokens", "1e3"}, {"--max-tokens", "\"1e3\""}},
        Refusal{{"--max-tokens", ""}, {"--max-tokens", "\"\""}},
        Refusal{{"--max-tokens="}, {"--max-tokens", "\"\""}},
        Refusal{{"--max-tokens", " 5"}, {"--max-tokens", "\" 5\""}},
        Refusal{{"--max-tokens", "5x"}, {"--max-tokens", "\"5x\""}},
        Refusal{{"--max-tokens", "9223372036854775808"}, {"--max-tokens", "9223372036854775808"}},
        Refusal{{"--max-tokens"}, {"--max-tokens", "expected N", "end of the command line"}},
        Refusal{{"--threads", "-1"}, {"--threads", "from 0 to 4096"}},
        Refusal{{"--threads", "4294967297"}, {"--threads", "from 0 to 4096"}},
        Refusal{{"--prefill-chunk", "0"}, {"--prefill-chunk", "at least 1"}},
        Refusal{{"--max-batch", "0"}, {"--max-batch", "at least 1"}},
        Refusal{{"--logprobs", "-1"}, {"--logprobs", "from 0 to 2147483647"}},
        Refusal{{"--top-k", "2.0"}, {"--top-k", "integer"}},
        Refusal{{"--seed", "-1"}, {"--seed", "18446744073709551615", "\"-1\""}},
        Refusal{{"--seed", "18446744073709551616"}, {"--seed", "18446744073709551616"}},
        Refusal{{"--temperature", "hot"}, {"--temperature", "finite number", "\"hot\""}},
        Refusal{{"--temperature", "nan"}, {"--temperature", "finite number", "\"nan\""}},
        Refusal{{"--temperature", "-NaN"}, {"--temperature", "finite number"}},
        Refusal{{"--temperature", "inf"}, {"--temperature", "finite number"}},
        Refusal{{"--temperature", "1e999"}, {"--temperature", "64-bit float", "1e999"}},
        Refusal{{"--temperature", "0,5"}, {"--temperature", "\"0,5\""}},
        Refusal{{"--timeout", "0"}, {"--timeout", "seconds above 0"}},
        Refusal{{"--timeout", "1e10"}, {"--timeout", "at most 1e9"}},
        Refusal{{"--load-timeout", "nan"}, {"--load-timeout", "seconds above 0"}},
        Refusal{{"--comm", "tcp"}, {"--comm", "auto, shm, mpi, nccl, ipc, staged", "\"tcp\""}},
        Refusal{{"--backend", "hip"}, {"--backend", "auto, cpu, cuda", "\"hip\""}},
        Refusal{{"--dtype", "f64"}, {"--dtype", "f32, bf16, f16, int8, int4", "\"f64\""}},
        Refusal{{"--dtype", "bf61"}, {"--dtype", "did you mean bf16?"}},
        Refusal{{"--kv-dtype", "int4"}, {"--kv-dtype", "auto, f32, bf16, f16, int8"}},
        Refusal{{"--stop", ""}, {"--stop", "text to stop at"}},
        Refusal{{"--prompt-ids", "1,-2"}, {"--prompt-ids", "id number 2", "\"-2\""}},
        Refusal{{"--prompt-ids", "1,,2"}, {"--prompt-ids", "id number 2", "\"\""}},
        Refusal{{"--prompt-ids", "1,2,"}, {"--prompt-ids", "after the last comma"}},
        Refusal{{"--prompt-ids", ",1"}, {"--prompt-ids", "id number 1"}},
        Refusal{{"--prompt-ids", "2147483648"}, {"--prompt-ids", "2147483647", "2147483648"}},
        Refusal{{"--prompt-ids", "1.0"}, {"--prompt-ids", "\"1.0\""}},
        Refusal{{"--prompt-file", ""}, {"--prompt-file", "expected a file"}}));

INSTANTIATE_TEST_SUITE_P(
    Names, Refused,
    testing::Values(Refusal{{"--temprature", "1"},
                            {"unknown option --temprature", "did you mean --temperature?"}},
                    Refusal{{"--temprature=1"}, {"unknown option --temprature", "--temperature"}},
                    Refusal{{"--temp", "1"}, {"unknown option --temp", "--temperature"}},
                    Refusal{{"--max_tokens", "1"}, {"--max_tokens", "--max-tokens"}},
                    Refusal{{"--Seed", "1"}, {"--Seed", "--seed"}},
                    Refusal{{"-seed", "1"}, {"unknown option -seed", "--seed"}},
                    Refusal{{"-s", "1"}, {"unknown option -s"}},
                    Refusal{{"--no-steam"}, {"--no-steam", "did you mean --no-stream?"}},
                    Refusal{{"--no-json"}, {"unknown option --no-json"}},
                    Refusal{{"--hlep"}, {"--hlep", "did you mean --help?"}},
                    Refusal{{"--window", "1"}, {"--window", "it is an option of score"}},
                    Refusal{{"word"}, {"belongs to no flag", "\"word\"", "quote the text"}},
                    Refusal{{"-5"}, {"belongs to no flag", "\"-5\""}},
                    Refusal{{"++"}, {"belongs to no flag"}},
                    Refusal{{"--", "--json"}, {"belongs to no flag", "--json"}},
                    Refusal{{"--seed", "1", "--seed", "2"}, {"--seed", "given twice"}},
                    Refusal{{"--json", "--json"}, {"--json", "given twice"}},
                    Refusal{{"--verbose", "--quiet"}, {"--quiet", "cannot stand beside --verbose"}},
                    Refusal{{"--stream", "--no-stream"}, {"--no-stream", "given twice"}},
                    Refusal{{"--json", "--stream"}, {"--json and --stream"}},
                    Refusal{{"-", "--prompt-file", "-"}, {"standard input is read twice"}}));

TEST(Options, SubCommandsAreRefusedWithTheNearestOne) {
  EXPECT_THAT(usage_error({"genrate"}),
              AllOf(HasSubstr("unknown sub-command genrate"), HasSubstr("did you mean generate?")));
  EXPECT_THAT(usage_error({"gen"}), HasSubstr("did you mean generate?"));
  EXPECT_THAT(usage_error({}), HasSubstr("expected a sub-command"));
  EXPECT_THAT(usage_error({"--json", "version"}), HasSubstr("expected a sub-command first"));
  EXPECT_THAT(usage_error({"", "x"}), HasSubstr("unknown sub-command"));
}

TEST(Options, WhatIsMissingIsNamed) {
  EXPECT_THAT(usage_error({"generate", "--prompt", "x"}), HasSubstr("expected --model DIR"));
  EXPECT_THAT(usage_error({"generate", "--model", "m"}), HasSubstr("expected a prompt"));
  EXPECT_THAT(usage_error({"generate", "--model", "", "--prompt", "x"}),
              HasSubstr("--model: expected a path"));
  EXPECT_THAT(usage_error({"score", "--model", "m"}), HasSubstr("--text-file"));
  EXPECT_THAT(usage_error({"tokenize"}), HasSubstr("--model"));
  EXPECT_THAT(usage_error({"plan", "--model", "m"}), HasSubstr("expected --ranks N"));
  EXPECT_THAT(usage_error({"dump", "--model", "m", "--stats"}), HasSubstr("--prompt-ids"));
  EXPECT_THAT(usage_error({"dump", "--model", "m", "--stats", "--prompt-ids", ""}),
              HasSubstr("--prompt-ids"));
  EXPECT_THAT(usage_error({"dump", "--model", "m", "--prompt-ids", "1"}), HasSubstr("--out FILE"));
}

TEST(Options, Score) {
  const auto o = parse_as<ScoreOptions>({"score", "--model", "m", "--text-file", "t", "--bos",
                                         "--window", "8", "--stride", "4", "--no-special"});
  EXPECT_EQ(o.text.kind, Kind::file);
  EXPECT_EQ(o.text.text, "t");
  EXPECT_TRUE(o.bos);
  EXPECT_EQ(o.window, 8);
  EXPECT_EQ(o.stride, 4);
  EXPECT_TRUE(o.no_special);
  EXPECT_THAT(parse_as<ScoreOptions>({"score", "--model", "m", "--prompt-ids", "4,5"}).text.ids,
              ElementsAre(4, 5));
  EXPECT_EQ(parse_as<ScoreOptions>({"score", "--model", "m", "-"}).text.kind, Kind::standard_input);
  EXPECT_THAT(usage_error({"score", "--model", "m", "--prompt-ids", "4", "--text-file", "t"}),
              HasSubstr("--text-file: cannot stand beside --prompt-ids"));
}

TEST(Options, TokenizeAndDetokenize) {
  EXPECT_EQ(parse_as<TokenizeOptions>({"tokenize", "--model", "m", "--text", ""}).text, "");
  EXPECT_FALSE(parse_as<TokenizeOptions>({"tokenize", "--model", "m"}).text);
  EXPECT_TRUE(parse_as<TokenizeOptions>({"tokenize", "--model", "m", "--json-lines"}).json_lines);
  EXPECT_THAT(usage_error({"tokenize", "--model", "m", "--json", "--json-lines"}),
              HasSubstr("contradict"));
  EXPECT_THAT(usage_error({"tokenize", "--model", "m", "--text", "a", "--json-lines"}),
              HasSubstr("contradict"));

  const auto o = parse_as<DetokenizeOptions>(
      {"detokenize", "1", "2,3", "--model", "m", "4", "--ids", "5", "--", "6"});
  ASSERT_TRUE(o.ids);
  EXPECT_THAT(*o.ids, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(parse_as<DetokenizeOptions>({"detokenize", "--model", "m"}).ids);
  EXPECT_THAT(usage_error({"detokenize", "--model", "m", "1", "-5"}), HasSubstr("\"-5\""));
  EXPECT_THAT(usage_error({"detokenize", "--model", "m", "1", "--json-lines"}),
              HasSubstr("contradict"));
}

TEST(Options, PlanDumpAndVersion) {
  const auto plan = parse_as<PlanOptions>({"plan", "--model", "m", "--ranks", "64"});
  EXPECT_EQ(plan.ranks, 64);
  EXPECT_EQ(plan.prompt_tokens, 128);
  EXPECT_THAT(usage_error({"plan", "--model", "m", "--ranks", "0"}), HasSubstr("from 1 to"));

  const auto dump = parse_as<DumpOptions>(
      {"dump", "--model", "m", "--prompt-ids", "1,2", "--out", "o", "--stats", "--threads", "2"});
  EXPECT_THAT(dump.prompt_ids, ElementsAre(1, 2));
  EXPECT_EQ(dump.out, "o");
  EXPECT_TRUE(dump.stats);
  EXPECT_EQ(dump.engine.threads, 2);

  const auto diff = parse_as<DumpOptions>({"dump", "--diff", "a", "b", "--tolerance", "1e-6"});
  EXPECT_EQ(diff.diff, std::make_pair(std::string("a"), std::string("b")));
  EXPECT_EQ(diff.tolerance, 1e-6);
  const auto odd = parse_as<DumpOptions>({"dump", "--diff=-a", "-b"});
  EXPECT_EQ(odd.diff, std::make_pair(std::string("-a"), std::string("-b")));
  EXPECT_THAT(usage_error({"dump", "--diff", "a"}), HasSubstr("--diff: expected A B"));
  EXPECT_THAT(usage_error({"dump", "--diff", "a", "b", "--stats"}), HasSubstr("contradict"));
  EXPECT_THAT(usage_error({"dump", "--diff", "a", "b", "--tolerance", "-1"}),
              HasSubstr("at least 0"));
  EXPECT_THAT(usage_error({"dump", "--diff", "a", "b", "--diff", "c", "d"}),
              HasSubstr("given twice"));
  EXPECT_THAT(
      usage_error({"dump", "--model", "m", "--prompt-ids", "1", "--stats", "--tolerance", "1"}),
      HasSubstr("--tolerance: has no effect without --diff"));

  EXPECT_TRUE(parse_as<VersionOptions>({"version", "--json"}).shared.json);
}

TEST(Options, HelpListsDefaults) {
  for (const char* flag : {"--help", "-h"}) {
    EXPECT_THAT(parse_as<HelpText>({flag}).text,
                AllOf(HasSubstr("generate"), HasSubstr("dump"), HasSubstr("\n  bench coll  ")));
    // Nothing else need be right.
    const std::string help = parse_as<HelpText>({"generate", "--max-tokens", "x", flag}).text;
    EXPECT_THAT(help, AllOf(HasSubstr("--max-tokens N"), HasSubstr("(default 128)"),
                            HasSubstr("--stream"), HasSubstr("--no-stream")));
  }
  for (const char* command : {"generate", "score", "tokenize", "detokenize", "plan", "dump",
                              "doctor", "bench", "version"}) {
    EXPECT_THAT(parse_as<HelpText>({command, "--help"}).text, HasSubstr("--config FILE"))
        << command;
  }
}

}  // namespace
}  // namespace shardlm
