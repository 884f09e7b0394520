#include "io/merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "io/printable.h"

namespace shardlm {
namespace {

// Collects rules; `unit` ("line", "merge") and a number name one in messages.
class MergeList {
 public:
  MergeList(const Vocab& vocab, const std::string& where, std::string unit)
      : vocab_(vocab), where_(where), unit_(std::move(unit)) {}

  void reserve(std::size_t rules) { numbered_.reserve(rules); }

  void add_spelled(std::string_view text, std::size_t number) {
    const std::size_t space = text.find(' ');
    const bool two = space != std::string_view::npos && text.find(' ', space + 1) == text.npos;
    if (!two) refuse(number, "two parts with one space between", in_quotes(text));
    add(text.substr(0, space), text.substr(space + 1), number);
  }

  void add(std::string_view left, std::string_view right, std::size_t number) {
    if (left.empty() || right.empty()) refuse(number, "two parts", "an empty one");
    joined_.assign(left).append(right);
    numbered_.push_back(
        {{token(left, number), token(right, number), token(joined_, number)}, number});
  }

  [[noreturn]] void refuse(std::size_t number, const std::string& expected,
                           const std::string& found) const {
    fail(ExitCode::model_files, {.what = fmt::format("{} {}", unit_, number),
                                 .expected = expected,
                                 .found = found,
                                 .where = where_});
  }

  std::vector<MergeRule> take() {
    refuse_equal_pairs();
    std::vector<MergeRule> rules;
    rules.reserve(numbered_.size());
    for (const Numbered& n : numbered_) rules.push_back(n.rule);
    return rules;
  }

 private:
  struct Numbered {
    MergeRule rule;
    std::size_t number;
  };

  std::int32_t token(std::string_view text, std::size_t number) const {
    const auto id = vocab_.find(text);
    if (!id)
      refuse(number, "a merge of tokens", in_quotes(text) + ", which the vocabulary has not");
    return *id;
  }

  void refuse_equal_pairs() const {
    std::vector<std::pair<std::uint64_t, std::size_t>> pairs;
    pairs.reserve(numbered_.size());
    for (const auto& [rule, number] : numbered_) {
      pairs.emplace_back(std::uint64_t(rule.left) << 32 | std::uint64_t(rule.right), number);
    }
    std::sort(pairs.begin(), pairs.end());
    const auto twice = std::adjacent_find(pairs.begin(), pairs.end(),
                                          [](auto& a, auto& b) { return a.first == b.first; });
    if (twice == pairs.end()) return;
    refuse(std::next(twice)->second, "a new merge",
           fmt::format("that of {} {} again", unit_, twice->second));
  }

  const Vocab& vocab_;
  const std::string& where_;
  const std::string unit_;
  std::vector<Numbered> numbered_;
  std::string joined_;
};

// The first line of `text`, which loses it, without its end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::vector<MergeRule> parse_merges_text(std::string_view text, const Vocab& vocab,
                                         const std::string& where) {
  const std::size_t last = text.find_last_not_of("\r\n");  // neither is part of a token's spelling
  text = last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
  MergeList list(vocab, where, "line");
  list.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (number == 1 && line.starts_with("#version")) continue;
    list.add_spelled(line, number);
  }
  return list.take();
}

std::vector<MergeRule> parse_merges_json(const nlohmann::json& merges, const Vocab& vocab,
                                         const std::string& where) {
  MergeList list(vocab, where, "merge");
  if (!merges.is_array()) {
    fail(ExitCode::model_files,
         {.what = "merges", .expected = "an array", .found = merges.type_name(), .where = where});
  }
  list.reserve(merges.size());
  for (std::size_t number = 1; number <= merges.size(); ++number) {
    const nlohmann::json& merge = merges[number - 1];
    if (merge.is_string()) {
      list.add_spelled(merge.get_ref<const std::string&>(), number);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      list.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
               number);
    } else {
      list.refuse(number, "\"left right\" or [\"left\", \"right\"]", merge.type_name());
    }
  }
  return list.take();
}

}  // namespace shardlm
