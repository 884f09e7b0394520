#include "launcher/study_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "comm/mpi_world.h"
#include "engine/bench.h"
#include "launcher/host_facts.h"
#include "launcher/model_shape.h"
#include "launcher/options.h"
#include "launcher/version_command.h"
#include "study/measuring.h"
#include "study/sweep/cell_command.h"
#include "study/sweep/guess.h"
#include "study/sweep/meeting_refusal.h"

namespace shardlm {
namespace {

using Words = std::vector<std::string>;
constexpr std::size_t kMostLaunches = 100'000;

// What the program would say to these words before it loads anything; empty: nothing.
std::string refusal_of_program(const Words& words) {
  std::vector<const char*> argv = {"shardlm"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  try {
    parse_options(static_cast<int>(argv.size()), argv.data());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Of this machine if the jobs run on it, else 0.
int cores_here(const LaunchSpec& launch, const LauncherFacts& facts) {
  return launch.hosts.empty() && launch.by == LaunchSpec::By::mpirun ? facts.cores : 0;
}

class Planner {
 public:
  Planner(const StudySpec& spec, const LauncherFacts& facts, const std::string& program)
      : spec_(spec), facts_(facts), program_(program) {}

  std::vector<Cell> cells() {
    const int cores = cores_here(spec_.launch, facts_);
    std::vector<Cell> cells =
        make_cells(spec_, cores > 0 ? cores : std::numeric_limits<int>::max());
    for (Cell& cell : cells) {
      if (cell.runs()) cell.skipped = launch_refusal(spec_.launch, cell.factors);
      if (!cell.runs()) continue;
      if (cell.kind == CellKind::calibrate) {
        plan(cell, calibrate_words(spec_, cell));
      } else {
        plan_measurement(cell);
      }
    }
    return cells;
  }

 private:
  void plan_measurement(Cell& cell) {
    try {
      if (cell.kind == CellKind::bench) check_tests(cell.factors);
      cell.skipped = meeting_refusal(cell.factors);
      if (cell.runs()) plan(cell, program_words(spec_, cell));
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      cell.skipped = error.what();
    }
  }

  void plan(Cell& cell, Words words) {
    cell.skipped = refusal_of_program(words);
    if (!cell.runs()) return;
    words.insert(words.begin(), program_);
    cell.command = launch_words(spec_.launch, facts_, cell.factors, words);
    cell.guess_s = guess_seconds(spec_, cell, size_of(config_of(cell.factors)), facts_.cores);
  }

  const ModelConfig& config_of(const Factors& factors) {
    const std::string shape = level_of(factors, "shape", spec_.shape);
    const auto found = configs_.find(shape);
    if (found != configs_.end()) return found->second;
    const bool made_up = spec_.model.empty();
    return configs_
        .emplace(shape, made_up ? parse_shape(shape.empty() ? "gpt2" : shape, "shape")
                                : read_model_config(spec_.model))
        .first->second;
  }

  static ModelSize size_of(const ModelConfig& config) {
    return {static_cast<double>(parameter_count(config)), static_cast<int>(config.n_layer)};
  }

  // As bench does before it loads anything.
  void check_tests(const Factors& factors) {
    const std::int64_t n_positions = config_of(factors).n_positions;
    const auto tokens = [&](const std::string& name) {
      const auto found = factors.find(name);
      return found == factors.end() ? std::int64_t{-1} : std::stoll(found->second);
    };
    using Kind = BenchTest::Kind;
    if (tokens("prompt") > 0) check_fits({Kind::prefill, tokens("prompt"), 1}, n_positions);
    if (tokens("generate") > 0) check_fits({Kind::decode, tokens("generate"), 1}, n_positions);
    if (tokens("prompt") == 0 && tokens("generate") == 0) {
      fail(ExitCode::usage, {.what = "neither a prompt nor steps to generate"});
    }
  }

  const StudySpec& spec_;
  const LauncherFacts& facts_;
  const std::string& program_;
  std::map<std::string, ModelConfig> configs_;
};

std::string budget_text(const SweepPlan& plan) {
  std::vector<double> seconds;
  double all_s = 0;
  for (const Cell& cell : plan.cells) seconds.push_back(cell.guess_s);
  for (const LaunchRef& ref : plan.order) all_s += seconds[ref.cell];
  std::string text = fmt::format("{} jobs, about {} (a guess, which the first jobs correct)\n",
                                 plan.order.size(), duration_text(all_s));
  if (!plan.budget_minutes) return text;
  const BudgetFit fit = fit_budget(plan.order, seconds, *plan.budget_minutes * 60);
  text += fmt::format("budget {:g} min: ", *plan.budget_minutes);
  if (fit.dropped == 0) return text + "all of them fit\n";
  text += fmt::format("{} of {} launches of each cell fit, {} jobs are dropped", fit.rounds,
                      plan.repeat.launches, fit.dropped);
  if (fit.cells_left > 0) {
    text += fmt::format("; {} cells have no launch at all: allow more minutes or fewer levels",
                        fit.cells_left);
  }
  return text + "\n";
}

}  // namespace

int current_method_version() { return kMethodVersion; }

std::vector<std::pair<std::string, std::string>> program_facts() {
  auto facts = version_facts();
  std::erase_if(facts, [](const auto& f) { return f.first != "version" && f.first != "commit"; });
  return facts;
}

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ExitCode::resources, {.what = "the program's own path cannot be read"});
  return path.string();
}

LauncherFacts launcher_facts() {
  return {.open_mpi = mpi_library_version().starts_with("Open MPI"),
          .root = ::geteuid() == 0,
          .cores = std::max(1, static_cast<int>(read_host_facts().cores.size()))};
}

SweepPlan make_plan(const StudySpec& spec, const std::string& yaml, const LauncherFacts& facts,
                    const std::string& program) {
  SweepPlan plan;
  plan.study = spec.name;
  plan.method_version = current_method_version();
  plan.yaml_hash = text_hash(yaml);
  plan.model = spec.model;
  plan.shape = spec.shape;
  plan.made_by.emplace_back("program", program);
  for (const auto& fact : program_facts()) plan.made_by.push_back(fact);
  plan.factors = spec.factors;
  plan.repeat = spec.repeat;
  plan.env = spec.launch.env;
  plan.timeout_s = spec.launch.timeout_s;
  plan.cores = cores_here(spec.launch, facts);
  plan.predict = spec.predict;
  plan.report = spec.report;
  plan.budget_minutes = spec.budget_minutes;
  plan.cells = Planner(spec, facts, program).cells();
  if (plan.cells.size() * static_cast<std::size_t>(spec.repeat.launches) > kMostLaunches) {
    fail(ExitCode::usage,
         {.what = "study " + spec.name,
          .expected = fmt::format("at most {} jobs", kMostLaunches),
          .found = fmt::format("{} cells of {} launches", plan.cells.size(), spec.repeat.launches),
          .remedy = "give fewer levels, or design: {kind: one-at-a-time}"});
  }
  plan.order = launch_order(plan.cells, spec.repeat, spec.predict);
  return plan;
}

std::string plan_text(const SweepPlan& plan, const std::string& folder) {
  const auto skipped = std::ranges::count_if(plan.cells, [](const Cell& c) { return !c.runs(); });
  std::string text = fmt::format(
      "study {}: {} cells{}, {} launches each, into {}\n", plan.study, plan.cells.size(),
      skipped ? fmt::format(" ({} skipped)", skipped) : "", plan.repeat.launches, folder);
  text += budget_text(plan);
  text += fmt::format("order: {}\n", plan.repeat.random
                                         ? fmt::format("random, seed {}", plan.repeat.seed)
                                         : "as written");
  for (const Cell& cell : plan.cells) {
    text += fmt::format("\n{}  {:<9}  {}\n", cell.id, name(cell.kind), factors_text(cell.factors));
    text += cell.runs() ? "      " + shell_text(cell.command) + "\n"
                        : "      skipped: " + cell.skipped + "\n";
  }
  return text;
}

}  // namespace shardlm
