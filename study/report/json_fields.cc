#include "study/report/json_fields.h"

#include <cmath>

namespace shardlm::report {

const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::optional<double> number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number()) return std::nullopt;
  const auto v = value.get<double>();
  if (!std::isfinite(v)) return std::nullopt;
  return v;
}

std::optional<double> positive(const Json& object, const char* key) {
  const auto v = number(object, key);
  return v && *v > 0 ? v : std::nullopt;
}

std::optional<int> count(const Json& object, const char* key) {
  const auto v = number(object, key);
  if (!v || *v < 1 || *v > 1e6 || *v != std::floor(*v)) return std::nullopt;
  return static_cast<int>(*v);
}

bool flag(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return {};
}

std::string text(const Json& object, const char* key) { return text_of(member(object, key)); }

std::vector<double> numbers(const Json& object, const char* key) {
  std::vector<double> all;
  const Json& value = member(object, key);
  if (!value.is_array()) return all;
  for (const Json& v : value) {
    if (!v.is_number()) continue;
    const auto x = v.get<double>();
    if (std::isfinite(x)) all.push_back(x);
  }
  return all;
}

}  // namespace shardlm::report
