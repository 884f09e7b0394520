#include "launcher/study_predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "launcher/stop_signal.h"
#include "launcher/study_plan.h"
#include "study/sweep/cell_command.h"
#include "study/sweep/cells_file.h"
#include "study/sweep/process.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// What of a cell its measurement on one rank must share.
Factors of_one_rank(Factors factors) {
  std::erase_if(factors, [](const auto& entry) { return of_communication(entry.first); });
  factors["ranks"] = "1";
  return factors;
}

class Predictor {
 public:
  Predictor(const SweepPlan& plan, fs::path folder, const std::vector<Json>& launches)
      : plan_(plan), folder_(std::move(folder)), launches_(launches) {}

  Json predict(const Cell& cell, const std::string& phase) {
    const int ranks = ranks_of(cell.factors), threads = std::max(1, threads_of(cell.factors));
    if (plan_.cores > 0 && ranks * threads > plan_.cores) {
      return without(cell, phase,
                     fmt::format("{} ranks of {} threads share {} cores, and a prediction is for "
                                 "ranks with cores of their own",
                                 ranks, threads, plan_.cores));
    }
    const std::string from = one_rank_file(cell);
    if (from.empty()) return without(cell, phase, "the same on one rank is not measured");
    const fs::path file = folder_ / kCalibrationFile;
    if (!fs::exists(file)) return without(cell, phase, "the calibration has failed");
    std::vector<std::string> command = {own_program()};
    for (const std::string& word :
         predict_words(plan_.model, plan_.shape, cell.factors, phase, file.string(), from)) {
      command.push_back(word);
    }
    const ProcessEnd end = run_process(
        {.command = command, .env = plan_.env, .timeout_s = 60},
        [](double) { return StopSignal::caught() != 0; }, [](int) {});
    Json prediction = Json::parse(end.output, nullptr, /*allow_exceptions=*/false);
    if (!end.ok() || !prediction.is_object()) return without(cell, phase, end.messages);
    Json line = {{"cell", cell.id}};
    line.update(prediction);
    line["command"] = command;
    return line;
  }

 private:
  static Json without(const Cell& cell, const std::string& phase, const std::string& why) {
    return {{"cell", cell.id}, {"phase", phase}, {"unpredicted", why}};
  }

  // The results of the cell's counterpart on one rank, in a file for predict.
  std::string one_rank_file(const Cell& cell) const {
    const Factors wanted = of_one_rank(cell.factors);
    for (const Json& launch : launches_) {
      if (launch.at("status") != "ok" || launch.at("kind") != "bench") continue;
      const auto factors = launch.at("factors").get<Factors>();
      if (ranks_of(factors) != 1 || of_one_rank(factors) != wanted) continue;
      std::string lines;
      for (const Json& result : launch.at("results")) lines += result.dump() + '\n';
      const fs::path path =
          folder_ / fmt::format("one-rank-{}.jsonl", launch.at("cell").get<std::string>());
      if (!fs::exists(path)) write_whole_file(path, lines);
      return path.string();
    }
    return "";
  }

  const SweepPlan& plan_;
  fs::path folder_;
  const std::vector<Json>& launches_;
};

}  // namespace

void write_predictions(const SweepPlan& plan, const fs::path& folder,
                       const std::vector<Json>& launches) {
  Predictor predictor(plan, folder, launches);
  std::string lines;
  std::size_t predicted = 0, all = 0;
  for (const Cell& cell : plan.cells) {
    if (cell.kind != CellKind::bench || !cell.runs() || ranks_of(cell.factors) == 1) continue;
    for (const std::string& phase : predicted_phases(cell.factors)) {
      const Json line = predictor.predict(cell, phase);
      if (StopSignal::caught() != 0) return;  // they are made again
      ++all;
      predicted += !line.contains("unpredicted");
      lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    }
  }
  write_whole_file(folder / "predictions.jsonl", lines);
  log::info(
      fmt::format("{} of {} times are predicted, before any of them is measured", predicted, all));
}

}  // namespace shardlm
