#include "launcher/cores.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlm {
namespace {

std::string count(int n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace

int auto_threads(const CoreShare& share) { return std::max(1, share.cores / share.sharers); }

std::string core_text(const CoreShare& share) {
  return fmt::format("{} shared by {}", count(share.cores, "core"), count(share.sharers, "rank"));
}

std::string threads_text(const CoreShare& share, int threads) {
  return fmt::format("{} a rank ({})", count(threads, "thread"), core_text(share));
}

std::string core_warning(const CoreShare& share, int threads) {
  if (!share.first_sharer || threads * share.sharers <= share.cores) return {};
  const std::string remedy =
      threads > auto_threads(share)
          ? fmt::format("use --threads {}, or let mpirun bind wider (Open MPI: --bind-to none)",
                        auto_threads(share))
          : "use fewer ranks or more hosts, or let mpirun bind wider (Open MPI: --bind-to none)";
  return fmt::format("{} with {} each on {}: they take turns, which is slow; {}",
                     count(share.sharers, "rank"), count(threads, "thread"),
                     count(share.cores, "core"), remedy);
}

}  // namespace shardlm
