#include "launcher/study_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/model_shape.h"
#include "launcher/nearest_name.h"
#include "launcher/options_layers.h"
#include "launcher/study_hosts.h"
#include "launcher/yaml_value.h"

namespace shardlm {
namespace {

constexpr IntegerRange kRanks{1, 1'000'000}, kNodes{1, 100'000}, kLaunches{1, 10'000};
constexpr IntegerRange kTimes{1, 1'000'000}, kWarmup{0, 1000}, kBytes{4, std::int64_t{1} << 30};
constexpr double kMostSeconds = 1e6;
constexpr std::size_t kMostLevels = 1000;

bool is_folder_name(const std::string& name) {
  return name != "." && name != ".." && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

class StudyReader {
 public:
  explicit StudyReader(const YamlValue& root) : root_(root), tables_(command_tables(scratch_)) {}

  StudySpec read() {
    root_.map("", {{"study", [this](const YamlValue& v) { read_name(v); }},
                   {"model", [this](const YamlValue& v) { read_model(v); }},
                   {"factors", [this](const YamlValue& v) { read_factors(v); }},
                   {"design", [this](const YamlValue& v) { design_ = v; }},  // knows factors
                   {"coll", [this](const YamlValue& v) { read_coll(v); }},
                   {"calibrate", [this](const YamlValue& v) { read_calibrate(v); }},
                   {"predict", [this](const YamlValue& v) { read_predict(v); }},
                   {"repeat", [this](const YamlValue& v) { read_repeat(v); }},
                   {"launch", [this](const YamlValue& v) { read_launch(v); }},
                   {"budget", [this](const YamlValue& v) { read_budget(v); }},
                   {"output", [this](const YamlValue& v) { read_output(v); }}});
    if (design_) read_design(*design_);
    check_whole();
    return std::move(spec_);
  }

 private:
  void read_name(const YamlValue& v) {
    spec_.name = v.text();
    if (!is_folder_name(spec_.name)) {
      v.refuse("a name of letters, digits, '-', '_' and '.', which a folder can have",
               in_quotes(spec_.name));
    }
  }

  void read_model(const YamlValue& v) {
    v.map(" of model", {{"path", [this](const YamlValue& p) { spec_.model = p.file_path(); }},
                        {"shape", [this](const YamlValue& s) {
                           spec_.shape = s.text("a shape");
                           parse_shape(spec_.shape, s.where());
                         }}});
    if (spec_.model.empty() == spec_.shape.empty()) {
      v.refuse("either path or shape", spec_.model.empty() ? "neither" : "both");
    }
  }

  void read_factors(const YamlValue& v) {
    v.each("a map of factors and their levels",
           [this](const std::string& name, const YamlValue& levels) {
             if (std::ranges::find(factor_names(), name) == factor_names().end()) {
               fail(ExitCode::usage, {.what = "unknown factor " + printable(name),
                                      .where = levels.where(),
                                      .remedy = suggestion(name, factor_names(), "")});
             }
             spec_.factors.push_back({name, read_levels(name, levels)});
           });
  }

  std::vector<std::string> read_levels(const std::string& name, const YamlValue& v) {
    std::vector<std::string> levels;
    for (const YamlValue& item : v.list("a level or a list of levels", /*or_one=*/true)) {
      std::string level = checked_level(name, item);
      if (std::ranges::find(levels, level) != levels.end()) {
        v.refuse("each level once", level + " twice");
      }
      levels.push_back(std::move(level));
    }
    if (levels.size() > kMostLevels) {
      v.refuse(fmt::format("at most {} levels", kMostLevels), std::to_string(levels.size()));
    }
    return levels;
  }

  // A level is what bench takes: its own option reads it.
  std::string checked_level(const std::string& name, const YamlValue& v) {
    if (name == "ranks") return std::to_string(v.integer(kRanks));
    if (name == "nodes") return std::to_string(v.integer(kNodes));
    std::string level = v.text("a level of " + name);
    if (name == "emulate" && level == "none") return level;
    const OptionSpec* option = find_option(*find_command(tables_, "bench"), name);
    check(option != nullptr, "a factor is an option of bench");
    if (option->kind == ValueKind::list && level.find(',') != std::string::npos) {
      v.refuse("one value a level (several make a list: [1, 2])", in_quotes(level));
    }
    option->store(std::span(&level, 1), v.where());
    if (name == "shape") parse_shape(level, v.where());
    if (option->kind == ValueKind::list && level.find_first_not_of("0123456789") == level.npos) {
      level = std::to_string(parse_integer(level, v.where(), {}));
    }
    return level;
  }

  const Factor& known_factor(const std::string& name, const YamlValue& v) const {
    std::vector<std::string> names;
    for (const Factor& factor : spec_.factors) {
      if (factor.name == name) return factor;
      names.push_back(factor.name);
    }
    fail(ExitCode::usage, {.what = printable(name) + " is no factor of this study",
                           .where = v.where(),
                           .remedy = suggestion(name, names, "")});
  }

  void read_design(const YamlValue& v) {
    v.map(" of design",
          {{"kind",
            [this](const YamlValue& k) {
              spec_.design.kind = static_cast<Design::Kind>(k.choice({"crossed", "one-at-a-time"}));
            }},
           {"around", [this](const YamlValue& a) { read_around(a); }},
           {"full", [this](const YamlValue& f) { spec_.design.full = read_groups(f); }},
           {"paired", [this](const YamlValue& p) { read_paired(p); }}});
    const bool crossed = spec_.design.kind == Design::Kind::crossed;
    if (crossed && !(spec_.design.around.empty() && spec_.design.full.empty())) {
      v.refuse("kind: one-at-a-time beside around and full", "kind: crossed");
    }
  }

  void read_around(const YamlValue& v) {
    v.each("a map of factors and one level each", [this](const std::string& name,
                                                         const YamlValue& level) {
      const Factor& factor = known_factor(name, level);
      const std::string value = checked_level(name, level);
      if (std::ranges::find(factor.levels, value) == factor.levels.end()) {
        level.refuse(fmt::format("a level of {}: {}", name, fmt::join(factor.levels, ", ")), value);
      }
      spec_.design.around[name] = value;
    });
  }

  std::vector<std::vector<std::string>> read_groups(const YamlValue& v) const {
    std::vector<std::vector<std::string>> groups;
    for (const YamlValue& item : v.list("a list of lists of factors")) {
      std::vector<std::string> group = item.texts("a list of factors");
      for (const std::string& name : group) known_factor(name, item);
      groups.push_back(std::move(group));
    }
    return groups;
  }

  void read_paired(const YamlValue& v) {
    spec_.design.paired = read_groups(v);
    std::set<std::string> seen;
    for (const auto& group : spec_.design.paired) {
      for (const std::string& name : group) {
        if (!seen.insert(name).second) v.refuse("each factor once", name + " twice");
        const std::size_t n = known_factor(name, v).levels.size();
        const std::size_t first = known_factor(group[0], v).levels.size();
        if (n == first) continue;
        v.refuse("factors with as many levels as each other",
                 fmt::format("{} of {} and {} of {}", first, group[0], n, name));
      }
    }
  }

  void read_coll(const YamlValue& v) {
    CollSpec& coll = spec_.coll.emplace();
    if (v.is_null()) return;
    v.map(
        " of coll",
        {{"bytes",
          [&coll](const YamlValue& b) {
            for (const YamlValue& item : b.list("a list of sizes", true))
              coll.bytes.push_back(item.integer(kBytes));
          }},
         {"algorithms",
          [&coll](const YamlValue& a) { coll.algorithms = a.texts("a list of algorithms", true); }},
         {"max_seconds",
          [&coll](const YamlValue& s) { coll.max_seconds = s.real(1e-3, kMostSeconds); }}});
  }

  void read_calibrate(const YamlValue& v) {
    spec_.calibrate = v.is_map() || v.flag();
    if (!v.is_map()) return;
    v.map(" of calibrate", {{"seconds", [this](const YamlValue& s) {
                               spec_.calibrate_seconds = s.real(1e-3, kMostSeconds);
                             }}});
  }

  void read_predict(const YamlValue& v) {
    spec_.predict = v.flag();
    if (spec_.predict) predict_ = v;
  }

  void read_repeat(const YamlValue& v) {
    RepeatSpec& r = spec_.repeat;
    v.map(
        " of repeat",
        {{"launches",
          [&r](const YamlValue& n) { r.launches = static_cast<int>(n.integer(kLaunches)); }},
         {"repetitions", [&r](const YamlValue& n) { r.repetitions = n.integer(kTimes); }},
         {"warmup", [&r](const YamlValue& n) { r.warmup = n.integer(kWarmup); }},
         {"most", [&r](const YamlValue& n) { r.most = n.integer(kTimes); }},
         {"ci_width", [&r](const YamlValue& x) { r.ci_width = x.real(1e-6, 1); }},
         {"max_seconds", [&r](const YamlValue& x) { r.max_seconds = x.real(1e-3, kMostSeconds); }},
         {"order",
          [&r](const YamlValue& o) {
            r.random = o.choice({"random", "as-written"}) == 0;
          }},
         {"seed", [&r](const YamlValue& n) { r.seed = n.seed(); }}});
  }

  void read_launch(const YamlValue& v) {
    LaunchSpec& l = spec_.launch;
    bool hosts = false, file = false;
    v.map(" of launch",
          {{"by",
            [&l](const YamlValue& b) {
              l.by = static_cast<LaunchSpec::By>(b.choice({"mpirun", "srun", "command"}));
            }},
           {"command", [&l](const YamlValue& c) { l.command = c.text("a command"); }},
           {"options", [&l](const YamlValue& o) { l.options = o.texts("a list of words", true); }},
           {"hosts",
            [&](const YamlValue& h) {
              hosts = true;
              l.hosts.clear();
              for (const std::string& host : h.texts("a list of hosts (name, or name:slots)", true))
                l.hosts.push_back(parse_host(host, h.where()));
            }},
           {"hostfile",
            [&](const YamlValue& f) {
              file = true;
              l.hosts = read_hostfile(f.file_path(), f.where());
            }},
           {"env",
            [&l](const YamlValue& e) {
              e.each("a map of variables", [&l](const std::string& name, const YamlValue& value) {
                if (name.empty() || name.find('=') != std::string::npos)
                  value.refuse("the name of a variable", in_quotes(name));
                l.env[name] = value.text();
              });
            }},
           {"timeout_s", [&l](const YamlValue& t) { l.timeout_s = t.real(0.1, kMostSeconds); }},
           {"slots", [&l](const YamlValue& n) { l.slots = static_cast<int>(n.integer(kRanks)); }},
           {"program", [&l](const YamlValue& p) { l.program = p.file_path(); }}});
    if (hosts && file) v.refuse("either hosts or hostfile", "both");
    const bool command = l.by == LaunchSpec::By::command;
    if (command == l.command.empty()) {
      v.refuse("by: command and command: TEXT together", "one of them");
    }
    if (command && !l.options.empty()) v.refuse("no options beside a command", "both");
  }

  void read_budget(const YamlValue& v) {
    v.map(" of budget", {{"minutes", [this](const YamlValue& m) {
                            spec_.budget_minutes = m.real(0.01, kMostSeconds);
                          }}});
  }

  void read_output(const YamlValue& v) {
    if (!v.is_map()) {
      spec_.output_dir = v.file_path();
      return;
    }
    v.map(" of output", {{"dir", [this](const YamlValue& d) { spec_.output_dir = d.file_path(); }},
                         {"report", [this](const YamlValue& r) { spec_.report = r.flag(); }}});
  }

  void check_whole() {
    const auto missing = [this](const std::string& key) { root_.refuse("the key " + key, "none"); };
    if (spec_.name.empty()) missing("study");
    const bool shapes = std::ranges::any_of(
        spec_.factors, [](const Factor& factor) { return factor.name == "shape"; });
    if (shapes && !spec_.model.empty()) root_.refuse("model: {path} or the factor shape", "both");
    if (spec_.model.empty() && spec_.shape.empty() && !shapes) missing("model");
    if (spec_.factors.empty()) missing("factors");
    if (predict_ && !spec_.calibrate) {
      predict_->refuse("calibrate: true beside it, since predictions are made of calibrations",
                       "calibrate: false");
    }
  }

  const YamlValue& root_;
  StudySpec spec_;
  std::optional<YamlValue> design_, predict_;
  CommandSet scratch_;  // takes levels that are only checked
  std::vector<CommandTable> tables_;
};

StudySpec spec_of(const YAML::Node& node, const std::string& path) {
  const YamlValue root(node, path, path);
  return StudyReader(root).read();
}

}  // namespace

StudySpec read_study_file(const std::string& path) { return spec_of(read_yaml(path, path), path); }

StudySpec parse_study(const std::string& bytes, const std::string& path) {
  return spec_of(parse_yaml(bytes, path), path);
}

}  // namespace shardlm
