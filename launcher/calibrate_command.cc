#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/make_communicator.h"
#include "launcher/allreduce_file.h"
#include "launcher/backend_options.h"
#include "launcher/bench_environment.h"
#include "launcher/commands.h"
#include "launcher/cores.h"
#include "launcher/errors.h"
#include "launcher/link_measuring.h"
#include "launcher/output.h"
#include "launcher/whole_file.h"
#include "study/compute_facts.h"
#include "study/emulated_load.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

// As of tune, of another way to measure.
AllReduceEnvironment environment_of(const Job& job) {
  AllReduceEnvironment environment = allreduce_environment(job);
  for (auto& [name, value] : environment) {
    if (name == "method") value = "calibration 1";
  }
  return environment;
}

fs::path place_of(const CalibrateOptions& o, const std::string& hash) {
  if (!o.out.empty()) return o.out;
  const fs::path beside = default_allreduce_file(hash);
  if (beside.empty()) return {};
  return beside.parent_path() / fmt::format("calibration-{}.json", hash);
}

// A trial of the command rather than a measurement.
constexpr double kHurried_s = 0.2;
constexpr std::size_t kHurriedBytes = std::size_t{8} << 20;
bool hurried(const CalibrateOptions& o) { return o.seconds < kHurried_s; }

double measure_meetings(const CalibrateOptions& o, const Job& job, Backend& backend,
                        const Emulation& emulation) {
  CommSettings settings;
  settings.deadlines = {.collective_s = o.timeout_s, .load_s = o.timeout_s};
  settings.emulation = emulation;
  settings.load = [shape = group_shape(job.world)](const AllReduceChoice& choice,
                                                   std::size_t bytes) {
    return emulated_load(choice, shape, bytes);
  };
  const auto comm = make_communicator(job.world, backend, settings);
  return meetings_s(*comm);
}

std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(bytes)
             : 0;
}

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.2f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

void print(const Calibration& c, std::ostream& out) {
  out << fmt::format("{:<10}{:>22}{:>12}{:>14}{:>10}{:>10}\n", "link", "bytes", "alpha us",
                     "beta ns/byte", "o us", "error %");
  for (const LinkClass& link : c.classes) {
    for (const LinkSegment& s : link.segments) {
      const bool first = &s == &link.segments.front();
      out << fmt::format(
          "{:<10}{:>22}{:>12.3f}{:>14.4f}{:>10}{:>10}\n", first ? link.name : "",
          fmt::format("{}-{}", s.from_bytes, s.to_bytes), s.alpha_s * 1e6, s.beta_s_per_byte * 1e9,
          first ? (link.per_message_s ? fmt::format("{:.3f}", *link.per_message_s * 1e6) : "-")
                : "",
          first ? fmt::format("{:.1f}", link.fit_error.value_or(0) * 100) : "");
    }
  }
  out << "\nadding received bytes:";
  for (const GammaClass& g : c.gamma)
    out << fmt::format(" {:.4f} ns/byte to {} ({})", g.s_per_byte * 1e9, g.to_bytes, g.level);
  const ComputeFacts& f = *c.compute;
  out << fmt::format("\n\n{:>6}{:>14}{:>18}{:>22}\n", "rows", "bytes", "GFLOP/s alone",
                     fmt::format("each of {} ranks", c.ranks));
  for (const MatmulRate& m : f.matmul)
    out << fmt::format("{:>6}{:>14}{:>18.2f}{:>22.2f}\n", m.rows, m.bytes, m.alone_gflop_per_s,
                       m.all_gflop_per_s);
  out << fmt::format("\n{:>20}{:>18}{:>22}\n", "bytes read", "GB/s alone", "each");
  for (const ReadRate& r : f.read)
    out << fmt::format("{:>20}{:>18.2f}{:>22.2f}\n", r.bytes, r.alone_gb_per_s, r.all_gb_per_s);
  out << fmt::format("\nresidual and LayerNorm: {} a row and {:.3f} ns an element; an op: {}\n",
                     time_text(f.norm_row_s), f.norm_s_per_element * 1e9, time_text(f.op_s));
  if (f.meetings_s) out << fmt::format("a plan out, replies in: {}\n", time_text(*f.meetings_s));
}

Calibration measure(const CalibrateOptions& o, const Job& job, const Emulation& emulation) {
  Calibration c;
  const AllReduceEnvironment environment = environment_of(job);
  c.hash = environment_hash(environment);
  c.environment = {environment.begin(), environment.end()};
  for (const auto& fact : bench_environment(job)) c.environment.push_back(fact);
  c.ranks = job.world.size();
  c.nodes = group_shape(job.world).nodes;
  c.emulate = o.emulate.empty() ? "" : emulation_text(emulation);
  c.classes =
      measure_links(job, {.seconds = o.seconds, .timeout_s = o.timeout_s, .emulation = emulation});
  const int threads = o.threads > 0 ? o.threads : auto_threads(job.world.core_share());
  std::unique_ptr<Backend> backend;
  agree(job.control, caught([&] {
          backend =
              make_cpu_backend(threads, on_cpu(precision_of(o.dtype, KvDTypeChoice::automatic)));
        }));
  c.compute = measure_compute(job.control, *backend, threads, job.world.node_size(),
                              {.seconds = 2 * o.seconds,
                               .most_bytes = hurried(o) ? kHurriedBytes : std::size_t{128} << 20});
  c.compute->dtype = dtype_name(backend->precision().weights);
  if (job.world.size() > 1) c.compute->meetings_s = measure_meetings(o, job, *backend, emulation);
  c.compute->node_memory_bytes = machine_memory();
  if (job.world.rank() == 0) c.gamma = measure_gamma();
  return c;
}

}  // namespace

int run_calibrate(const CalibrateOptions& o, const Job& job) {
  const bool root = job.world.rank() == 0;
  Emulation emulation;
  if (!o.emulate.empty()) emulation = parse_emulation(o.emulate);
  fs::path path;
  const std::string hash = environment_hash(environment_of(job));
  agree_with_root(job.control, caught([&] {
                    if (!root) return;
                    path = place_of(o, hash);
                    if (!path.empty()) return;
                    fail(ExitCode::usage, {.what = "no place for the calibration: HOME is not set",
                                           .remedy = "give one with --out"});
                  }));
  if (root && job.world.size() == 1)
    log::warning("one rank: computing is measured, links are not (mpirun -n P, P of 2 or more)");
  if (root && hurried(o)) {
    log::warning(
        fmt::format("below {} s a class: weights of more than 8 MiB are not measured", kHurried_s));
  }
  if (root && job.world.oversubscribed())
    log::warning("more ranks than cores: what is measured is the system's scheduling as well");
  if (root && !o.emulate.empty())
    log::warning("emulated network " + emulation_text(emulation) +
                 ": its class says nothing of this machine");
  const Calibration c = measure(o, job, emulation);
  agree_with_root(job.control, caught([&] {
                    if (!root) return;
                    const std::string text = calibration_text(c);
                    write_whole_file(path, text, "the calibration");
                    if (o.shared.json) {
                      std::cout << text;
                    } else {
                      print(c, std::cout);
                      std::cout << fmt::format("written to {}\n", path.string());
                    }
                    finish_output(std::cout);
                  }));
  return 0;
}

}  // namespace shardlm
