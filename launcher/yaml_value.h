// One value of a YAML file that has a schema of its own, read as what it has to be.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/options_values.h"
#include "launcher/yaml_document.h"

namespace shardlm {

/// A value and its place. Each reader is an Error(usage) with the place if it is something else.
class YamlValue {
 public:
  YamlValue(YAML::Node node, std::string path, std::string where)
      : node_(std::move(node)), path_(std::move(path)), where_(std::move(where)) {}

  /// Not empty.
  std::string text(const std::string& expected = "a text") const;
  std::string file_path() const;  ///< absolute, or beside the file
  std::int64_t integer(IntegerRange range) const;
  double real(double least, double most) const;
  std::uint64_t seed() const;
  bool flag() const;
  /// One of them; its place among them.
  std::size_t choice(const std::vector<std::string>& choices) const;

  /// The items of a list that is not empty; with `or_one` a value that is no list is one item.
  std::vector<YamlValue> list(const std::string& expected, bool or_one = false) const;
  std::vector<std::string> texts(const std::string& expected, bool or_one = false) const;

  /// A map of known keys; `owner` (" of repeat") stands in the messages.
  using Readers = std::vector<std::pair<std::string, std::function<void(const YamlValue&)>>>;
  void map(const std::string& owner, const Readers& readers) const;
  /// A map of any keys.
  void each(const std::string& expected,
            const std::function<void(const std::string&, const YamlValue&)>& visit) const;

  bool is_map() const { return node_.IsMap(); }
  bool is_null() const { return node_.IsNull(); }
  const std::string& where() const { return where_; }
  [[noreturn]] void refuse(const std::string& expected) const;
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const;

 private:
  YAML::Node node_;
  std::string path_, where_;
};

}  // namespace shardlm
