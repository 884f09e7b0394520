// What a machine offers a process, as its files and calls say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlm {

struct HostFacts {
  int pid = 0;
  std::vector<int> cores;       ///< that the process may run on
  std::vector<int> numa_nodes;  ///< of these cores; empty: the machine does not say
  std::uint64_t memory_bytes = 0, memory_available_bytes = 0;  ///< of the machine
  std::optional<std::uint64_t> memory_limit_bytes;  ///< of the control group; none: no limit
  std::uint64_t page_bytes = 0;
  std::string huge_pages;                       ///< "always", "madvise" or "never"; empty: unknown
  std::optional<std::uint64_t> shm_free_bytes;  ///< of /dev/shm
  std::optional<std::uint64_t> memlock_bytes;   ///< of RLIMIT_MEMLOCK; none: unlimited

  /// What is left for the process: the machine's, or the control group's if that is less.
  std::uint64_t usable_bytes() const;
};

/// Asks the system. `root`: where /proc, /sys and /dev are, for tests; process, cores and limits
/// are always those of this process. What cannot be read is left out.
HostFacts read_host_facts(const std::filesystem::path& root = "/");

/// "0-2,5" to and from numbers; a text that is none gives an empty list.
std::vector<int> parse_number_list(std::string_view text);
std::string number_list_text(std::span<const int> numbers);

}  // namespace shardlm
