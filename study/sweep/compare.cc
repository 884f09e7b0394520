#include "study/sweep/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;
using Key = std::tuple<std::string, Factors, std::string>;  // kind, factors, test

std::string text_of(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

std::string test_of(const std::string& kind, const Json& result) {
  if (kind != "coll") return text_of(result, "test");
  std::string text = text_of(result, "op") + " " + text_of(result, "algorithm") + " " +
                     text_of(result, "bytes") + " B";
  for (const char* key : {"mode", "buffers"}) {
    if (result.contains(key)) text += " " + text_of(result, key);
  }
  return text;
}

const char* metric_of(const std::string& kind) {
  return kind == "coll" ? "t_p50_us" : "tokens_per_s";
}

struct Measured {
  std::map<Key, std::vector<double>> medians;  // one a launch
  std::map<std::string, std::string> environment;
  std::set<int> methods;
};

Measured measured_of(const StudyRecords& study) {
  Measured all;
  all.methods.insert(study.plan.method_version);
  for (const Json& launch : study.launches) {
    if (text_of(launch, "status") != "ok" || !launch.contains("results")) continue;
    const std::string kind = text_of(launch, "kind");
    const Factors factors = launch.value("factors", Json::object()).get<Factors>();
    for (const Json& result : launch.at("results")) {
      if (result.value("method_version", Json()).is_number_integer()) {
        all.methods.insert(result.at("method_version").get<int>());
      }
      const Json value = result.value(metric_of(kind), Json());
      if (!value.is_number()) continue;
      all.medians[{kind, factors, test_of(kind, result)}].push_back(value.get<double>());
      if (!all.environment.empty()) continue;
      const Json environment = result.value("environment", Json::object());
      for (const auto& [key, fact] : environment.items()) {
        all.environment[key] = fact.is_string() ? fact.get<std::string>() : fact.dump();
      }
    }
  }
  return all;
}

void refuse_other_methods(const StudyRecords& a, const Measured& of_a, const StudyRecords& b,
                          const Measured& of_b) {
  if (of_a.methods == of_b.methods && of_a.methods.size() == 1) return;
  const auto text = [](const std::set<int>& methods) {
    return fmt::format("{}", fmt::join(methods, ", "));
  };
  fail(ExitCode::usage, {.what = "measured by different methods, which cannot be compared",
                         .expected = "one method_version",
                         .found = fmt::format("{} in {}, {} in {}", text(of_a.methods), a.name,
                                              text(of_b.methods), b.name),
                         .remedy = "measure the older one again with this program"});
}

std::vector<std::string> differing_machines(const Measured& a, const Measured& b) {
  constexpr std::array kMachine = {"host", "cpu",        "cores",    "kernel",   "governor",
                                   "mpi",  "build_type", "compiler", "cxx_flags"};
  std::vector<std::string> warnings;
  for (const char* key : kMachine) {
    const auto of_a = a.environment.find(key), of_b = b.environment.find(key);
    if (of_a == a.environment.end() || of_b == b.environment.end()) continue;
    if (of_a->second == of_b->second) continue;
    warnings.push_back(fmt::format("{} differs: {} and {}", key, of_a->second, of_b->second));
  }
  return warnings;
}

Verdict verdict_of(const ComparedTest& test, bool more_is_faster) {
  if (test.a.launches < 2 || test.b.launches < 2) return Verdict::unknown;
  if (test.b.low > test.a.high) return more_is_faster ? Verdict::faster : Verdict::slower;
  if (test.b.high < test.a.low) return more_is_faster ? Verdict::slower : Verdict::faster;
  return Verdict::no_difference;
}

std::string key_text(const Key& key) {
  const auto& [kind, factors, test] = key;
  return fmt::format("{} {} {}", kind, factors_text(factors), test);
}

}  // namespace

std::string name(Verdict verdict) {
  constexpr std::array kNames = {"faster", "slower", "no difference", "unknown"};
  return kNames[static_cast<std::size_t>(verdict)];
}

StudyComparison compare_studies(const StudyRecords& a, const StudyRecords& b) {
  const Measured of_a = measured_of(a), of_b = measured_of(b);
  refuse_other_methods(a, of_a, b, of_b);
  StudyComparison all;
  all.warnings = differing_machines(of_a, of_b);
  for (const auto& [key, medians] : of_a.medians) {
    const auto other = of_b.medians.find(key);
    if (other == of_b.medians.end()) {
      all.only_a.push_back(key_text(key));
      continue;
    }
    const auto& [kind, factors, test] = key;
    ComparedTest row{kind,
                     factors,
                     test,
                     metric_of(kind),
                     launch_interval(medians),
                     launch_interval(other->second)};
    const bool more_is_faster = kind != "coll";
    row.ratio = more_is_faster ? row.b.middle / row.a.middle : row.a.middle / row.b.middle;
    row.verdict = verdict_of(row, more_is_faster);
    all.tests.push_back(std::move(row));
  }
  for (const auto& [key, medians] : of_b.medians) {
    if (!of_a.medians.contains(key)) all.only_b.push_back(key_text(key));
  }
  return all;
}

}  // namespace shardlm
