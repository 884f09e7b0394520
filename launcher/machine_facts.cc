#include "launcher/machine_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "launcher/bench_environment.h"
#include "launcher/host_facts.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
constexpr const char* kUnknown = "unknown";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.empty() ? kUnknown : line;
}

std::string numa_nodes(const fs::path& root) {
  const std::string text = first_line(root / "sys/devices/system/node/online");
  const std::size_t n = parse_number_list(text).size();
  return n == 0 ? kUnknown : fmt::format("{} ({})", n, text);
}

// "performance", or "performance 4, powersave 2".
std::string governor(const fs::path& root) {
  std::map<std::string, int> counts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu", error)) {
    const fs::path file = entry.path() / "cpufreq/scaling_governor";
    if (fs::exists(file, error)) ++counts[first_line(file)];
  }
  if (counts.empty()) return kUnknown;
  if (counts.size() == 1) return counts.begin()->first;
  std::vector<std::string> texts;
  for (const auto& [name, n] : counts) texts.push_back(fmt::format("{} {}", name, n));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string smt(const fs::path& root) {
  const std::string active = first_line(root / "sys/devices/system/cpu/smt/active");
  if (active == "1") return "on";
  return active == "0" ? "off" : kUnknown;
}

// The CPU says itself that a hypervisor is beneath it.
std::string virtual_machine(const fs::path& root) {
  std::istringstream lines(text_of(root / "proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("flags")) continue;
    return (line + " ").find(" hypervisor ") != std::string::npos ? "yes" : "no";
  }
  return kUnknown;
}

std::string container(const fs::path& root) {
  std::error_code error;
  if (fs::exists(root / ".dockerenv", error) || fs::exists(root / "run/.containerenv", error))
    return "yes";
  const std::string groups = text_of(root / "proc/1/cgroup");
  constexpr std::array names = {"docker", "kubepods", "containerd", "lxc", "libpod"};
  for (const char* name : names) {
    if (groups.find(name) != std::string::npos) return "yes";
  }
  return groups.empty() ? kUnknown : "none found";
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

constexpr std::array<std::string_view, 18> kRelevant = {
    "OMPI_", "NCCL_", "UCX_",     "I_MPI_",  "MPICH_",    "MPIR_",
    "MV2_",  "FI_",   "OMP_",     "GOMP_",   "KMP_",      "HCOLL_",
    "PSM2_", "CUDA_", "SHARDLM_", "MALLOC_", "PMIX_MCA_", "PRTE_MCA_"};
// What Open MPI's launcher tells each process about itself.
constexpr std::array<std::string_view, 17> kOfAProcess = {
    "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX",          "OMPI_ARGV",
    "OMPI_COMMAND",     "OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS",      "OMPI_NUM_APP_CTX",
    "OMPI_MCA_orte_",   "OMPI_MCA_ess",       "OMPI_MCA_initial_wdir", "OMPI_MCA_shmem_RUNTIME",
    "OMPI_MCA_pmix",    "OMPI_MCA_prte_",     "OMPI_LAUNCHED",         "OMPI_MCA_mpi_oversubscribe",
    "OMPI_PARENT"};

}  // namespace

Facts machine_facts(const fs::path& root) {
  const std::string pages = read_host_facts(root).huge_pages;
  return {{"cpu", cpu_name(root)},
          {"numa_nodes", numa_nodes(root)},
          {"governor", governor(root)},
          {"smt", smt(root)},
          {"kernel", first_line(root / "proc/sys/kernel/osrelease")},
          {"virtual_machine", virtual_machine(root)},
          {"container", container(root)},
          {"huge_pages", pages.empty() ? kUnknown : pages}};
}

std::string relevant_variables(const char* const* environment) {
  std::vector<std::string> found;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view variable = *environment;
    if (starts_with_any(variable, kRelevant) && !starts_with_any(variable, kOfAProcess))
      found.emplace_back(variable);
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? "none" : fmt::format("{}", fmt::join(found, " "));
}

std::string relevant_variables() { return relevant_variables(environ); }

}  // namespace shardlm
