#include "study/report/groups.h"

#include <algorithm>

#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

std::string plural(const std::string& n, const std::string& thing) {
  return n + " " + thing + (n == "1" ? "" : "s");
}

using Setting = std::map<std::string, std::string>;

// Ranks, nodes and batch first, as people say it.
std::vector<std::pair<std::string, std::string>> in_order(const Setting& setting) {
  std::vector<std::pair<std::string, std::string>> all(setting.begin(), setting.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    const auto place = [](const std::string& name) {
      return name == "ranks" ? 0 : name == "nodes" ? 1 : name == "batch" ? 2 : 3;
    };
    return place(a.first) < place(b.first);
  });
  return all;
}

// What of each setting is not the same in all of them.
std::vector<std::string> apart(const std::vector<const Setting*>& settings) {
  std::vector<std::string> labels;
  for (const Setting* s : settings) {
    std::vector<std::string> phrases;
    for (const auto& [name, value] : in_order(*s)) {
      const bool differs = std::any_of(settings.begin(), settings.end(), [&](const Setting* other) {
        const auto found = other->find(name);
        return found == other->end() || found->second != value;
      });
      if (!differs) continue;
      std::string phrase = setting_phrase(name, value);
      if (!phrase.empty()) phrases.push_back(std::move(phrase));
    }
    std::string label;
    for (const std::string& phrase : phrases) label += (label.empty() ? "" : ", ") + phrase;
    labels.push_back(label.empty() ? "all" : label);
  }
  return labels;
}

}  // namespace

std::vector<Group> group_rows(const std::vector<BenchRow>& rows,
                              const std::set<std::string>& varied) {
  std::vector<Group> groups;
  std::map<Setting, std::size_t> places;
  for (const BenchRow& row : rows) {
    Setting common = row.setting;
    for (const std::string& name : varied) common.erase(name);
    const auto [found, fresh] = places.emplace(common, groups.size());
    if (fresh) groups.push_back({std::move(common), {}});
    Rows& group = groups[found->second].rows;
    const bool again = std::any_of(group.begin(), group.end(), [&](const BenchRow* other) {
      return other->setting == row.setting;
    });
    if (!again) group.push_back(&row);
  }
  return groups;
}

std::string setting_phrase(const std::string& name, const std::string& value) {
  if (name == "ranks") return plural(value, "rank");
  if (name == "nodes") return value == "1" ? "" : plural(value, "node");
  if (name == "threads") return plural(value, "thread");
  if (name == "tokens") return plural(value, "token");
  if (name == "kind") return value;
  if (name == "allreduce") return value.empty() ? "" : value;
  if (name == "wire") return value.empty() ? "" : "wire " + value;
  if (name == "overlap")
    return value.empty() || value == "none" ? "no overlap" : "overlap " + value;
  if (name == "emulate") return value.empty() ? "real link" : "emulated " + value;
  if (name == "kv_dtype") return "cache " + value;
  if (name == "model" || name == "dtype") return value;
  if (name.starts_with("factor ")) return name.substr(7) + " " + value;
  return name + " " + value;
}

std::vector<std::string> group_labels(const std::vector<Group>& groups) {
  std::vector<const Setting*> settings;
  for (const Group& g : groups) settings.push_back(&g.setting);
  return apart(settings);
}

std::vector<std::string> row_labels(const Rows& rows) {
  std::vector<const Setting*> settings;
  for (const BenchRow* row : rows) settings.push_back(&row->setting);
  return apart(settings);
}

std::string row_phrase(const BenchRow& row) {
  std::string text = row.decode ? "decoding" : "prefill of " + count_text(row.tokens, "token");
  text += ", batch " + number_text(row.batch, 9);
  if (!row.model.empty()) text += ", " + row.model;
  return text;
}

bool tells_speed(const BenchRow& row) { return !row.approximate() && !row.messages_only; }

std::string doubts(const BenchRow& row) {
  std::vector<std::string> words;
  if (row.noisy > 0) words.push_back("noisy");
  if (row.oversubscribed > 0) words.push_back("more ranks than cores");
  if (!row.emulate.empty()) words.push_back("emulated link");
  if (row.approximate()) words.push_back("approximate sums");
  if (row.messages_only) words.push_back("messages only, nothing computed");
  if (row.open > 0) words.push_back("times do not add up");
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

}  // namespace shardlm::report
