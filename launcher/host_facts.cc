#include "launcher/host_facts.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace shardlm {
namespace {

namespace fs = std::filesystem;

// The file's text, empty if it cannot be read. Such files are short.
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::vector<int> cores_of_process() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> numa_nodes_of(const std::vector<int>& cores, const fs::path& root) {
  std::vector<int> nodes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename();
    const auto node = name.starts_with("node") ? number_of<int>(name.substr(4)) : std::nullopt;
    if (!node) continue;
    const std::vector<int> its = parse_number_list(text_of(entry.path() / "cpulist"));
    const bool used = std::any_of(cores.begin(), cores.end(), [&](int core) {
      return std::count(its.begin(), its.end(), core) > 0;
    });
    if (used) nodes.push_back(*node);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

// "MemTotal:  16384 kB" of /proc/meminfo.
std::uint64_t meminfo_bytes(const std::string& meminfo, const std::string& name) {
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + ":")) continue;
    const std::size_t digits = line.find_first_of("0123456789");
    if (digits == std::string::npos) return 0;
    return number_of<std::uint64_t>(line.substr(digits)).value_or(0) * 1024;
  }
  return 0;
}

// The least limit of the process's control group and of those above it. Version 2 has
// memory.max, version 1 memory.limit_in_bytes, whose "no limit" is a number beyond any memory.
std::optional<std::uint64_t> cgroup_limit(const fs::path& root, std::uint64_t memory_bytes) {
  std::optional<std::uint64_t> least;
  std::istringstream lines(text_of(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const fs::path top = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    fs::path group = line.substr(line.rfind(':') + 1);
    const char* file = unified ? "memory.max" : "memory.limit_in_bytes";
    for (bool more = true; more; group = group.parent_path()) {
      more = group.has_relative_path();
      const auto limit = number_of<std::uint64_t>(text_of(top / group.relative_path() / file));
      if (limit && *limit < memory_bytes) least = std::min(least.value_or(*limit), *limit);
    }
  }
  return least;
}

// The choice in brackets of "always [madvise] never".
std::string huge_pages_of(const fs::path& root) {
  const std::string text = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return text.substr(open + 1, close - open - 1);
}

std::optional<std::uint64_t> free_bytes_of(const fs::path& folder) {
  struct statvfs state {};
  if (statvfs(folder.c_str(), &state) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(state.f_bavail) * state.f_frsize;
}

std::optional<std::uint64_t> memlock() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

std::uint64_t HostFacts::usable_bytes() const {
  return std::min(memory_available_bytes, memory_limit_bytes.value_or(memory_available_bytes));
}

HostFacts read_host_facts(const fs::path& root) {
  HostFacts facts;
  facts.pid = getpid();
  facts.cores = cores_of_process();
  facts.numa_nodes = numa_nodes_of(facts.cores, root);
  const std::string meminfo = text_of(root / "proc/meminfo");
  facts.memory_bytes = meminfo_bytes(meminfo, "MemTotal");
  facts.memory_available_bytes = meminfo_bytes(meminfo, "MemAvailable");
  facts.memory_limit_bytes = cgroup_limit(root, facts.memory_bytes);
  facts.page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  facts.huge_pages = huge_pages_of(root);
  facts.shm_free_bytes = free_bytes_of(root / "dev/shm");
  facts.memlock_bytes = memlock();
  return facts;
}

std::vector<int> parse_number_list(std::string_view text) {
  constexpr int kMost = 1 << 20;  // a broken file must not fill the memory
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const auto first = number_of<int>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : number_of<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMost) return {};
    for (int n = *first; n <= *last; ++n) numbers.push_back(n);
  }
  return numbers;
}

std::string number_list_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end == i + 1 ? fmt::format("{}", numbers[i])
                         : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace shardlm
