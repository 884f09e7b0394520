// gpu_check die: the last rank is killed before a step.
#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/error.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/figures.h"
#include "tools/gpu_check/golden_pack.h"
#include "tools/gpu_check/model_rank.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

constexpr std::int64_t kFatalStep = 4;  // a decode step that is replayed where passes are recorded
constexpr double kMargin_s = 10;        // for the start of the device and the end of the processes

void run_until_death(const GoldenCase& golden, Communicator& comm, Backend& backend) {
  GoldenWeights weights(golden);
  const bool dies = comm.rank() == comm.size() - 1;
  const ModelRun model{
      .config = golden.config, .weights = weights, .n_blocks = 8, .hook = [&](std::int64_t step) {
        if (dies && step == kFatalStep) std::raise(SIGKILL);
      }};
  run_model(model, comm, backend, [&](Coordinator& coordinator) {
    for (std::size_t p = 0; p < golden.prompt.size(); ++p) {
      StepPlan plan;
      plan.sequences.push_back(
          sequence_plan(0, 1, static_cast<std::int64_t>(p), {golden.prompt[p]}));
      plan.queries.push_back({.row = 0, .query = {}, .penalties = {}});
      coordinator.run(plan);
    }
  });
}

/// "" if every rank ended as it must.
std::string verdict(const std::vector<RankEnd>& ends, const RankOptions& options) {
  const std::size_t dead = ends.size() - 1;
  const std::string name = "rank " + std::to_string(dead);
  if (ends[dead].code != -SIGKILL) return name + " was not killed: " + ends[dead].text;
  bool named = false;
  for (std::size_t r = 0; r < dead; ++r) {
    const RankEnd& end = ends[r];
    if (end.code != static_cast<int>(ExitCode::peer)) {
      return "rank " + std::to_string(r) + " ended with " + std::to_string(end.code) + ", not " +
             std::to_string(static_cast<int>(ExitCode::peer)) + ": " + end.text;
    }
    named = named || end.text.find(name) != std::string::npos;
  }
  // NCCL cannot tell who is missing.
  if (!named && options.comm != "nccl") return "no rank named " + name + ": " + ends[0].text;
  return {};
}

}  // namespace

int run_die(Arguments& arguments) {
  RankOptions options = rank_options(arguments);
  const std::string pack_path = arguments.text("pack", "tests/data/golden/gpu_check.pack");
  const std::string figures = arguments.text("figures", "");
  const bool graphs = arguments.switches("graphs", "on").front();
  arguments.finish();
  const GoldenPack pack(pack_path);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<RankEnd> ends =
      fork_ranks(options, [&](int, std::unique_ptr<Communicator> host) {
        HostEnd end(options, std::move(host));
        end.with_device({}, graphs, [&](Communicator& comm, Backend& backend) {
          run_until_death(pack.cases().front(), comm, backend);
        });
        return 0;
      });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (common_code(ends) == kSkipped) return kSkipped;
  std::string wrong = verdict(ends, options);
  if (wrong.empty() && !(seconds <= 3 * options.deadlines.collective_s + kMargin_s)) {
    wrong = "the others took too long to end";
  }
  Figures().set("seconds", seconds).set("message", ends.front().text).save(figures);
  std::printf("%s (%.1f s)\n", wrong.empty() ? ends.front().text.c_str() : wrong.c_str(), seconds);
  return wrong.empty() ? 0 : 1;
}

}  // namespace shardlm::gpu_check
