// Rows S1 to S32 of the project's list of corner and hostile cases for safetensors files, and what
// the format promises. Headers are written out by hand here; offsets and sizes follow from the
// format's text (range = product of the shape times the element's bytes).
#include "io/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

using test::error_of;
using test::length_field;
using test::safetensors;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile::parse(test::as_bytes(bytes), "m.safetensors");
}

// The refusal of a whole file; every one of them begins with the file's name.
std::string refusal(const std::string& bytes) {
  const std::string message = error_of([&] { parse(bytes); });
  EXPECT_THAT(message, StartsWith("m.safetensors: "));
  return message;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

// A file with one tensor "x" and `n_bytes` of data.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t n_bytes) {
  return safetensors("{" + entry("x", dtype, shape, offsets) + "}", std::string(n_bytes, '\0'));
}

// F32 tensors over the given ranges.
std::string ranges(const std::vector<std::pair<int, int>>& list, std::size_t n_bytes) {
  std::string header = "{";
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto [begin, end] = list[i];
    if (i > 0) header += ',';
    header += entry(fmt::format("t{}", i), "F32", fmt::format("[{}]", (end - begin) / 4),
                    fmt::format("[{},{}]", begin, end));
  }
  return safetensors(header + "}", std::string(n_bytes, '\0'));
}

std::vector<std::string> names(const SafetensorsFile& file) {
  std::vector<std::string> out;
  for (const HostTensor& tensor : file.tensors()) out.push_back(tensor.name);
  return out;
}

std::vector<float> values(const HostTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  tensor.read(0, out);
  return out;
}

TEST(Safetensors, S1_shorter_than_8_bytes_is_refused) {
  EXPECT_THAT(refusal(""), HasSubstr("expected at least 8 bytes, found 0"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("found 7"));
}

TEST(Safetensors, S2_header_length_is_no_allocation_size) {
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const std::string rest = "{}" + std::string(14, ' ');  // the file has 24 bytes
  for (const std::uint64_t length :
       {1ULL << 31, 1ULL << 63, ~0ULL, ~0ULL - 4, 0xff00000000000002ULL, 100'000'001ULL, 24ULL}) {
    EXPECT_THAT(refusal(length_field(length) + rest),
                AllOf(HasSubstr("header length: expected at most 16"),
                      HasSubstr(fmt::format("found {}", length))));
  }
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 * 1024) << "KiB";
  EXPECT_THAT(refusal(length_field(1) + rest), HasSubstr("not valid JSON"));
  EXPECT_NO_THROW(parse(length_field(16) + rest));  // file size - 8: all header, no tensors
}

TEST(Safetensors, S2_headers_above_100_million_bytes_are_refused) {
  std::string file = length_field(100'000'001) + "{}";
  file.resize(8 + 100'000'001, ' ');
  EXPECT_THAT(refusal(file), AllOf(HasSubstr("at most 100000000"), HasSubstr("100000001")));
}

TEST(Safetensors, S3_header_length_beyond_the_file_is_refused) {
  EXPECT_THAT(refusal(length_field(60)), AllOf(HasSubstr("at most 0"), HasSubstr("found 60")));
  EXPECT_THAT(refusal(length_field(3) + "{}"), HasSubstr("at most 2 (the rest of the file)"));
}

TEST(Safetensors, S4_empty_header_is_refused) {
  EXPECT_THAT(refusal(length_field(0)), HasSubstr("an empty header"));
  EXPECT_THAT(refusal(length_field(0) + "{}"), HasSubstr("an empty header"));
}

TEST(Safetensors, S5_header_that_is_not_utf8_is_refused) {
  EXPECT_THAT(refusal(safetensors("\xff")), HasSubstr("\\xff"));
  EXPECT_THAT(refusal(safetensors("{\"\xff\":{}}")), HasSubstr("header: not valid JSON"));
}

TEST(Safetensors, S6_header_that_is_no_json_object_is_refused) {
  EXPECT_THAT(refusal(safetensors("{")), HasSubstr("header: not valid JSON"));
  for (const char* header : {"[]", "1", "null", "\"a\""}) {
    EXPECT_THAT(refusal(safetensors(header)), HasSubstr("first byte of the header: expected '{'"));
  }
  EXPECT_THAT(refusal(safetensors(R"({"x":1})")), HasSubstr("tensor \"x\": its entry"));
}

TEST(Safetensors, S7_header_may_end_in_json_white_space_only) {
  for (const char* padding : {"", "   ", "\r", "\t", "\n", " \r\n\t "}) {
    EXPECT_TRUE(parse(safetensors(std::string("{}") + padding)).tensors().empty());
  }
  for (const std::string& padding : {std::string(1, '\0'), std::string("x"), std::string("\v"),
                                     std::string("\f"), std::string("{}"), std::string(",")}) {
    EXPECT_THAT(refusal(safetensors("{}" + padding)), HasSubstr("header: not valid JSON"));
  }
}

TEST(Safetensors, S8_white_space_before_the_header_is_refused) {
  EXPECT_THAT(refusal(safetensors(" {}")), HasSubstr("first byte of the header: expected '{'"));
  EXPECT_THAT(refusal(safetensors("\n{}")), HasSubstr("found \"\\x0a\""));
  EXPECT_THAT(refusal(safetensors("\xef\xbb\xbf{}")), HasSubstr("first byte of the header"));
}

TEST(Safetensors, S9_files_without_tensors_are_accepted) {
  EXPECT_TRUE(parse(safetensors("{}")).tensors().empty());
  const SafetensorsFile file = [] {
    static const std::string bytes = safetensors(R"({"__metadata__":{"format":"pt"}})");
    return parse(bytes);
  }();
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(Safetensors, S10_metadata_must_map_strings_to_strings) {
  EXPECT_THAT(refusal(safetensors(R"({"__metadata__":{"n":1}})")),
              HasSubstr(R"(__metadata__: value of "n": expected a string, found number)"));
  EXPECT_THAT(refusal(safetensors(R"({"__metadata__":"x"})")),
              HasSubstr("__metadata__: expected an object, found string"));
  EXPECT_THAT(refusal(safetensors(R"({"__metadata__":null})")), HasSubstr("found null"));
}

TEST(Safetensors, S11_a_key_given_twice_is_refused_by_name) {
  const std::string a = entry("wte.weight", "F32", "[1]", "[0,4]");
  const std::string b = entry("wte.weight", "F32", "[1]", "[4,8]");
  EXPECT_THAT(refusal(safetensors("{" + a + "," + b + "}", std::string(8, '\0'))),
              HasSubstr("\"wte.weight\" is given twice"));
  EXPECT_THAT(refusal(safetensors(R"({"__metadata__":{},"__metadata__":{}})")),
              HasSubstr("\"__metadata__\" is given twice"));
  EXPECT_THAT(refusal(safetensors(R"({"__metadata__":{"k":"1","k":"1"}})")), HasSubstr("\"k\""));
  EXPECT_THAT(
      refusal(safetensors(R"({"x":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})")),
      HasSubstr("\"dtype\""));
}

TEST(Safetensors, S12_overlap_is_refused_naming_both) {
  EXPECT_THAT(refusal(ranges({{0, 64}, {32, 96}}, 96)),
              AllOf(HasSubstr("tensor \"t0\" and tensor \"t1\" overlap"),
                    HasSubstr("[0, 64) and [32, 96)")));
  EXPECT_THAT(refusal(ranges({{0, 16}, {0, 16}}, 16)),
              AllOf(HasSubstr("\"t0\""), HasSubstr("\"t1\"")));
  EXPECT_THAT(refusal(ranges(std::vector<std::pair<int, int>>(10, {0, 16}), 16)),
              AllOf(HasSubstr("\"t0\""), HasSubstr("\"t1\""), HasSubstr("overlap")));
  EXPECT_THAT(refusal(ranges({{0, 16}, {8, 8}}, 16)), HasSubstr("[0, 16) and [8, 8)"));
}

TEST(Safetensors, S13_gaps_are_refused) {
  EXPECT_THAT(refusal(ranges({{0, 16}, {20, 36}}, 36)),
              AllOf(HasSubstr("tensor \"t1\""), HasSubstr("expected its data to begin at 16"),
                    HasSubstr("[20, 36)")));
  EXPECT_THAT(refusal(ranges({{4, 8}}, 8)),
              AllOf(HasSubstr("tensor \"t0\""), HasSubstr("begin at 0")));
  EXPECT_THAT(refusal(ranges({{4, 4}}, 4)), HasSubstr("begin at 0"));
}

TEST(Safetensors, S14_bytes_after_the_last_tensor_are_refused) {
  EXPECT_THAT(refusal(ranges({{0, 16}}, 20)),
              AllOf(HasSubstr("\"t0\""), HasSubstr("expected 16 bytes"), HasSubstr("found 20")));
  EXPECT_THAT(refusal(safetensors("{}", "x")), HasSubstr("expected 0 bytes of data, found 1"));
}

TEST(Safetensors, S15_a_file_cut_short_is_refused) {
  for (const std::size_t missing : {1U, 2U, 16U}) {
    EXPECT_THAT(refusal(ranges({{0, 16}, {16, 32}}, 32 - missing)),
                AllOf(HasSubstr("tensor \"t1\": data_offsets"), HasSubstr("cut short"),
                      HasSubstr(fmt::format("the {} bytes", 32 - missing))));
  }
  EXPECT_THAT(refusal(one("U8", "[18446744073709551615]", "[0,18446744073709551615]", 4)),
              HasSubstr("tensor \"x\""));
}

TEST(Safetensors, S16_end_before_begin_is_refused) {
  EXPECT_THAT(refusal(one("F32", "[1]", "[8,4]", 8)),
              AllOf(HasSubstr("begin <= end"), HasSubstr("[8,4]")));
  EXPECT_THAT(refusal(one("F32", "[1]", "[18446744073709551612,0]", 8)), HasSubstr("begin <= end"));
}

TEST(Safetensors, S17_range_must_fit_dtype_and_shape) {
  EXPECT_THAT(refusal(one("F32", "[2,2]", "[0,8]", 8)),
              HasSubstr("expected 16 bytes for F32 [2, 2], found 8 in [0, 8)"));
  EXPECT_THAT(refusal(one("F16", "[2]", "[0,8]", 8)), HasSubstr("expected 4 bytes for F16 [2]"));
  EXPECT_THAT(refusal(one("F32", "[]", "[0,8]", 8)), HasSubstr("expected 4 bytes"));
  EXPECT_THAT(refusal(one("F32", "[0]", "[0,4]", 4)), HasSubstr("expected 0 bytes"));
}

TEST(Safetensors, S18_sizes_that_overflow_are_refused) {
  for (const char* shape :
       {"[2,18446744073709551614]", "[2,9223372036854775807]", "[4294967296,4294967296]",
        "[9223372036854775807]", "[4611686018427387904,2]", "[2,4611686018427387904,2]"}) {
    EXPECT_THAT(refusal(one("I32", shape, "[0,4]", 4)), HasSubstr("tensor \"x\": shape")) << shape;
  }
  // 2^61 elements: the count fits, 2^61 * 8 bytes wrap to 0.
  EXPECT_THAT(refusal(one("F64", "[2305843009213693952]", "[0,0]", 0)), HasSubstr("64 bits"));
}

TEST(Safetensors, S19_a_scalar_is_accepted) {
  const std::string bytes =
      safetensors("{" + entry("x", "F32", "[]", "[0,4]") + "}", std::string("\0\0\x80\x3f", 4));
  const SafetensorsFile file = parse(bytes);
  EXPECT_TRUE(file.tensors()[0].shape.empty());
  EXPECT_THAT(values(file.tensors()[0]), ElementsAre(1.0F));
}

TEST(Safetensors, S20_empty_tensors_are_accepted) {
  const std::string header =
      "{" + entry("full", "F32", "[1]", "[0,4]") + "," + entry("z0", "F32", "[0,3]", "[0,0]") +
      "," + entry("z1", "F32", "[2,0]", "[0,0]") + "," + entry("end", "F32", "[0]", "[4,4]") + "}";
  const std::string bytes = safetensors(header, std::string(4, '\0'));
  const SafetensorsFile file = parse(bytes);
  EXPECT_THAT(names(file), ElementsAre("z0", "z1", "full", "end"));
  EXPECT_EQ(file.tensors()[0].elements(), 0);
  EXPECT_TRUE(values(file.tensors()[3]).empty());
}

TEST(Safetensors, S21_a_zero_does_not_hide_an_overflow) {
  EXPECT_NO_THROW(parse(one("F32", "[0,4611686018427387904]", "[0,0]", 0)));
  EXPECT_NO_THROW(parse(one("F32", "[4611686018427387904,0]", "[0,0]", 0)));
  for (const char* shape :
       {"[0,9223372036854775808,4]", "[0,4611686018427387904,4]", "[4611686018427387904,4,0]",
        "[4611686018427387904,0,4611686018427387904,4]"}) {
    EXPECT_THAT(refusal(one("F32", shape, "[0,0]", 0)), HasSubstr("shape")) << shape;
  }
}

TEST(Safetensors, S22_header_order_is_free) {
  const std::string header =
      "{" + entry("a", "F32", "[1]", "[4,8]") + "," + entry("b", "F32", "[1]", "[0,4]") + "}";
  const std::string bytes = safetensors(header, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  const SafetensorsFile file = parse(bytes);
  EXPECT_THAT(names(file), ElementsAre("b", "a"));
  EXPECT_THAT(values(file.tensors()[0]), ElementsAre(1.0F));
  EXPECT_THAT(values(file.tensors()[1]), ElementsAre(2.0F));
}

TEST(Safetensors, S23_numbers_must_be_whole) {
  // As written, and as the message shows it: never cut to a whole number.
  const std::vector<std::pair<std::string, std::string>> numbers = {
      {"-1", "-1"},
      {"1.0", "1.0"},
      {"1e0", "1.0"},
      {"1e3", "1000.0"},
      {"1.5", "1.5"},
      {"\"1\"", "\"1\""},
      {"true", "true"},
      {"null", "null"},
      {"[1]", "[1]"},
      {"18446744073709551616", "1.8446744073709552e+19"},
      {"-9223372036854775809", "-9.223372036854776e+18"}};
  for (const auto& [number, shown] : numbers) {
    EXPECT_THAT(refusal(one("U8", fmt::format("[{}]", number), "[0,1]", 1)),
                AllOf(HasSubstr("tensor \"x\": shape: expected whole numbers"),
                      HasSubstr("found " + shown)));
    EXPECT_THAT(refusal(one("U8", "[1]", fmt::format("[0,{}]", number), 1)),
                AllOf(HasSubstr("tensor \"x\": data_offsets"), HasSubstr("found " + shown)));
  }
  EXPECT_THAT(refusal(one("U8", "[9223372036854775808]", "[0,1]", 1)),
              HasSubstr("expected whole numbers from 0 to 9223372036854775807"));
}

TEST(Safetensors, S24_unknown_dtype_is_refused_listing_ours) {
  for (const char* dtype : {"f32", "F33", "", "float32", "F32 "}) {
    EXPECT_THAT(
        refusal(one(dtype, "[1]", "[0,4]", 4)),
        HasSubstr(fmt::format("dtype: expected one of F64, F32, F16, BF16, found \"{}\"", dtype)));
  }
}

TEST(Safetensors, S25_other_dtypes_are_parsed_and_refused_on_use) {
  const std::vector<std::pair<std::string, int>> bits = {
      {"BOOL", 8},    {"I8", 8},      {"U8", 8},      {"I16", 16}, {"U16", 16},    {"I32", 32},
      {"U32", 32},    {"I64", 64},    {"U64", 64},    {"C64", 64}, {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [dtype, n] : bits) {
    const int size = 4 * n / 8;
    const std::string bytes =
        one(dtype, "[4]", fmt::format("[0,{}]", size), static_cast<std::size_t>(size));
    const SafetensorsFile file = parse(bytes);
    EXPECT_EQ(name(file.tensors()[0].dtype), dtype);
    EXPECT_THAT(error_of([&] { values(file.tensors()[0]); }),
                AllOf(HasSubstr("m.safetensors"), HasSubstr("tensor x"), HasSubstr(dtype),
                      HasSubstr("F64, F32, F16, BF16")));
  }
  EXPECT_THAT(refusal(one("F4", "[3]", "[0,1]", 1)), HasSubstr("a whole number of bytes"));
  EXPECT_THAT(refusal(one("F6_E2M3", "[2]", "[0,1]", 1)), HasSubstr("2 elements of F6_E2M3"));
}

TEST(Safetensors, S26_members_missing_are_refused_and_others_ignored) {
  const auto with = [](const std::string& members) {
    return safetensors(R"({"x":{)" + members + "}}", "\x01");
  };
  const std::string dtype = R"("dtype":"U8")", shape = R"("shape":[1])",
                    offsets = R"("data_offsets":[0,1])";
  EXPECT_THAT(refusal(with(shape + "," + offsets)),
              HasSubstr("\"x\": dtype: expected to be given"));
  EXPECT_THAT(refusal(with(dtype + "," + offsets)), HasSubstr("\"x\": shape"));
  EXPECT_THAT(refusal(with(dtype + "," + shape)), HasSubstr("\"x\": data_offsets"));
  for (const char* pair : {"[]", "[0]", "[0,1,1]", "{}", "1"}) {
    EXPECT_THAT(refusal(with(dtype + "," + shape + ",\"data_offsets\":" + pair)),
                HasSubstr("expected two numbers"));
  }
  EXPECT_THAT(refusal(with(R"("dtype":1,)" + shape + "," + offsets)), HasSubstr("a string"));
  EXPECT_THAT(refusal(with(dtype + R"(,"shape":1,)" + offsets)), HasSubstr("an array"));
  const std::string extra = with(dtype + "," + shape + "," + offsets + R"(,"note":{"a":[1.5]})");
  EXPECT_THAT(names(parse(extra)), ElementsAre("x"));
}

TEST(Safetensors, S27_names_are_bytes) {
  const auto name_of = [](const std::string& written) {
    const std::string bytes = safetensors("{" + entry(written, "U8", "[0]", "[0,0]") + "}");
    return parse(bytes).tensors().at(0).name;
  };
  EXPECT_EQ(name_of(""), "");
  EXPECT_EQ(name_of(R"(a\u0000b)"), std::string("a\0b", 3));
  EXPECT_EQ(name_of(R"(a\"\\\/)"), "a\"\\/");
  EXPECT_EQ(name_of(R"(\ud83d\ude00)"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(name_of("\xc3\xa9"), "\xc3\xa9");
  const std::string long_name(1 << 20, 'n');
  EXPECT_EQ(name_of(long_name), long_name);
  for (const char* bad : {R"(\ud83d)", R"(\ude00)", R"(\ud83d\u0020)"}) {
    EXPECT_THAT(refusal(safetensors("{" + entry(bad, "U8", "[0]", "[0,0]") + "}")),
                HasSubstr("not valid JSON"));
  }
  EXPECT_LT(refusal(safetensors("{" + entry(long_name, "U8", "[1]", "[0,0]") + "}")).size(), 400U);
}

TEST(Safetensors, S28_deep_nesting_is_refused) {
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_THAT(refusal(safetensors(R"({"x":)" + deep + "}")), HasSubstr("nested more than 16 deep"));
}

TEST(Safetensors, S29_data_need_no_alignment) {
  // The header makes the data start at an odd offset; the F64 follows one F16.
  const std::string header =
      "{" + entry("h", "F16", "[1]", "[0,2]") + "," + entry("d", "F64", "[2]", "[2,18]") + "}";
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const double doubles[2] = {0.5, -3};
    std::string data("\x00\x3c", 2);
    data.append(reinterpret_cast<const char*>(doubles), sizeof doubles);
    const std::string bytes = safetensors(header + std::string(padding, ' '), data);
    const SafetensorsFile file = parse(bytes);
    EXPECT_THAT(values(file.tensors()[0]), ElementsAre(1.0F));
    EXPECT_THAT(values(file.tensors()[1]), ElementsAre(0.5F, -3.0F));
  }
}

TEST(Safetensors, S30_nan_and_infinity_are_loaded) {
  const float floats[3] = {std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()};
  const std::string bytes =
      safetensors("{" + entry("x", "F32", "[3]", "[0,12]") + "}",
                  std::string_view(reinterpret_cast<const char*>(floats), sizeof floats));
  const std::vector<float> read = values(parse(bytes).tensors()[0]);
  EXPECT_TRUE(std::isnan(read[0]));
  EXPECT_EQ(read[1], floats[1]);
  EXPECT_EQ(read[2], floats[2]);
}

// S31 (saving over the mapped file) stands in safetensors_writer_test.cc.

TEST(Safetensors, S32_a_file_that_shrinks_is_found) {
  const test::TempFolder folder;
  const auto path = folder.write("m.safetensors", ranges({{0, 16}}, 16));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_NO_THROW(file.check_unchanged());
  std::filesystem::resize_file(path, file.file_bytes() - 4);
  EXPECT_THAT(error_of([&] { file.check_unchanged(); }),
              AllOf(HasSubstr(path.string()), HasSubstr("changed while it was in use")));
}

TEST(Safetensors, trap116_a_pointer_text_is_named_as_such) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') +
      "\nsize 548105171\n";
  std::uint64_t length = 0;
  std::memcpy(&length, pointer.data(), 8);
  ASSERT_EQ(length, 2336927755350992246U);
  EXPECT_THAT(refusal(pointer), AllOf(HasSubstr("pointer"), HasSubstr("git lfs pull")));
}

TEST(Safetensors, trap111_each_tensor_has_a_dtype_of_its_own) {
  const std::string header =
      "{" + entry("ln", "F32", "[1]", "[0,4]") + "," + entry("w", "BF16", "[2]", "[4,8]") + "," +
      entry("b", "F64", "[1]", "[8,16]") + "," + entry("h", "F16", "[1]", "[16,18]") + "}";
  const double bias = 0.1;
  std::string data(
      "\0\0\x40\xbf"
      "\x80\x3f\x49\x40",
      8);  // -0.75; 1, 3.140625
  data.append(reinterpret_cast<const char*>(&bias), sizeof bias);
  data.append("\x00\xc5", 2);  // -5
  const std::string bytes = safetensors(header, data);
  const SafetensorsFile file = parse(bytes);
  EXPECT_THAT(values(file.tensors()[0]), ElementsAre(-0.75F));
  EXPECT_THAT(values(file.tensors()[1]), ElementsAre(1.0F, 3.140625F));
  EXPECT_THAT(values(file.tensors()[2]), ElementsAre(0.1F));
  EXPECT_THAT(values(file.tensors()[3]), ElementsAre(-5.0F));
}

// Files that the reference implementation wrote; the values as its Python package reads them.
TEST(Safetensors, published_files) {
  struct File {
    std::string stem;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  const std::vector<File> files = {
      {"tensor-1d-int32", DType::i32, {3}, {}},
      {"tensor-2d-float64", DType::f64, {2, 3}, {1, 2, 3, 24, 25, 26}},
      {"tensor-3d-float32", DType::f32, {2, 2, 3}, {22, 23, 24, 11, 12, 13, 2, 3, 4, 1, 2, 3}},
      {"tensor-4d-float32",
       DType::f32,
       {2, 3, 1, 3},
       {11, 12, 13, 1, 2, 3, 4, 5, 6, 22, 23, 24, 15, 16, 17, 17, 18, 19}}};
  for (const File& expected : files) {
    const auto path =
        std::string(SHARDLM_TEST_DATA "/safetensors/") + expected.stem + ".safetensors";
    const SafetensorsFile file = SafetensorsFile::open(path);
    ASSERT_EQ(file.tensors().size(), 1U);
    const HostTensor& tensor = file.tensors()[0];
    EXPECT_EQ(tensor.name, "embedding");
    EXPECT_EQ(tensor.dtype, expected.dtype);
    EXPECT_EQ(tensor.shape, expected.shape);
    EXPECT_EQ(tensor.file, path);
    EXPECT_EQ(file.file_bytes(), std::filesystem::file_size(path));
    if (is_float(tensor.dtype)) {
      EXPECT_EQ(values(tensor), expected.values);
    }
  }
}

TEST(Safetensors, a_moved_file_keeps_its_tensors) {
  const test::TempFolder folder;
  const auto path = folder.write("m.safetensors", ranges({{0, 16}, {16, 24}}, 24));
  SafetensorsFile first = SafetensorsFile::open(path);
  const std::byte* data = first.tensors()[1].bytes.data();
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(second.tensors()[1].bytes.data(), data);
  EXPECT_THAT(values(second.tensors()[1]), ElementsAre(0.0F, 0.0F));
  EXPECT_THAT(std::string(second.header()), StartsWith("{\"t0\""));
  EXPECT_EQ(second.data().size(), 24U);
}

}  // namespace
}  // namespace shardlm
