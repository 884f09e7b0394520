#include "study/report/launches.h"

#include <algorithm>

namespace shardlm::report {
namespace {

// The place of each cell in the plan.
std::map<std::string, std::size_t> plan_order(const StudyData& study) {
  std::map<std::string, std::size_t> order;
  const Json& cells = member(study.plan, "cells");
  if (!cells.is_array()) return order;
  for (const Json& cell : cells) order.emplace(text(cell, "id"), order.size());
  return order;
}

}  // namespace

std::map<std::string, std::string> factors_of(const Json& launch) {
  std::map<std::string, std::string> factors;
  const Json& object = member(launch, "factors");
  if (!object.is_object()) return factors;
  for (const auto& [name, value] : object.items()) factors.emplace(name, text_of(value));
  return factors;
}

std::string factors_text(const std::map<std::string, std::string>& factors) {
  std::string all;
  for (const auto& [name, value] : factors) all += (all.empty() ? "" : " ") + name + "=" + value;
  return all;
}

std::vector<LaunchResult> results_of(const StudyData& study, const std::string& schema) {
  std::map<std::pair<std::string, std::string>, const Json*> last;
  for (const Json& launch : study.launches) {
    if (text(launch, "status") != "ok" || text(launch, "cell").empty()) continue;
    last[{text(launch, "cell"), text(launch, "launch")}] = &launch;
  }
  std::vector<LaunchResult> all;
  for (const auto& [key, launch] : last) {
    const Json& results = member(*launch, "results");
    if (!results.is_array()) continue;
    for (const Json& result : results) {
      if (text(result, "schema").starts_with(schema))
        all.push_back({key.first, factors_of(*launch), &result});
    }
  }
  const auto order = plan_order(study);
  const auto place = [&](const LaunchResult& r) {
    const auto found = order.find(r.cell);
    return found == order.end() ? order.size() : found->second;
  };
  std::stable_sort(all.begin(), all.end(), [&](const LaunchResult& a, const LaunchResult& b) {
    return place(a) < place(b);
  });
  return all;
}

}  // namespace shardlm::report
