// How fast a model should run on P ranks: one rank's measured time, shared out, and the collectives
// of a calibration or a documented link. docs/communication.md, "Prediction".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/emulation.h"
#include "model/config.h"
#include "model/plan.h"
#include "study/calibration.h"
#include "study/one_rank_timings.h"

namespace shardlm {

/// Where ranks are: on so many machines, or so many on each; neither: see layout_of().
struct Layout {
  std::optional<int> nodes = {}, ranks_per_node = {};
};

struct PredictionRequest {
  std::string model = {};  ///< as the user named it
  ModelConfig config = {};
  std::vector<int> ranks = {};
  Layout layout = {};
  Precision precision = {};
  std::string dtype = "f32";
  bool prefill = false;
  std::int64_t batch = 1;
  std::int64_t prompt = 128;  ///< of a prefill; of decoding: tokens that stand before
  std::int64_t prefill_chunk = 512;
  std::optional<AllReduceChoice> choice = {};  ///< none: the quickest by the model
  Calibration links = {};
  Emulation emulation = {};
  std::optional<OneRankTiming> timing = {};
  std::optional<double> read_gb_per_s = {}, gflop_per_s = {};  ///< of one rank
  std::optional<double> memory_bytes = {};                     ///< of one rank
};

/// Milliseconds of a decoding step, or of a whole prefill.
struct PredictedParts {
  double compute = 0;     ///< blocks: the largest share, and what every rank does
  double all_reduce = 0;  ///< the blocks' and the embedding's
  double head = 0;        ///< logits, and the replies' way to rank 0
  double other = 0;       ///< scheduling, sampling, the plan's way to the ranks
  double total() const { return compute + all_reduce + head + other; }
};

struct PredictedPoint {
  int ranks = 1, nodes = 1;
  PredictedParts ms = {};
  double tokens_per_s = 0;
  std::string algorithm = {};  ///< of the largest messages; "-" of one rank
  double speedup = 1, efficiency = 1;
  double load_balance = 1;  ///< mean share of the work to the largest
  std::optional<bool> fits_memory = {};
  double rank_bytes = 0;                           ///< weights, keys and values of the largest
  std::optional<double> break_even_alpha_us = {};  ///< none: at no latency is it quicker than 1
};

struct Prediction {
  std::vector<PredictedPoint> points;
  int best_ranks = 1;
  std::vector<std::string> notes;  ///< what was assumed, a sentence each
};

/// Error(usage) where something is missing: no time of one rank and no rates, no class of links for
/// ranks laid out so, an algorithm that cannot work there.
Prediction predict(const PredictionRequest& request);

/// The machines of P ranks: as asked; else one, or, where the links are a network's alone or
/// several machines' ones, a machine a rank.
GroupShape layout_of(const PredictionRequest& request, int ranks);

std::string prediction_json(const PredictionRequest& request, const Prediction& prediction);
std::string prediction_text(const PredictionRequest& request, const Prediction& prediction);

}  // namespace shardlm
