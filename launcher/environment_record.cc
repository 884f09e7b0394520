#include "launcher/environment_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "launcher/bench_environment.h"
#include "launcher/host_facts.h"
#include "launcher/rank_values.h"
#include "study/machine_noise.h"
#include "study/measuring.h"

namespace shardlm {
namespace {

// "a", or "2 x a, 1 x b" of values that differ.
std::string counted(const std::vector<std::string>& values) {
  const bool equal = std::ranges::all_of(values, [&](const auto& v) { return v == values[0]; });
  return equal && !values.empty() ? values[0] : counted_text(values);
}

// "0: nodeA cores 0-1; 1: nodeA cores 2-3"
std::string binding(Communicator& comm, const MpiWorld& world) {
  const std::string cores = number_list_text(read_host_facts().cores);
  const auto all =
      texts_of_ranks(comm, world.host_name() + " cores " + (cores.empty() ? "unknown" : cores));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < all.size(); ++r) texts.push_back(fmt::format("{}: {}", r, all[r]));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

void add_build(Facts& facts) {
  const std::string commit = fact(facts, "commit");
  facts.emplace_back("dirty", commit == "unknown" || commit.empty() ? "unknown"
                              : commit.ends_with("-dirty")          ? "yes"
                                                                    : "no");
}

void add_clock(Facts& facts, const Canary& canary) {
  const TimerFacts timer = measure_timer();
  facts.emplace_back("timer", timer.name);
  facts.emplace_back("timer_cost_ns", fmt::format("{:.1f}", timer.cost_ns));
  facts.emplace_back("timer_resolution_ns", fmt::format("{:.2f}", timer.resolution_ns));
  facts.emplace_back("canary", fmt::format("p50 {:.2f} us, p99 {:.2f} us, p99/p50 {:.3f}",
                                           canary.p50_us, canary.p99_us, canary.ratio()));
}

}  // namespace

void add_fact(Facts& facts, const std::string& name, const std::string& value) {
  const std::string text = value.empty() ? "unknown" : value;
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.first == name; });
  if (found == facts.end()) {
    facts.emplace_back(name, text);
    return;
  }
  if (("; " + found->second + "; ").find("; " + text + "; ") == std::string::npos)
    found->second += "; " + text;
}

std::string fact(const Facts& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.first == name; });
  return found == facts.end() ? "unknown" : found->second;
}

std::string counted_text(const std::vector<std::string>& values) {
  std::map<std::string, int> counts;
  for (const std::string& value : values) ++counts[value];
  std::vector<std::string> texts;
  for (const auto& [value, n] : counts) texts.push_back(fmt::format("{} x {}", n, value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<int> ranks_of_nodes(const MpiWorld& world) {
  std::map<int, int> counts;
  for (const int node : world.nodes()) ++counts[node];
  std::vector<int> ranks;
  for (const auto& [node, n] : counts) ranks.push_back(n);
  return ranks;
}

bool oversubscribed(const Job& job, int threads) {
  const bool here = job.world.node_size() * threads > job.world.core_share().node_cores;
  const auto all = values_of_ranks(job.control, here);
  return value_of_root(job.control, std::count(all.begin(), all.end(), true) > 0);
}

Canary worst_canary(const Job& job) {
  job.control.barrier({SiteKind::load});
  const std::vector<Canary> all = values_of_ranks(job.control, run_canary());
  if (all.empty()) return {};
  return *std::max_element(all.begin(), all.end(),
                           [](const Canary& a, const Canary& b) { return a.ratio() < b.ratio(); });
}

Facts environment_record(const Job& job) {
  Facts facts = bench_environment(job);
  add_build(facts);
  Facts machine = machine_facts();
  for (auto& [name, value] : machine) {
    const auto all = texts_of_ranks(job.control, value);
    if (!all.empty()) value = counted(all);
  }
  for (const auto& [name, value] : machine) {
    const auto known =
        std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.first == name; });
    if (known == facts.end())
      facts.emplace_back(name, value);
    else
      known->second = value;
  }
  facts.emplace_back("hosts", counted(texts_of_ranks(job.control, job.world.host_name())));
  facts.emplace_back("ranks_of_nodes",
                     fmt::format("{}", fmt::join(ranks_of_nodes(job.world), ",")));
  facts.emplace_back("binding", binding(job.control, job.world));
  facts.emplace_back("variables", relevant_variables());
  facts.emplace_back("start_time", utc_now());
  add_clock(facts, worst_canary(job));
  facts.emplace_back("method_version", fmt::format("{}", kMethodVersion));
  if (job.world.rank() != 0) facts.clear();
  for (auto& [name, value] : facts) {
    if (value.empty()) value = "unknown";
  }
  return facts;
}

}  // namespace shardlm
