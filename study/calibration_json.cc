// The file of `shardlm calibrate`, out and in. What comes in is somebody's file: every number is
// checked before it is used.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"
#include "study/calibration.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostEntries = 100'000;  // of any list
constexpr double kMostSeconds = 1e6;
constexpr double kMostCount = 1e15;

Json number(const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); }

Json json_of(const LinkClass& link) {
  Json object = {{"name", link.name},
                 {"transport", link.transport},
                 {"pairs", link.pairs},
                 {"hosts", link.hosts},
                 {"segments", Json::array()},
                 {"per_message_s", number(link.per_message_s)},
                 {"alpha_holds_one_message", link.alpha_holds_one_message},
                 {"fit_error", number(link.fit_error)},
                 {"points", Json::array()}};
  for (const LinkSegment& s : link.segments) {
    object["segments"].push_back({{"from", s.from_bytes},
                                  {"to", s.to_bytes},
                                  {"alpha_s", s.alpha_s},
                                  {"beta_s_per_byte", s.beta_s_per_byte}});
  }
  for (const LinkPoint& p : link.points) {
    object["points"].push_back(
        {{"bytes", p.bytes}, {"low_s", p.low_s}, {"median_s", p.median_s}, {"n", p.n}});
  }
  return object;
}

Json json_of(const ComputeFacts& facts) {
  Json object = {{"threads", facts.threads},
                 {"ranks_at_once", facts.ranks_at_once},
                 {"dtype", facts.dtype},
                 {"read", Json::array()},
                 {"matmul", Json::array()},
                 {"norm_row_s", facts.norm_row_s},
                 {"norm_s_per_element", facts.norm_s_per_element},
                 {"op_s", facts.op_s},
                 {"meetings_s", number(facts.meetings_s)},
                 {"node_memory_bytes", facts.node_memory_bytes}};
  for (const ReadRate& r : facts.read) {
    object["read"].push_back({{"bytes", r.bytes},
                              {"alone_gb_per_s", r.alone_gb_per_s},
                              {"all_gb_per_s", r.all_gb_per_s}});
  }
  for (const MatmulRate& r : facts.matmul) {
    object["matmul"].push_back({{"rows", r.rows},
                                {"bytes", r.bytes},
                                {"alone_gflop_per_s", r.alone_gflop_per_s},
                                {"all_gflop_per_s", r.all_gflop_per_s}});
  }
  return object;
}

/// One object of the file, with the path to it for messages.
class Part {
 public:
  Part(const nlohmann::json& value, std::string name, std::string file)
      : value_(value), name_(std::move(name)), file_(std::move(file)) {
    if (!value_.is_object()) refuse("an object", found(value_));
  }

  std::string text(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) refuse_key(key, "a text", value);
    return value.get<std::string>();
  }
  double real(const char* key, double least, double most) const {
    return real_of(key, at(key), least, most);
  }
  double positive(const char* key, double most) const {
    const double value = real(key, 0, most);
    if (value == 0) refuse_key(key, "a number above 0", at(key));
    return value;
  }
  std::optional<double> maybe(const char* key, double most) const {
    if (!value_.contains(key) || value_[key].is_null()) return std::nullopt;
    return real_of(key, value_[key], 0, most);
  }
  std::uint64_t whole(const char* key, double most = kMostCount) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_unsigned() || value.get<double>() > most)
      refuse_key(key, fmt::format("a whole number up to {:g}", most), value);
    return value.get<std::uint64_t>();
  }
  bool truth(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_boolean()) refuse_key(key, "true or false", value);
    return value.get<bool>();
  }
  bool has(const char* key) const { return value_.contains(key) && !value_[key].is_null(); }
  Part object(const char* key) const { return {at(key), name_of(key), file_}; }
  template <class F>
  void each(const char* key, F&& f) const {
    const nlohmann::json& list = at(key);
    if (!list.is_array() || list.size() > kMostEntries)
      refuse_key(key, fmt::format("a list of at most {}", kMostEntries), list);
    for (std::size_t i = 0; i < list.size(); ++i)
      f(Part(list[i], fmt::format("{}[{}]", name_of(key), i), file_));
  }
  std::vector<std::string> texts(const char* key) const {
    const nlohmann::json& list = at(key);
    if (!list.is_array() || list.size() > kMostEntries) refuse_key(key, "a list of texts", list);
    std::vector<std::string> all;
    for (const nlohmann::json& value : list) {
      if (!value.is_string()) refuse_key(key, "a list of texts", value);
      all.push_back(value.get<std::string>());
    }
    return all;
  }
  const nlohmann::json& value() const { return value_; }
  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    fail(ExitCode::usage, {.what = name_.empty() ? "calibration" : "calibration: " + name_,
                           .expected = expected,
                           .found = found,
                           .where = file_,
                           .remedy = "make it again: mpirun -n P shardlm calibrate --out FILE"});
  }

 private:
  static std::string found(const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return printable(text);
  }
  std::string name_of(const char* key) const {
    return name_.empty() ? key : fmt::format("{}.{}", name_, key);
  }
  [[noreturn]] void refuse_key(const char* key, const std::string& expected,
                               const nlohmann::json& value) const {
    Part(nlohmann::json::object(), name_of(key), file_).refuse(expected, found(value));
  }
  const nlohmann::json& at(const char* key) const {
    if (!value_.contains(key)) {
      Part(nlohmann::json::object(), name_of(key), file_).refuse("a value", "none");
    }
    return value_[key];
  }
  double real_of(const char* key, const nlohmann::json& value, double least, double most) const {
    if (!value.is_number()) refuse_key(key, "a number", value);
    const auto x = value.get<double>();
    if (!std::isfinite(x) || x < least || x > most)
      refuse_key(key, fmt::format("a number from {:g} to {:g}", least, most), value);
    return x;
  }

  nlohmann::json value_;
  std::string name_, file_;
};

LinkClass read_class(const Part& part) {
  LinkClass link;
  link.name = part.text("name");
  link.transport = part.text("transport");
  link.pairs = static_cast<int>(part.whole("pairs", 1e9));
  link.hosts = part.texts("hosts");
  link.per_message_s = part.maybe("per_message_s", kMostSeconds);
  link.alpha_holds_one_message =
      part.has("alpha_holds_one_message") && part.truth("alpha_holds_one_message");
  link.fit_error = part.maybe("fit_error", kMostCount);
  part.each("segments", [&](const Part& s) {
    const LinkSegment segment{s.whole("from"), s.whole("to"), s.real("alpha_s", 0, kMostSeconds),
                              s.real("beta_s_per_byte", 0, kMostSeconds)};
    if (!link.segments.empty() && segment.to_bytes <= link.segments.back().to_bytes)
      s.refuse("segments of ascending sizes", fmt::format("to {}", segment.to_bytes));
    link.segments.push_back(segment);
  });
  if (link.segments.empty()) part.refuse("a segment or more", "none");
  part.each("points", [&](const Part& p) {
    link.points.push_back({p.whole("bytes"), p.real("low_s", 0, kMostSeconds),
                           p.real("median_s", 0, kMostSeconds),
                           static_cast<std::int64_t>(p.whole("n"))});
  });
  return link;
}

ComputeFacts read_facts(const Part& part) {
  ComputeFacts facts;
  facts.threads = static_cast<int>(part.whole("threads", 1e6));
  facts.ranks_at_once = static_cast<int>(part.whole("ranks_at_once", 1e6));
  if (facts.threads < 1 || facts.ranks_at_once < 1) part.refuse("1 thread and rank or more", "0");
  facts.dtype = part.text("dtype");
  part.each("read", [&](const Part& r) {
    facts.read.push_back({r.whole("bytes"), r.positive("alone_gb_per_s", kMostCount),
                          r.positive("all_gb_per_s", kMostCount)});
  });
  part.each("matmul", [&](const Part& r) {
    const MatmulRate rate{static_cast<std::int64_t>(r.whole("rows")), r.whole("bytes"),
                          r.positive("alone_gflop_per_s", kMostCount),
                          r.positive("all_gflop_per_s", kMostCount)};
    if (rate.rows < 1 || rate.bytes < 1) r.refuse("a row and a byte or more", "0");
    facts.matmul.push_back(rate);
  });
  facts.norm_row_s = part.real("norm_row_s", 0, kMostSeconds);
  facts.norm_s_per_element = part.real("norm_s_per_element", 0, kMostSeconds);
  facts.op_s = part.real("op_s", 0, kMostSeconds);
  facts.meetings_s = part.maybe("meetings_s", kMostSeconds);
  facts.node_memory_bytes = part.whole("node_memory_bytes", 1e18);
  return facts;
}

}  // namespace

std::string calibration_text(const Calibration& c) {
  Json object = {{"format", kCalibrationFormat},
                 {"hash", c.hash},
                 {"environment", Json::object()},
                 {"ranks", c.ranks},
                 {"nodes", c.nodes},
                 {"emulate", c.emulate},
                 {"classes", Json::array()},
                 {"gamma", Json::array()}};
  for (const auto& [name, value] : c.environment) object["environment"][name] = value;
  for (const LinkClass& link : c.classes) object["classes"].push_back(json_of(link));
  for (const GammaClass& g : c.gamma) {
    object["gamma"].push_back(
        {{"to_bytes", g.to_bytes}, {"s_per_byte", g.s_per_byte}, {"level", g.level}});
  }
  if (c.compute) object["compute"] = json_of(*c.compute);
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Calibration read_calibration(const std::filesystem::path& path) {
  nlohmann::json value;
  try {
    value = read_json_file(path);
  } catch (const Error& error) {
    fail(ExitCode::usage, {.what = "calibration",
                           .expected = "a file of shardlm calibrate",
                           .found = error.what(),
                           .where = path.string()});
  }
  const Part file(value, "", path.string());
  if (const std::string format = file.text("format"); format != kCalibrationFormat)
    file.refuse(kCalibrationFormat, printable(format));
  Calibration c;
  c.source = "calibration " + path.string();
  c.hash = file.text("hash");
  const Part environment = file.object("environment");
  for (const auto& [name, text] : environment.value().items())
    c.environment.emplace_back(name, environment.text(name.c_str()));
  c.ranks = static_cast<int>(file.whole("ranks", 1e6));
  c.nodes = static_cast<int>(file.whole("nodes", 1e6));
  if (c.ranks < 1 || c.nodes < 1) file.refuse("1 rank and machine or more", "0");
  if (file.has("emulate")) c.emulate = file.text("emulate");
  file.each("classes", [&](const Part& part) { c.classes.push_back(read_class(part)); });
  file.each("gamma", [&](const Part& part) {
    c.gamma.push_back(
        {part.whole("to_bytes"), part.real("s_per_byte", 0, kMostSeconds), part.text("level")});
  });
  if (file.has("compute")) c.compute = read_facts(file.object("compute"));
  return c;
}

}  // namespace shardlm
