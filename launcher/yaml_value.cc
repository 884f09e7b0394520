#include "launcher/yaml_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "launcher/options_kinds.h"

namespace shardlm {

void YamlValue::refuse(const std::string& expected) const { refuse(expected, type_text(node_)); }

void YamlValue::refuse(const std::string& expected, const std::string& found) const {
  fail(ExitCode::usage, {.expected = expected, .found = found, .where = where_});
}

std::string YamlValue::text(const std::string& expected) const {
  if (!node_.IsScalar() || node_.Scalar().empty()) refuse(expected);
  return node_.Scalar();
}

std::string YamlValue::file_path() const { return path_beside(path_, text("a path")); }

std::int64_t YamlValue::integer(IntegerRange range) const {
  return parse_integer(text("a whole number"), where_, range);
}

double YamlValue::real(double least, double most) const {
  const double value = parse_real(text("a number"), where_);
  if (value < least || value > most) {
    refuse(fmt::format("a number from {} to {}", least, most), fmt::format("{}", value));
  }
  return value;
}

std::uint64_t YamlValue::seed() const { return parse_unsigned(text("a whole number"), where_); }

bool YamlValue::flag() const { return parse_switch(text("true or false"), where_); }

std::size_t YamlValue::choice(const std::vector<std::string>& choices) const {
  return parse_choice(text(fmt::format("one of {}", fmt::join(choices, ", "))), choices, where_);
}

std::vector<YamlValue> YamlValue::list(const std::string& expected, bool or_one) const {
  if (node_.IsScalar() && or_one) return {*this};
  if (!node_.IsSequence() || node_.size() == 0) refuse(expected);
  std::vector<YamlValue> items;
  for (const YAML::Node& item : node_) items.emplace_back(item, path_, where_);
  return items;
}

std::vector<std::string> YamlValue::texts(const std::string& expected, bool or_one) const {
  std::vector<std::string> all;
  for (const YamlValue& item : list(expected, or_one)) all.push_back(item.text(expected));
  return all;
}

void YamlValue::each(const std::string& expected,
                     const std::function<void(const std::string&, const YamlValue&)>& visit) const {
  if (!node_.IsMap()) refuse(expected);
  each_key(path_, node_, where_, expected,
           [&](const std::string& key, const YAML::Mark& mark, const YAML::Node& value) {
             visit(key, YamlValue(value, path_, place_of(path_, key, mark)));
           });
}

void YamlValue::map(const std::string& owner, const Readers& readers) const {
  std::vector<std::string> known;
  for (const auto& reader : readers) known.push_back(reader.first);
  const std::string expected = fmt::format("a map of {}", fmt::join(known, ", "));
  if (!node_.IsMap()) refuse(expected);
  each_key(path_, node_, where_, expected,
           [&](const std::string& key, const YAML::Mark& mark, const YAML::Node& value) {
             const auto reader =
                 std::ranges::find_if(readers, [&](const auto& r) { return r.first == key; });
             if (reader == readers.end()) refuse_key(path_, key, mark, known, owner);
             reader->second(YamlValue(value, path_, place_of(path_, key, mark)));
           });
}

}  // namespace shardlm
