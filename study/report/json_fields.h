// Fields of objects that may lack them or hold something else: a study's files may come from
// another version, or be broken.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace shardlm::report {

using Json = nlohmann::ordered_json;

/// The member, or null: of what is no object too.
const Json& member(const Json& object, const char* key);
std::optional<double> number(const Json& object, const char* key);  ///< finite
/// Finite and above 0.
std::optional<double> positive(const Json& object, const char* key);
/// A whole number in 1..a million.
std::optional<int> count(const Json& object, const char* key);
bool flag(const Json& object, const char* key);
/// Strings as they are, numbers and truth values as JSON has them; empty of anything else.
std::string text(const Json& object, const char* key);
std::string text_of(const Json& value);
std::vector<double> numbers(const Json& object,
                            const char* key);  ///< those elements that are finite

}  // namespace shardlm::report
