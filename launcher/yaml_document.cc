#include "launcher/yaml_document.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/nearest_name.h"

namespace shardlm {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;  // bytes; a model given as --config is no YAML

std::string read_bytes(const std::string& path, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    fail(ExitCode::usage, {.what = what, .where = name});
  };
  if (std::filesystem::is_directory(path)) refuse("is a folder, not a YAML file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot be opened");
  std::string bytes(kLargestFile + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.bad()) refuse("cannot be read");
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  if (bytes.size() > kLargestFile) refuse("is larger than 1 MiB, so hardly a configuration");
  return bytes;
}

// yaml-cpp takes the end of the file for a missing closing quotation mark; an end of the document
// inside of one is an error to it.
void check_closed(const std::string& bytes, const std::string& path) {
  try {
    YAML::LoadAll(bytes + "\n...\n");
  } catch (const YAML::Exception& error) {
    fail(ExitCode::usage,
         {.what = "not valid YAML: a quotation mark is not closed before the end of the file",
          .where = path + line_of(error.mark)});
  }
}

}  // namespace

std::string line_of(const YAML::Mark& mark) {
  return mark.is_null() ? "" : fmt::format(":{}", mark.line + 1);
}

YAML::Node read_yaml(const std::string& path, const std::string& name) {
  return parse_yaml(read_bytes(path, name), path);
}

YAML::Node parse_yaml(const std::string& bytes, const std::string& path) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(bytes);
    check_closed(bytes, path);
    if (documents.size() > 1) {
      fail(ExitCode::usage, {.expected = "one YAML document",
                             .found = std::to_string(documents.size()),
                             .where = path + line_of(documents[1].Mark())});
    }
    return documents.empty() ? YAML::Node() : documents[0];
  } catch (const YAML::Exception& error) {
    fail(ExitCode::usage,
         {.what = "not valid YAML: " + error.msg, .where = path + line_of(error.mark)});
  }
}

std::string type_text(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a map";
    case YAML::NodeType::Scalar:
      return in_quotes(node.Scalar()) + (node.Tag() == "!" ? " in quotation marks" : "");
    default:
      return "nothing (put the word null in quotation marks if it is meant)";
  }
}

void each_key(const std::string& path, const YAML::Node& map, const std::string& what,
              const std::string& expected, const VisitYaml& visit) {
  if (!map.IsMap()) {
    fail(ExitCode::usage, {.what = what,
                           .expected = expected,
                           .found = type_text(map),
                           .where = path + line_of(map.Mark())});
  }
  std::map<std::string, int> lines;
  for (const auto& entry : map) {
    const YAML::Mark mark = entry.first.Mark();
    if (!entry.first.IsScalar()) {
      fail(ExitCode::usage,
           {.expected = "a name", .found = type_text(entry.first), .where = path + line_of(mark)});
    }
    const std::string& key = entry.first.Scalar();
    const auto [first, fresh] = lines.emplace(key, mark.line + 1);
    if (!fresh) {
      fail(ExitCode::usage, {.what = fmt::format("given twice, first in line {}", first->second),
                             .where = place_of(path, key, mark)});
    }
    visit(key, mark, entry.second);
  }
}

std::string place_of(const std::string& path, const std::string& key, const YAML::Mark& mark) {
  return path + line_of(mark) + ": " + printable(key);
}

std::string path_beside(const std::string& file, const std::string& path) {
  return (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
}

void refuse_key(const std::string& path, const std::string& key, const YAML::Mark& mark,
                std::span<const std::string> known, const std::string& owner) {
  fail(ExitCode::usage, {.what = "unknown key " + printable(key) + owner,
                         .where = path + line_of(mark),
                         .remedy = suggestion(key, known, "")});
}

}  // namespace shardlm
