#include "launcher/launch_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "launcher/study_plan.h"
#include "study/sweep/cell_command.h"

namespace shardlm {
namespace {

/// The cell that needs most, and what the whole study needs.
struct Needs {
  Cell largest;
  int ranks = 1, nodes = 1, threads = 1;
  double minutes = 0;  ///< the budget, or the guess
};

Needs needs_of(const StudySpec& spec, const std::string& program) {
  StudySpec by_srun = spec;
  by_srun.launch.by = LaunchSpec::By::srun;
  by_srun.launch.command.clear();
  const SweepPlan plan = make_plan(by_srun, "", {}, program);
  Needs needs;
  double guess_s = 0;
  for (const LaunchRef& ref : plan.order) guess_s += plan.cells[ref.cell].guess_s;
  for (const Cell& cell : plan.cells) {
    if (!cell.runs() || cell.kind != CellKind::bench) continue;
    const int ranks = ranks_of(cell.factors), nodes = nodes_of(cell.factors);
    needs.threads = std::max(needs.threads, threads_of(cell.factors));
    if (needs.largest.id.empty() || std::pair(nodes, ranks) > std::pair(needs.nodes, needs.ranks)) {
      needs.largest = cell;
      needs.ranks = ranks;
      needs.nodes = nodes;
    }
  }
  if (needs.largest.id.empty()) {
    fail(ExitCode::usage, {.what = "no cell of the study can run",
                           .where = spec.name,
                           .remedy = "shardlm study plan says why"});
  }
  needs.minutes = spec.budget_minutes.value_or(guess_s / 60 * 2);
  return needs;
}

std::string heading(LaunchFile file, const std::string& path) {
  constexpr const char* kNames[] = {"slurm", "hostfile", "rankfile"};
  return fmt::format("# made by: shardlm launch --print {} {}\n",
                     kNames[static_cast<std::size_t>(file)], path);
}

// More than is needed is cheap, and a job that is cut off can be resumed.
std::string time_limit(double minutes) {
  const auto whole = static_cast<int>(std::ceil(minutes * 1.2)) + 5;
  return fmt::format("{:02}:{:02}:00", whole / 60, whole % 60);
}

std::string slurm_script(const StudySpec& spec, const std::string& path, const Needs& needs) {
  const std::vector<int> ranks = ranks_of_nodes(needs.ranks, needs.nodes);
  const std::string program = spec.launch.program.empty() ? "shardlm" : spec.launch.program;
  std::string text = "#!/bin/bash\n" + heading(LaunchFile::slurm, path);
  text += fmt::format(
      "# Submit with sbatch from the folder that the path below starts at. A job that is cut off "
      "goes on with\n# study resume in the place of study run.\n"
      "#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks={}\n"
      "#SBATCH --ntasks-per-node={}\n#SBATCH --cpus-per-task={}\n#SBATCH --time={}\n"
      "#SBATCH --exclusive\n#SBATCH --output={}-%j.log\n\nset -euo pipefail\n",
      spec.name, needs.nodes, needs.ranks, ranks.front(), needs.threads, time_limit(needs.minutes),
      spec.name);
  for (const auto& [name, value] : spec.launch.env) {
    text += fmt::format("export {}\n", shell_text({name + "=" + value}));
  }
  text += fmt::format(
      "\n# Each cell is a step of this job. The largest one alone would be:\n#   {}\n"
      "{} study run {} --by srun\n",
      shell_text(needs.largest.command), shell_text({program}), shell_text({path}));
  return text;
}

std::vector<HostSlots> hosts_for(const StudySpec& spec, const Needs& needs) {
  if (spec.launch.hosts.empty() && needs.nodes == 1) return {{"localhost", 0}};
  if (static_cast<std::size_t>(needs.nodes) > spec.launch.hosts.size()) {
    fail(ExitCode::usage, {.what = "launch.hosts",
                           .expected = fmt::format("{} hosts", needs.nodes),
                           .found = std::to_string(spec.launch.hosts.size())});
  }
  return {spec.launch.hosts.begin(), spec.launch.hosts.begin() + needs.nodes};
}

std::string hostfile(const StudySpec& spec, const std::string& path, const Needs& needs) {
  const std::vector<HostSlots> hosts = hosts_for(spec, needs);
  const std::vector<int> ranks = ranks_of_nodes(needs.ranks, needs.nodes);
  std::string text = heading(LaunchFile::hostfile, path) +
                     fmt::format("# mpirun --hostfile FILE -n {} {}\n", needs.ranks, "shardlm ...");
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text +=
        fmt::format("{} slots={}\n", hosts[i].name, hosts[i].slots > 0 ? hosts[i].slots : ranks[i]);
  }
  return text;
}

std::string rankfile(const StudySpec& spec, const std::string& path, const Needs& needs) {
  const std::vector<HostSlots> hosts = hosts_for(spec, needs);
  const std::vector<int> ranks = ranks_of_nodes(needs.ranks, needs.nodes);
  const int threads = std::max(1, threads_of(needs.largest.factors));
  std::string text = heading(LaunchFile::rankfile, path) +
                     fmt::format("# mpirun --rankfile FILE -n {} {}\n", needs.ranks, "shardlm ...");
  int rank = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (int local = 0; local < ranks[i]; ++local, ++rank) {
      const int first = local * threads, last = first + threads - 1;
      text +=
          fmt::format("rank {}={} slot={}\n", rank, hosts[i].name,
                      first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
    }
  }
  return text;
}

}  // namespace

std::string launch_file(LaunchFile file, const StudySpec& spec, const std::string& path) {
  const Needs needs = needs_of(spec, spec.launch.program.empty() ? "shardlm" : spec.launch.program);
  switch (file) {
    case LaunchFile::slurm:
      return slurm_script(spec, path, needs);
    case LaunchFile::hostfile:
      return hostfile(spec, path, needs);
    case LaunchFile::rankfile:
      return rankfile(spec, path, needs);
  }
  return "";
}

}  // namespace shardlm
