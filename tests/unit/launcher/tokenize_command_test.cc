#include "launcher/tokenize_command.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// GPT-2's own vocabulary. The ids come from the published vectors in gpt2_tokenizer_vectors.json
// and from tiktoken's and Hugging Face's documentation of it.
const std::string kGpt2 = std::string(SHARDLM_TEST_DATA) + "/gpt2_bpe";

// The vocabulary of 21 tokens of Hugging Face's own tests, for what needs many loads.
const std::string kTiny = std::string(SHARDLM_TEST_DATA) + "/models/tiny_gpt2_hf";

std::string tokenize(TokenizeOptions options, const std::string& in = "") {
  if (options.model.empty()) options.model = kGpt2;
  std::istringstream input(in);
  std::ostringstream output;
  EXPECT_EQ(run_tokenize(options, input, output), 0);
  return output.str();
}

std::string detokenize(DetokenizeOptions options, const std::string& in = "") {
  if (options.model.empty()) options.model = kGpt2;
  std::istringstream input(in);
  std::ostringstream output;
  EXPECT_EQ(run_detokenize(options, input, output), 0);
  return output.str();
}

template <typename Run>
Error error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ExitCode::ok, ""};
}

TokenizeOptions text(std::string bytes) {
  TokenizeOptions options;
  options.text = std::move(bytes);
  return options;
}

DetokenizeOptions ids(std::vector<std::int32_t> list) {
  DetokenizeOptions options;
  options.ids = std::move(list);
  return options;
}

template <typename Options>
Options lines(const std::string& model = kGpt2) {
  Options options;
  options.model = model;
  options.json_lines = true;
  return options;
}

template <typename Options>
Options as_json(Options options) {
  options.shared.json = true;
  return options;
}

TEST(Tokenize, WritesIdsOnALine) {
  EXPECT_EQ(tokenize(text("Hello, world!")), "15496 11 995 0\n");
  TokenizeOptions nothing = text("");
  nothing.model = kTiny;
  EXPECT_EQ(tokenize(nothing), "\n");
}

TEST(Tokenize, TakesStandardInputAsItIs) {
  EXPECT_EQ(tokenize({}, "a\n\n\nb"), "64 628 198 65\n");
  EXPECT_EQ(tokenize({}, "a\r\nb"), "64 201 198 65\n");
  EXPECT_EQ(tokenize({}, "hello \n"), "31373 220 198\n");
}

TEST(Tokenize, Json) {
  const auto object = nlohmann::json::parse(tokenize(as_json(text("3.14"))));
  EXPECT_EQ(object, nlohmann::json({{"ids", {18, 13, 1415}}, {"count", 3}}));
}

TEST(Tokenize, SpecialTokens) {
  TokenizeOptions plain = text("a<|endoftext|>b");
  plain.no_special = true;
  EXPECT_EQ(tokenize(text("a<|endoftext|>b")), "64 50256 65\n");
  EXPECT_EQ(tokenize(plain), "64 27 91 437 1659 5239 91 29 65\n");
}

TEST(Tokenize, JsonLines) {
  EXPECT_EQ(tokenize(lines<TokenizeOptions>(), "\"Hello, world!\"\n\"\"\n\"a\\nb\"\r\n\"\\u00b2\""),
            "[15496,11,995,0]\n[]\n[64,198,65]\n[31185]\n");
  EXPECT_EQ(tokenize(lines<TokenizeOptions>(kTiny), ""), "");
}

TEST(Tokenize, ABadLineIsNamedAfterTheGoodOnes) {
  for (const std::string bad : {"text", "", "[1]", "\"\\ud800\"", "\"a\" \"b\"", "\"\xff\""}) {
    std::ostringstream output;
    std::istringstream input("\"lo\"\n" + bad + "\n\"b\"\n");
    const Error error =
        error_of([&] { run_tokenize(lines<TokenizeOptions>(kTiny), input, output); });
    EXPECT_EQ(error.code(), ExitCode::usage) << bad;
    EXPECT_THAT(error.what(), HasSubstr("standard input, line 2")) << bad;
    EXPECT_EQ(output.str(), "[0,1]\n") << bad;
  }
}

TEST(Detokenize, WritesTheBytesAndNothingElse) {
  EXPECT_EQ(detokenize(ids({15496, 11, 995, 0})), "Hello, world!");
  EXPECT_EQ(detokenize({}, "15496 11\n995,0\n"), "Hello, world!");
  EXPECT_EQ(detokenize({}, ""), "");
  EXPECT_EQ(detokenize(ids({47249})), "\xF0\x9F\x98");  // trap 26
  EXPECT_EQ(detokenize(ids({47249, 222})), "\xF0\x9F\x98\x80");
}

TEST(Detokenize, JsonIsValidUtf8) {
  EXPECT_EQ(nlohmann::json::parse(detokenize(as_json(ids({47249})))),
            nlohmann::json({{"text", "\xEF\xBF\xBD"}}));
  EXPECT_EQ(detokenize(lines<DetokenizeOptions>(), "[15496,11]\n[]\n[ 47249 , 222 ]\n"),
            "\"Hello,\"\n\"\"\n\"\xF0\x9F\x98\x80\"\n");
}

TEST(Detokenize, IdsWithoutTokenAreNamed) {
  const Error plain = error_of([] { detokenize(ids({0, 50257})); });
  EXPECT_EQ(plain.code(), ExitCode::usage);
  EXPECT_THAT(plain.what(), HasSubstr("50257"));
  const Error input = error_of([] { detokenize({}, "1 -2"); });
  EXPECT_EQ(input.code(), ExitCode::usage);
  EXPECT_THAT(input.what(), AllOf(HasSubstr("standard input"), HasSubstr("-2")));
}

TEST(Detokenize, ABadLineIsNamed) {
  for (const std::string bad :
       {"5", "[1.5]", "[-1]", "[\"1\"]", "[21]", "[2147483648]", "[18446744073709551616]", "[[1]]",
        "[1,]", "{\"ids\":[1]}", "null"}) {
    const Error error =
        error_of([&] { detokenize(lines<DetokenizeOptions>(kTiny), "[1]\n[2]\n" + bad); });
    EXPECT_EQ(error.code(), ExitCode::usage) << bad;
    EXPECT_THAT(error.what(), HasSubstr("standard input, line 3")) << bad;
  }
}

TEST(Tokenize, AFolderWithoutTokenizerFilesSaysSo) {
  const std::string model = std::string(SHARDLM_TEST_DATA) + "/models/gpt_nano_sort";
  std::istringstream input;
  std::ostringstream output;
  TokenizeOptions tokenizing = text("x");
  DetokenizeOptions detokenizing = ids({1});
  tokenizing.model = detokenizing.model = model;
  const Error a = error_of([&] { run_tokenize(tokenizing, input, output); });
  const Error b = error_of([&] { run_detokenize(detokenizing, input, output); });
  for (const Error& error : {a, b}) {
    EXPECT_EQ(error.code(), ExitCode::model_files);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(model), HasSubstr("vocab.json"), HasSubstr("none")));
  }
}

TEST(Tokenize, AFailedWriteIsAnError) {
  std::istringstream input;
  std::ostringstream output;
  output.setstate(std::ios::badbit);
  TokenizeOptions options = text("x");
  options.model = kGpt2;
  const Error error = error_of([&] { run_tokenize(options, input, output); });
  EXPECT_EQ(error.code(), ExitCode::resources);
}

// What the tool wrote, it reads: all 256 bytes through both commands.
TEST(Tokenize, AllBytesComeBack) {
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes += static_cast<char>(b);
  EXPECT_EQ(detokenize({}, tokenize({}, bytes)), bytes);
}

}  // namespace
}  // namespace shardlm
