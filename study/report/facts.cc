#include "study/report/facts.h"

#include <algorithm>
#include <set>

#include "study/report/launches.h"
#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

// A word as a POSIX shell takes it.
std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') quoted.append("'\\'");
    quoted.push_back(c);
  }
  quoted.push_back('\'');
  return quoted;
}

std::string command_of(const Json& object) {
  const Json& words = member(object, "command");
  if (!words.is_array()) return text_of(words);
  std::string line;
  for (const Json& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(text_of(word));
  }
  return line;
}

void gather_cells(const StudyData& study, Facts& facts) {
  const Json& cells = member(study.plan, "cells");
  if (!cells.is_array()) return;
  std::map<std::string, std::size_t> planned, ok;
  const Json& order = member(study.plan, "order");
  if (order.is_array()) {
    for (const Json& pair : order) {
      if (pair.is_array() && !pair.empty()) ++planned[text_of(pair[0])];
    }
  }
  std::set<std::pair<std::string, std::string>> good;
  for (const Json& launch : study.launches) {
    if (text(launch, "status") == "ok") good.emplace(text(launch, "cell"), text(launch, "launch"));
  }
  for (const auto& [cell, launch] : good) ++ok[cell];
  for (const Json& cell : cells) {
    const std::string id = text(cell, "id");
    facts.cells.push_back({.id = id,
                           .kind = text(cell, "kind"),
                           .skipped = text(cell, "skipped"),
                           .factors = factors_text(factors_of(cell)),
                           .command = command_of(cell),
                           .planned = planned[id],
                           .ok = ok[id]});
  }
}

std::string ending_of(const Json& launch) {
  const std::string signal = text(launch, "signal");
  if (!signal.empty()) return "signal " + signal;
  const std::string code = text(launch, "exit_code");
  return code.empty() ? "–" : "exit code " + code;
}

void gather_launches(const StudyData& study, Facts& facts) {
  std::size_t odd = 0;
  for (const Json& launch : study.launches) {
    const std::string status = text(launch, "status"), cell = text(launch, "cell");
    if (status.empty() || cell.empty()) {
      ++odd;
      continue;
    }
    facts.wall_s += std::clamp(number(launch, "wall_s").value_or(0), 0.0, 1e9);
    const std::string started = text(launch, "started");
    if (!started.empty() && (facts.started.empty() || started < facts.started))
      facts.started = started;
    if (status == "ok") {
      ++facts.launches_ok;
      continue;
    }
    facts.failures.push_back({.cell = cell,
                              .factors = factors_text(factors_of(launch)),
                              .status = status,
                              .messages = text(launch, "messages"),
                              .command = command_of(launch),
                              .ending = ending_of(launch),
                              .launch = number(launch, "launch").value_or(0)});
  }
  if (odd > 0) {
    facts.notes.push_back(count_text(static_cast<double>(odd), "line") +
                          " of cells.jsonl without a cell or a status: left out.");
  }
}

std::string environment_text(const Json& value) {
  return value.is_structured() ? value.dump(-1, ' ', false, Json::error_handler_t::replace)
                               : text_of(value);
}

// The record of the first launch, and what is not the same in all of them.
void gather_environment(const StudyData& study, Facts& facts) {
  std::map<std::string, std::string> first;
  std::set<std::string> changed;
  auto all = results_of(study, "shardlm bench");
  const auto colls = results_of(study, "shardlm coll");
  all.insert(all.end(), colls.begin(), colls.end());
  for (const LaunchResult& launch : all) {
    const Json& record = member(*launch.result, "environment");
    if (!record.is_object()) continue;
    for (const auto& [name, value] : record.items()) {
      const std::string here = environment_text(value);
      const auto [found, fresh] = first.emplace(name, here);
      if (fresh) facts.environment.emplace_back(name, here);
      if (!fresh && found->second != here) changed.insert(name);
    }
  }
  facts.environment_changes.assign(changed.begin(), changed.end());
}

}  // namespace

Facts gather_facts(const StudyData& study) {
  Facts facts;
  facts.notes = study.notes;
  facts.yaml = study.yaml;
  facts.name = text(study.plan, "study");
  if (facts.name.empty()) facts.name = study.folder.empty() ? "a study" : study.folder;
  facts.method_version = text(study.plan, "method_version");
  facts.seed = text(study.plan, "seed");
  facts.launches_asked = number(member(study.plan, "repeat"), "launches").value_or(0);
  gather_cells(study, facts);
  gather_launches(study, facts);
  gather_benches(study, facts);
  gather_colls(study, facts);
  gather_models(study, facts);
  gather_environment(study, facts);
  return facts;
}

}  // namespace shardlm::report
