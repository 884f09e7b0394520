#include "launcher/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/make_communicator.h"
#include "comm/mpi_world.h"
#include "launcher/allreduce_choice.h"
#include "launcher/backend_options.h"
#include "launcher/commands.h"
#include "launcher/errors.h"
#include "launcher/options.h"
#include "launcher/output.h"
#include "launcher/session.h"
#include "launcher/study_command.h"
#include "launcher/tokenize_command.h"
#include "launcher/version_command.h"

namespace shardlm {
namespace {

// Commands in which all ranks take part; the others are rank 0's alone.
bool is_collective(const Options& options) {
  if (const auto* dump = std::get_if<DumpOptions>(&options.command)) return !dump->diff;
  return std::holds_alternative<GenerateOptions>(options.command) ||
         std::holds_alternative<ScoreOptions>(options.command) ||
         std::holds_alternative<DoctorOptions>(options.command) ||
         std::holds_alternative<BenchOptions>(options.command) ||
         std::holds_alternative<CollOptions>(options.command) ||
         std::holds_alternative<TuneOptions>(options.command) ||
         std::holds_alternative<CalibrateOptions>(options.command);
}

// Commands that start mpirun themselves, which would not work in a process that has started MPI.
bool starts_jobs(std::string_view command) { return command == "study" || command == "launch"; }

// One copy of such a command says that it is to be started alone; the others are quiet.
[[noreturn]] void refuse_mpi_launcher(std::string_view command) {
  fail(ExitCode::usage, {.what = "starts the ranks itself",
                         .expected = "to be started without mpirun or srun",
                         .found = "an MPI launcher",
                         .where = fmt::format("shardlm {}", command)});
}

// MPI starts before the options are read, so that P ranks give one message about a bad option. It
// does not start where it cannot matter: a command of one process, outside any MPI launcher.
bool wants_mpi(int argc, char** argv) {
  constexpr std::array collective = {"generate", "score", "dump", "doctor",
                                     "bench",    "tune",  "calibrate"};
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (std::find(collective.begin(), collective.end(), command) != collective.end()) return true;
  return started_by_mpi_launcher() && !starts_jobs(command);
}

log::Level log_level(Verbosity verbosity) {
  switch (verbosity) {
    case Verbosity::quiet:
      return log::Level::quiet;
    case Verbosity::normal:
      return log::Level::normal;
    case Verbosity::verbose:
      return log::Level::verbose;
  }
  return log::Level::normal;
}

// Returns the exit code: 0, or what the command says of its finding.
int run_alone(const Options& options) {
  int code = 0;
  if (const auto* help = std::get_if<HelpText>(&options.command)) std::cout << help->text;
  if (const auto* o = std::get_if<TokenizeOptions>(&options.command))
    run_tokenize(*o, std::cin, std::cout);
  if (const auto* o = std::get_if<DetokenizeOptions>(&options.command))
    run_detokenize(*o, std::cin, std::cout);
  if (const auto* o = std::get_if<PlanOptions>(&options.command)) run_plan(*o, std::cout);
  if (const auto* o = std::get_if<PredictOptions>(&options.command)) run_predict(*o, std::cout);
  if (const auto* o = std::get_if<DumpOptions>(&options.command))
    code = run_dump_diff(*o, std::cout);
  if (const auto* o = std::get_if<VersionOptions>(&options.command)) run_version(*o, std::cout);
  if (const auto* o = std::get_if<StudyPlanOptions>(&options.command))
    code = run_study_plan(*o, std::cout);
  if (const auto* o = std::get_if<StudyRunOptions>(&options.command))
    code = run_study_run(*o, std::cout);
  if (const auto* o = std::get_if<StudyResumeOptions>(&options.command))
    code = run_study_resume(*o, std::cout);
  if (const auto* o = std::get_if<StudyReportOptions>(&options.command))
    code = run_study_report(*o, std::cout);
  if (const auto* o = std::get_if<StudyCompareOptions>(&options.command))
    code = run_study_compare(*o, std::cout);
  if (const auto* o = std::get_if<LaunchOptions>(&options.command))
    code = run_launch(*o, std::cout);
  finish_output(std::cout);
  return code;
}

// What decides which calls a rank makes to the others: the command and the transport.
std::string calling_text(const Options& options) {
  const auto with = [](const std::string& command, const EngineOptions& engine) {
    return fmt::format("{} with --comm {} --backend {} --dtype {} --reduction {} --compute {}{}",
                       command, comm_name(engine.comm), backend_name(engine.backend),
                       precision_text(precision_of(engine.dtype, engine.kv_dtype)),
                       reduction_name(engine.reduction), compute_name(engine.compute),
                       communication_text(engine));
  };
  if (const auto* o = std::get_if<GenerateOptions>(&options.command))
    return with("generate", o->engine);
  if (const auto* o = std::get_if<ScoreOptions>(&options.command)) return with("score", o->engine);
  if (const auto* o = std::get_if<DoctorOptions>(&options.command))
    return with("doctor", o->engine);
  if (const auto* o = std::get_if<BenchOptions>(&options.command))
    return with("bench", o->engine) + bench_text(*o);
  if (const auto* o = std::get_if<CollOptions>(&options.command)) return coll_text(*o);
  if (const auto* o = std::get_if<TuneOptions>(&options.command))
    return fmt::format("tune --bytes {} --seconds {:g}", fmt::join(o->bytes, ","), o->seconds);
  if (const auto* o = std::get_if<CalibrateOptions>(&options.command))
    return fmt::format("calibrate --seconds {:g} --threads {} --emulate {}", o->seconds, o->threads,
                       o->emulate);
  const auto* o = std::get_if<DumpOptions>(&options.command);
  return o != nullptr && !o->diff ? with("dump", o->engine) : "a command of one process";
}

// Ranks that were started differently (mpirun can, and so can a configuration file of one host)
// would wait for each other for ever.
void agree_on_command(Communicator& comm, const Options& options) {
  const std::string mine = calling_text(options);
  std::vector<std::vector<std::byte>> all;
  comm.gather({SiteKind::load}, std::as_bytes(std::span(mine)), all, 0);
  agree_with_root(
      comm, caught([&] {
        for (std::size_t r = 1; comm.rank() == 0 && r < all.size(); ++r) {
          const std::string theirs(reinterpret_cast<const char*>(all[r].data()), all[r].size());
          if (theirs == mine) continue;
          fail(ExitCode::usage, {.what = fmt::format("rank {} was started differently", r),
                                 .expected = mine + " as on rank 0",
                                 .found = theirs,
                                 .remedy = "give every rank the same options"});
        }
      }));
}

int run_collective(const Options& options, const Job& job) {
  int code = 0;
  if (const auto* o = std::get_if<GenerateOptions>(&options.command)) code = run_generate(*o, job);
  if (const auto* o = std::get_if<ScoreOptions>(&options.command)) code = run_score(*o, job);
  if (const auto* o = std::get_if<DumpOptions>(&options.command)) code = run_dump(*o, job);
  if (const auto* o = std::get_if<DoctorOptions>(&options.command)) code = run_doctor(*o, job);
  if (const auto* o = std::get_if<BenchOptions>(&options.command)) code = run_bench(*o, job);
  if (const auto* o = std::get_if<CollOptions>(&options.command)) code = run_coll(*o, job);
  if (const auto* o = std::get_if<TuneOptions>(&options.command)) code = run_tune(*o, job);
  if (const auto* o = std::get_if<CalibrateOptions>(&options.command))
    code = run_calibrate(*o, job);
  return code;
}

// Ranks agree on what each made of its command line and configuration file, then run the command.
int run_in_world(int argc, char** argv, MpiWorld& world) {
  const auto backend = make_cpu_backend(1);
  const auto comm =
      make_communicator(world, *backend, {.transport = world.size() == 1 ? "auto" : "mpi"});
  Options options;
  agree(*comm, caught([&] {
    options = parse_options(argc, argv);
    log::init(world.rank(), world.size(), log_level(shared_options(options).verbosity));
    if (world.rank() == 0) {
      for (const std::string& note : options.notes) log::info(note);
    }
  }));
  agree_on_command(*comm, options);
  if (is_collective(options)) return run_collective(options, {world, *comm});
  int code = 0;
  agree_with_root(*comm, caught([&] {
    if (world.rank() == 0) code = run_alone(options);
  }));
  std::vector<std::byte> told{static_cast<std::byte>(code)};  // every rank ends with rank 0's code
  comm->broadcast({SiteKind::load}, told, 0);
  return static_cast<int>(told.front());
}

// As the launcher tells it to a process that has not started MPI.
bool is_later_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr) return std::string_view(rank) != "0";
  }
  return false;
}

int run_without_world(int argc, char** argv) {
  if (argc > 1 && starts_jobs(argv[1]) && started_by_mpi_launcher()) {
    if (is_later_rank()) return static_cast<int>(ExitCode::usage);
    refuse_mpi_launcher(argv[1]);
  }
  const Options options = parse_options(argc, argv);
  log::init(0, 1, log_level(shared_options(options).verbosity));
  for (const std::string& note : options.notes) log::info(note);
  return run_alone(options);
}

int report(const std::optional<Error>& error) {
  log::error(error->what());
  return static_cast<int>(error->code());
}

}  // namespace

int run_program(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, reported like others
  if (!wants_mpi(argc, argv)) {
    int code = 0;
    const auto error = caught([&] { code = run_without_world(argc, argv); });
    return error ? report(error) : code;
  }
  std::optional<MpiWorld> world;
  int code = 0;
  const auto error = caught([&] {
    world.emplace(argc, argv);
    log::init(world->rank(), world->size(), log::Level::normal);
    try {
      code = run_in_world(argc, argv, *world);
    } catch (const AgreedFailure& failure) {  // every rank has it: all leave in order
      if (!failure.quiet()) log::error(failure.what());
      code = static_cast<int>(failure.code());
    }
  });
  if (!error) return code;
  code = report(error);
  if (world && world->size() > 1) world->abort(error->code());
  return code;
}

}  // namespace shardlm
