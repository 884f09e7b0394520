// YAML files of people: read whole, checked for what yaml-cpp lets pass, refused with file and
// line.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace shardlm {

/// ":7", or nothing where the place is not known.
std::string line_of(const YAML::Mark& mark);

/// The one document of a file, null if there is none. Error(usage) for a file that cannot be read
/// (named as `name`: "--config FILE") or is above 1 MiB, for broken YAML and for a second document.
YAML::Node read_yaml(const std::string& path, const std::string& name);
/// The same of the file's bytes.
YAML::Node parse_yaml(const std::string& bytes, const std::string& path);

/// What stands there, for messages: "a list", "'seven'".
std::string type_text(const YAML::Node& node);

/// Calls `visit` for each entry of a map. Error(usage) if `map` is none (`what` names it,
/// `expected` says what its keys are), if a key is no text, and if a key comes twice.
using VisitYaml =
    std::function<void(const std::string& key, const YAML::Mark& mark, const YAML::Node& value)>;
void each_key(const std::string& path, const YAML::Node& map, const std::string& what,
              const std::string& expected, const VisitYaml& visit);

/// "study.yaml:7: key"
std::string place_of(const std::string& path, const std::string& key, const YAML::Mark& mark);

/// A path as a file says it: a relative one starts at the file's own folder.
std::string path_beside(const std::string& file, const std::string& path);

/// Error(usage) for a key that nobody knows, with the nearest known name; `owner`: " of repeat".
[[noreturn]] void refuse_key(const std::string& path, const std::string& key,
                             const YAML::Mark& mark, std::span<const std::string> known,
                             const std::string& owner);

}  // namespace shardlm
