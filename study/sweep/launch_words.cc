#include "study/sweep/launch_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace shardlm {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// "a:2,b:1"
std::string host_list(const LaunchSpec& launch, const Factors& factors) {
  const auto nodes = std::min(static_cast<std::size_t>(nodes_of(factors)), launch.hosts.size());
  const std::vector<int> ranks = ranks_of_nodes(ranks_of(factors), static_cast<int>(nodes));
  Words hosts;
  for (std::size_t i = 0; i < nodes; ++i) {
    hosts.push_back(fmt::format("{}:{}", launch.hosts[i].name, ranks[i]));
  }
  return fmt::format("{}", fmt::join(hosts, ","));
}

bool speaks_of_binding(const Words& options) {
  return std::ranges::any_of(options, [](const std::string& word) {
    return word.starts_with("--bind-to") || word.starts_with("-bind-to") || word == "--cpu-set" ||
           word == "--rankfile" || word == "-rf" ||
           word.find("hwloc_base_binding_policy") != std::string::npos;
  });
}

Words mpirun_words(const LaunchSpec& launch, const LauncherFacts& facts, const Factors& factors) {
  Words words = {"mpirun", "-n", fmt::format("{}", ranks_of(factors))};
  if (facts.open_mpi && facts.root) words.emplace_back("--allow-run-as-root");
  if (!launch.hosts.empty()) {
    append(words, {facts.open_mpi ? "--host" : "-hosts", host_list(launch, factors)});
    for (const auto& each : launch.env) {  // to the ranks of other hosts too
      if (facts.open_mpi) append(words, {"-x", each.first});
    }
  } else if (facts.open_mpi) {
    words.emplace_back("--oversubscribe");
  }
  const int threads = threads_of(factors);
  const bool crowded =
      launch.hosts.empty() && ranks_of(factors) * std::max(1, threads) > facts.cores;
  if (facts.open_mpi && !speaks_of_binding(launch.options) && (threads != 1 || crowded)) {
    append(words, {"--bind-to", "none"});
  }
  append(words, launch.options);
  return words;
}

Words srun_words(const LaunchSpec& launch, const Factors& factors) {
  Words words = {"srun", fmt::format("--nodes={}", nodes_of(factors)),
                 fmt::format("--ntasks={}", ranks_of(factors))};
  const int threads = threads_of(factors);
  if (threads > 0) words.push_back(fmt::format("--cpus-per-task={}", threads));
  if (!launch.hosts.empty()) {
    Words names;
    for (int i = 0; i < nodes_of(factors); ++i) {
      names.push_back(launch.hosts.at(static_cast<std::size_t>(i)).name);
    }
    words.push_back(fmt::format("--nodelist={}", fmt::join(names, ",")));
  }
  append(words, launch.options);
  return words;
}

std::string filled(const std::string& word, const std::map<std::string, std::string>& values) {
  std::string text;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t open = word.find('{', at);
    text += word.substr(at, open - at);
    if (open == std::string::npos) break;
    const std::size_t close = word.find('}', open);
    const std::string key =
        close == std::string::npos ? "" : word.substr(open + 1, close - open - 1);
    const auto value = values.find(key);
    if (value == values.end()) {
      Words known;
      for (const auto& each : values) known.push_back("{" + each.first + "}");
      fail(ExitCode::usage, {.what = "launch: command",
                             .expected = fmt::format("{}, {{program}}", fmt::join(known, ", ")),
                             .found = word});
    }
    text += value->second;
    at = close + 1;
  }
  return text;
}

Words command_words(const LaunchSpec& launch, const Factors& factors, const Words& program) {
  const int ranks = ranks_of(factors), nodes = nodes_of(factors);
  const std::map<std::string, std::string> values = {
      {"ranks", std::to_string(ranks)},
      {"nodes", std::to_string(nodes)},
      {"ranks_per_node", std::to_string(ranks_of_nodes(ranks, nodes).front())},
      {"threads", std::to_string(std::max(1, threads_of(factors)))},
      {"hosts",
       launch.hosts.empty() ? "localhost:" + std::to_string(ranks) : host_list(launch, factors)}};
  Words words;
  bool placed = false;
  for (const std::string& word : split_words(launch.command)) {
    if (word == "{program}") {
      append(words, program);
      placed = true;
    } else {
      words.push_back(filled(word, values));
    }
  }
  if (!placed) append(words, program);
  return words;
}

}  // namespace

std::vector<int> ranks_of_nodes(int ranks, int nodes) {
  std::vector<int> all(static_cast<std::size_t>(std::max(1, nodes)), 0);
  for (int rank = 0; rank < ranks; ++rank) ++all[static_cast<std::size_t>(rank) % all.size()];
  return all;
}

std::vector<std::string> launch_words(const LaunchSpec& launch, const LauncherFacts& facts,
                                      const Factors& factors,
                                      const std::vector<std::string>& program) {
  if (launch.by == LaunchSpec::By::command) return command_words(launch, factors, program);
  Words words = launch.by == LaunchSpec::By::srun ? srun_words(launch, factors)
                                                  : mpirun_words(launch, facts, factors);
  append(words, program);
  return words;
}

std::string launch_refusal(const LaunchSpec& launch, const Factors& factors) {
  const int ranks = ranks_of(factors), nodes = nodes_of(factors);
  if (ranks < nodes) return fmt::format("{} ranks cannot be on {} nodes", ranks, nodes);
  if (launch.slots && ranks > *launch.slots) {
    return fmt::format("{} ranks are more than launch.slots, {}", ranks, *launch.slots);
  }
  const bool named = !launch.hosts.empty();
  if (launch.by == LaunchSpec::By::mpirun && nodes > 1 && !named) {
    return fmt::format("{} nodes: launch.hosts names none", nodes);
  }
  if (!named) return "";
  if (static_cast<std::size_t>(nodes) > launch.hosts.size()) {
    return fmt::format("{} nodes are more than the {} of launch.hosts", nodes, launch.hosts.size());
  }
  const std::vector<int> shares = ranks_of_nodes(ranks, nodes);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const HostSlots& host = launch.hosts[i];
    if (host.slots > 0 && shares[i] > host.slots) {
      return fmt::format("{} ranks on {}, which has {} slots", shares[i], host.name, host.slots);
    }
  }
  return "";
}

std::vector<std::string> split_words(const std::string& command) {
  Words words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char c : command) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      inside = true;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) {
    fail(ExitCode::usage,
         {.what = "launch: command", .expected = "quotation marks in pairs", .found = command});
  }
  if (inside) words.push_back(std::move(word));
  return words;
}

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
    });
    text += text.empty() ? "" : " ";
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace shardlm
