#include "launcher/bench_environment.h"

#include <fstream>

#include "launcher/host_facts.h"
#include "launcher/version_command.h"

namespace shardlm {

std::string cpu_name(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    const std::size_t name = line.find_first_not_of(" \t", colon + 1);
    if (name != std::string::npos) return line.substr(name);
  }
  return "unknown";
}

std::vector<std::pair<std::string, std::string>> bench_environment(const Job& job) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& fact : version_facts()) {
    const auto& name = fact.first;
    if (name == "sanitize" || name == "coverage" || name == "tests") continue;
    all.push_back(fact);
  }
  const HostFacts host = read_host_facts();
  all.emplace_back("host", job.world.host_name());
  all.emplace_back("cpu", cpu_name());
  all.emplace_back("cores", number_list_text(host.cores));
  all.emplace_back("huge_pages", host.huge_pages);
  return all;
}

}  // namespace shardlm
