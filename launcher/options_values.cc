#include "launcher/options_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "io/printable.h"

namespace shardlm {
namespace {

// 31 years: far beyond any wait, and safe in every clock's arithmetic.
constexpr double kLongestWait = 1e9;

template <typename T>
std::errc read_whole(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return error;
  return stop == end ? std::errc{} : std::errc::invalid_argument;
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string_view text) {
  fail(ExitCode::usage,
       {.expected = std::move(expected), .found = in_quotes(text), .where = where});
}

std::string describe(IntegerRange range) {
  const IntegerRange all;
  if (range.least == all.least && range.most == all.most) return "an integer of 64 bits";
  if (range.most == all.most) return fmt::format("an integer of at least {}", range.least);
  return fmt::format("an integer from {} to {}", range.least, range.most);
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

std::int64_t parse_integer(std::string_view text, const std::string& where, IntegerRange range) {
  std::int64_t value = 0;
  const bool read = read_whole(text, value) == std::errc{};
  if (!read || value < range.least || value > range.most) refuse(where, describe(range), text);
  return value;
}

std::uint64_t parse_unsigned(std::string_view text, const std::string& where) {
  std::uint64_t value = 0;
  if (read_whole(text, value) != std::errc{}) {
    refuse(where, "an integer from 0 to 18446744073709551615", text);
  }
  return value;
}

double parse_real(std::string_view text, const std::string& where) {
  double value = 0;
  const std::errc error = read_whole(text, value);
  if (error == std::errc::result_out_of_range) {
    refuse(where, "a number in the range of a 64-bit float", text);
  }
  if (error != std::errc{} || !std::isfinite(value)) refuse(where, "a finite number", text);
  return value;
}

double parse_seconds(std::string_view text, const std::string& where) {
  double value = 0;
  if (read_whole(text, value) != std::errc{} || !(value > 0) || !(value <= kLongestWait)) {
    refuse(where, "a number of seconds above 0 and at most 1e9", text);
  }
  return value;
}

bool parse_switch(std::string_view text, const std::string& where) {
  if (text != "true" && text != "false") refuse(where, "true or false", text);
  return text == "true";
}

std::vector<std::string> split_list(std::string_view text, const std::string& where) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) refuse(where, "values with single commas between them", text);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& where) {
  std::vector<std::int32_t> ids;
  bool comma = false;  // a comma was read that asks for a further id
  for (std::size_t at = 0; at < text.size();) {
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && text[end] != ',' && !is_blank(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    std::int32_t id = 0;
    if (read_whole(word, id) != std::errc{} || id < 0) {
      refuse(where + fmt::format(": id number {}", ids.size() + 1),
             "token ids from 0 to 2147483647 with commas or blanks between them", word);
    }
    ids.push_back(id);
    for (at = end; at < text.size() && is_blank(text[at]);) ++at;
    comma = at < text.size() && text[at] == ',';
    if (comma) ++at;
  }
  if (comma) refuse(where, "a token id after the last comma", text);
  return ids;
}

}  // namespace shardlm
