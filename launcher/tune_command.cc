#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/make_communicator.h"
#include "launcher/allreduce_file.h"
#include "launcher/commands.h"
#include "launcher/errors.h"
#include "launcher/output.h"
#include "launcher/progress.h"
#include "launcher/text_input.h"
#include "study/tune.h"

namespace shardlm {
namespace {

std::vector<TuneCandidate> make_candidates(const TuneOptions& o, const Job& job, Backend& backend) {
  std::vector<TuneCandidate> candidates;
  for (const AllReduceChoice& choice : tune_choices(group_shape(job.world))) {
    CommSettings settings;
    settings.deadlines = {.collective_s = o.timeout_s, .load_s = o.timeout_s};
    settings.table = AlgorithmTable({AllReduceRule{.choice = choice}});
    candidates.push_back({choice, make_communicator(job.world, backend, settings)});
  }
  return candidates;
}

void print_table(const std::vector<TuneSample>& samples, std::ostream& out) {
  out << fmt::format("{:>9}  {:<22}{:>10} {:>21}{:>10}{:>7}{:>7}\n", "bytes", "algorithm",
                     "median us", "[95 % interval]", "p99 us", "calls", "#wrong");
  for (const TuneSample& s : samples) {
    out << fmt::format("{:>9}  {:<22}{:>10.2f} {:>21}{:>10}{:>7}{:>7}\n", s.bytes,
                       choice_text(s.choice), s.median_us,
                       fmt::format("[{:.2f}, {:.2f}]", s.low_us, s.high_us),
                       s.p99_us < 0 ? "-" : fmt::format("{:.2f}", s.p99_us), s.calls, s.n_wrong);
  }
}

}  // namespace

int run_tune(const TuneOptions& o, const Job& job) {
  const int rank = job.world.rank();
  agree(job.control, caught([&] {
          if (job.world.size() > 1) return;
          fail(ExitCode::usage, {.what = "tune",
                                 .expected = "2 ranks or more",
                                 .found = "1",
                                 .remedy = "mpirun -n P shardlm tune, as the job will be started"});
        }));
  const AllReduceEnvironment environment = allreduce_environment(job);
  const std::string hash = environment_hash(environment);
  std::filesystem::path path =
      o.out.empty() ? default_allreduce_file(hash) : std::filesystem::path(o.out);
  agree_with_root(job.control, caught([&] {
                    if (rank != 0 || !path.empty()) return;
                    fail(ExitCode::usage, {.what = "no place for the table: HOME is not set",
                                           .remedy = "give one with --out"});
                  }));
  if (rank == 0 && job.world.oversubscribed())
    log::warning("more ranks than cores: what is measured is the system's scheduling as well");
  const auto backend = make_cpu_backend(1);
  std::vector<TuneCandidate> candidates;
  agree(job.control, caught([&] { candidates = make_candidates(o, job, *backend); }));
  TuneLimits limits{.bytes = {}, .seconds = o.seconds};
  for (const std::int64_t bytes : o.bytes)
    limits.bytes.push_back(static_cast<std::size_t>(bytes) / 4 * 4);
  std::sort(limits.bytes.begin(), limits.bytes.end());
  Progress progress(rank == 0, "measuring sizes");
  const std::vector<TuneSample> samples =
      tune(job.control, *backend, candidates, limits, [&](std::size_t done, std::size_t all) {
        progress.update(static_cast<std::int64_t>(done), static_cast<std::int64_t>(all));
      });
  progress.finish();
  agree_with_root(
      job.control, caught([&] {
        if (rank != 0) return;
        const auto wrong =
            std::accumulate(samples.begin(), samples.end(), std::uint64_t{0},
                            [](std::uint64_t n, const TuneSample& s) { return n + s.n_wrong; });
        if (wrong > 0) print_table(samples, std::cerr);
        check(wrong == 0, "an all-reduce gave a wrong sum");
        const AlgorithmTable table = quickest(samples);
        write_allreduce_file(path, environment, samples, table);
        if (o.shared.json) {
          std::cout << read_file(path.string());
        } else {
          print_table(samples, std::cout);
          std::cout << fmt::format("rules: {}\nwritten to {}\n", table.text(), path.string());
        }
        finish_output(std::cout);
      }));
  return 0;
}

}  // namespace shardlm
