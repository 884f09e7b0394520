#include "io/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

using nlohmann::json;
using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(std::string_view text, int max_depth = 64) {
  return error_of([&] { parse_json(text, "a.json", max_depth); });
}

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(Json, reads_every_kind_of_value) {
  const json value = parse_json(
      " {\"a\": [1, -2, 0.5, true, false, null, \"x\"], \"b\": {\"c\": {}}, \"d\": []}\r\n\t ",
      "a");
  EXPECT_EQ(value.size(), 3U);
  const json& a = value.at("a");
  EXPECT_EQ(a.size(), 7U);
  EXPECT_TRUE(a[0].is_number_unsigned());
  EXPECT_EQ(a[1].get<int>(), -2);
  EXPECT_EQ(a[2].get<double>(), 0.5);
  EXPECT_EQ(a[3], true);
  EXPECT_EQ(a[4], false);
  EXPECT_TRUE(a[5].is_null());
  EXPECT_EQ(a[6], "x");
  EXPECT_TRUE(value.at("b").at("c").empty());
  EXPECT_TRUE(value.at("d").is_array());
  EXPECT_EQ(parse_json("7", "a"), 7);
}

TEST(Json, tells_whole_numbers_from_others) {
  EXPECT_TRUE(parse_json("18446744073709551615", "a").is_number_unsigned());
  EXPECT_EQ(parse_json("18446744073709551615", "a").get<std::uint64_t>(), ~0ULL);
  for (const char* text : {"-1", "1.0", "1e3", "18446744073709551616", "-0"}) {
    EXPECT_FALSE(parse_json(text, "a").is_number_unsigned()) << text;
  }
  for (const char* text : {"1e400", "01", "+1", ".5", "1.", "0x10", "NaN", "Infinity"}) {
    EXPECT_THAT(refusal(text), HasSubstr("a.json: not valid JSON")) << text;
  }
}

TEST(Json, refuses_a_key_given_twice_and_names_it) {
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 1})"), HasSubstr(R"(the key "a" is given twice)"));
  EXPECT_THAT(refusal(R"([{"x": {"k": 1, "k": 2}}])"), HasSubstr(R"("k")"));
  EXPECT_THAT(refusal(R"({"a": 1, "\u0061": 2})"), HasSubstr(R"("a")"));  // the same key, escaped
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})", "a"));
}

TEST(Json, limits_the_nesting) {
  EXPECT_NO_THROW(parse_json(nested(64, "[", "]"), "a"));
  EXPECT_THAT(refusal(nested(65, "[", "]")), HasSubstr("nested more than 64 deep"));
  EXPECT_NO_THROW(parse_json(nested(3, "[", "]"), "a", 3));
  EXPECT_THAT(refusal(R"({"a":{"b":{"c":{}}}})", 3), HasSubstr("more than 3 deep"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("more than 64 deep"));
}

TEST(Json, refuses_what_is_not_json) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "'a'", "// x\n1", "1 2",
                           "{} {}", "{}x", "tru", "\"a", "\"\t\"", "\v{}"}) {
    EXPECT_THAT(refusal(text), HasSubstr("a.json: not valid JSON: ")) << text;
  }
}

TEST(Json, refuses_nul_and_byte_order_mark) {
  EXPECT_THAT(refusal(std::string_view("{}\0", 3)), HasSubstr("NUL byte at offset 2"));
  EXPECT_THAT(refusal(std::string_view("\0{}", 3)), HasSubstr("offset 0"));
  EXPECT_THAT(refusal("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
}

TEST(Json, refuses_what_is_not_utf8) {
  for (const char* bad :
       {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    const std::string message = refusal("[\"" + std::string(bad) + "\"]");
    EXPECT_THAT(message, HasSubstr("not valid JSON"));
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
  }
  EXPECT_EQ(parse_json("\"\xc3\xa9\xf0\x9f\x98\x80\"", "a"), "\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(Json, decodes_escapes_and_refuses_lone_surrogates) {
  EXPECT_EQ(parse_json(R"("\u0000\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")", "a").get<std::string>(),
            std::string("\0\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80", 15));
  for (const char* bad : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")",
                          R"("\x41")", R"("\u12")"}) {
    EXPECT_THAT(refusal(bad), HasSubstr("not valid JSON")) << bad;
  }
}

TEST(Json, a_message_is_bounded_whatever_the_text) {
  EXPECT_LT(refusal("\"" + std::string(1'000'000, 'x')).size(), 1000U);
  const std::string key = "\"" + std::string(1'000'000, 'k') + "\":1";
  EXPECT_THAT(refusal("{" + key + "," + key + "}"), HasSubstr("(1000000 bytes)"));
}

// 200,000 nested objects took minutes with the library's callback interface, which is quadratic.
TEST(Json, time_is_linear_in_the_number_of_objects) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"{}\":{{}},", i);
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "a").size(), 200'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Json, reads_a_file) {
  const test::TempFolder folder;
  EXPECT_EQ(read_json_file(folder.write("a.json", "{\"n\": 3}\n")).at("n"), 3);
  EXPECT_THAT(error_of([&] { read_json_file(folder.write("b.json", "")); }),
              AllOf(HasSubstr("b.json"), HasSubstr("not valid JSON")));
  EXPECT_THAT(error_of([&] { read_json_file(folder.path() / "c.json"); }),
              AllOf(HasSubstr("c.json"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] {
                read_json_file(folder.write("d.json", "version 1\noid sha256:0\nsize 5\n"));
              }),
              HasSubstr("large-file pointer"));
}

}  // namespace
}  // namespace shardlm
