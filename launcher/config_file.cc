#include "launcher/config_file.h"

#include "base/error.h"
#include "io/printable.h"
#include "launcher/nearest_name.h"
#include "launcher/yaml_document.h"

namespace shardlm {
namespace {

constexpr const char* kKeys = "a map of option names and values";

std::string expected_value(const OptionSpec& option) {
  switch (option.kind) {
    case ValueKind::switch_:
      return "true or false";
    case ValueKind::number:
      return "a number";
    case ValueKind::ids:
      return "a list of token ids";
    case ValueKind::list:
      return "a value or a list of values";
    case ValueKind::path:
      return option.values == 2 ? "a list of two paths" : "a path";
    case ValueKind::text:
      return option.repeats ? "a text or a list of texts" : "a text";
    default:
      return "one of " + option.value;
  }
}

// The values of one key, as words that the option's store() understands.
class Values {
 public:
  Values(const OptionSpec& option, const YAML::Node& node, std::string path, std::string where)
      : option_(option), node_(node), path_(std::move(path)), where_(std::move(where)) {}

  std::vector<std::vector<std::string>> read() const {
    std::vector<std::vector<std::string>> all;
    if (!node_.IsSequence()) return {{word(node_)}};
    if (option_.kind == ValueKind::ids) return id_lists();
    if (option_.kind == ValueKind::list) return {{joined(node_)}};
    if (option_.values == 2) {
      if (node_.size() != 2) refuse(node_);
      return {{word(node_[0]), word(node_[1])}};
    }
    if (!option_.repeats) refuse(node_);
    for (const YAML::Node& item : node_) all.push_back({word(item)});
    return all;
  }

 private:
  // A list of ids is one sequence, a list of lists one sequence each.
  std::vector<std::vector<std::string>> id_lists() const {
    const bool nested = option_.repeats && node_.size() > 0 && node_[0].IsSequence();
    if (!nested) return {{joined(node_)}};
    std::vector<std::vector<std::string>> all;
    for (const YAML::Node& list : node_) {
      if (!list.IsSequence()) refuse(list);
      all.push_back({joined(list)});
    }
    return all;
  }

  std::string joined(const YAML::Node& list) const {
    std::string ids;
    for (const YAML::Node& id : list) {
      if (!id.IsScalar() || id.Tag() == "!") refuse(id);
      ids += (ids.empty() ? "" : ",") + id.Scalar();
    }
    return ids;
  }

  std::string word(const YAML::Node& node) const {
    if (!node.IsScalar()) refuse(node);
    const bool plain = option_.kind == ValueKind::number || option_.kind == ValueKind::switch_;
    if (plain && node.Tag() == "!") refuse(node);
    const std::string& text = node.Scalar();
    if (option_.kind != ValueKind::path || text.empty() || text == "-") return text;
    return path_beside(path_, text);
  }

  [[noreturn]] void refuse(const YAML::Node& node) const {
    fail(ExitCode::usage,
         {.expected = expected_value(option_), .found = type_text(node), .where = where_});
  }

  const OptionSpec& option_;
  const YAML::Node& node_;
  std::string path_, where_;
};

class Reader {
 public:
  Reader(const std::string& path, std::span<const CommandTable> tables, const CommandTable& table)
      : path_(path), tables_(tables), table_(table), scratch_tables_(command_tables(scratch_)) {}

  ConfigFile read() {
    const YAML::Node root = read_yaml(path_, "--config " + path_);
    if (root.IsNull()) return {};
    each_key(path_, root, "the file", kKeys,
             [this](const std::string& key, const YAML::Mark& mark, const YAML::Node& value) {
               top_key(key, mark, value);
             });
    return std::move(file_);
  }

 private:
  // comm: {transport: shm, allreduce: ring} says the same as comm: shm and allreduce: ring.
  template <typename Visit>
  void each_in_comm(const YAML::Mark& mark, const YAML::Node& map, Visit visit) {
    each_key(path_, map, place("comm", mark), kKeys,
             [&](const std::string& key, const YAML::Mark& at, const YAML::Node& value) {
               const std::string name = key == "transport" ? "comm" : key;
               const OptionSpec* option = find_option(*find_command(tables_, "generate"), name);
               if (key == "comm" || option == nullptr || !of_communication(*option))
                 refuse_key(key, at, communication_names(), " of comm");
               visit(name, at, value);
             });
  }

  static bool of_communication(const OptionSpec& option) {
    return option.name == "comm" || option.name == "reduction" ||
           option.section.starts_with("Communication");
  }

  std::vector<std::string> communication_names() const {
    std::vector<std::string> names = {"transport"};
    for (const OptionSpec& option : find_command(tables_, "generate")->options) {
      if (of_communication(option) && option.name != "comm") names.push_back(option.name);
    }
    return names;
  }

  void top_key(const std::string& key, const YAML::Mark& mark, const YAML::Node& value) {
    if (key == "comm" && value.IsMap()) {
      return each_in_comm(mark, value, [this](const auto& name, const auto& at, const auto& node) {
        top_key(name, at, node);
      });
    }
    if (find_command(tables_, key)) return section(key, mark, value);
    if (find_option(table_, key)) {
      check_only(table_.name, key, mark, value);
      return add(table_, key, mark, value, file_.top);
    }
    std::vector<std::string> known;
    for (const CommandTable& other : tables_) {
      if (find_option(other, key)) {
        check_only(other.name, key, mark, value);
        file_.unused.push_back(key);
        return;
      }
      const std::vector<std::string> names = option_names(other);
      known.insert(known.end(), names.begin(), names.end());
    }
    for (const CommandTable& other : tables_) known.push_back(other.name);
    refuse_key(key, mark, known, "");
  }

  void section(const std::string& name, const YAML::Mark& mark, const YAML::Node& map) {
    if (map.IsNull()) return;
    const CommandTable& table = *find_command(tables_, name);
    each_key(path_, map, place(name, mark), kKeys,
             [&](const std::string& key, const YAML::Mark& at, const YAML::Node& value) {
               section_key(table, key, at, value);
             });
  }

  void section_key(const CommandTable& table, const std::string& key, const YAML::Mark& at,
                   const YAML::Node& value) {
    if (key == "comm" && value.IsMap()) {
      return each_in_comm(at, value, [&](const auto& name, const auto& mark, const auto& node) {
        section_key(table, name, mark, node);
      });
    }
    if (!find_option(table, key)) refuse_key(key, at, option_names(table), " of " + table.name);
    check_only(table.name, key, at, value);
    if (table.name == table_.name) add(table_, key, at, value, file_.section);
  }

  void add(const CommandTable& table, const std::string& key, const YAML::Mark& mark,
           const YAML::Node& value, std::vector<Assignment>& to) {
    const OptionSpec& option = *find_option(table, key);
    const std::string where = place(key, mark);
    if (key == "config") {
      fail(ExitCode::usage, {.what = "a file cannot name a further file", .where = where});
    }
    for (std::vector<std::string>& words : Values(option, value, path_, where).read()) {
      to.push_back({&option, std::move(words), where});
    }
  }

  // A value that is overridden, or of no use to this run, must be right all the same.
  void check_only(const std::string& command, const std::string& key, const YAML::Mark& mark,
                  const YAML::Node& value) {
    std::vector<Assignment> assignments;
    add(*find_command(scratch_tables_, command), key, mark, value, assignments);
    for (const Assignment& each : assignments) each.option->store(each.words, each.where);
  }

  [[noreturn]] void refuse_key(const std::string& key, const YAML::Mark& mark,
                               const std::vector<std::string>& known, const std::string& owner) {
    if (key != "no-stream") shardlm::refuse_key(path_, key, mark, known, owner);
    fail(ExitCode::usage, {.what = "unknown key " + key + owner,
                           .where = path_ + line_of(mark),
                           .remedy = "write stream: false"});
  }

  std::string place(const std::string& key, const YAML::Mark& mark) const {
    return place_of(path_, key, mark);
  }

  std::string path_;
  std::span<const CommandTable> tables_;
  const CommandTable& table_;
  CommandSet scratch_;  // takes values that are only checked
  std::vector<CommandTable> scratch_tables_;
  ConfigFile file_;
};

}  // namespace

ConfigFile read_config_file(const std::string& path, std::span<const CommandTable> tables,
                            const CommandTable& table) {
  return Reader(path, tables, table).read();
}

}  // namespace shardlm
