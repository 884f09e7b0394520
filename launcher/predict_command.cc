#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/error.h"
#include "launcher/backend_options.h"
#include "launcher/commands.h"
#include "launcher/model_shape.h"
#include "study/link_presets.h"
#include "study/prediction.h"

namespace shardlm {
namespace {

// Without the class that was emulated, and what was measured over it.
void forget_emulation(Calibration& c) {
  if (c.emulate.empty()) return;
  std::erase_if(c.classes, [](const LinkClass& link) { return link.name == "emulated"; });
  if (c.compute) c.compute->meetings_s.reset();
  c.emulate.clear();
}

// What was measured, with the classes of the named link in the place of its own.
Calibration links_of(const PredictOptions& o) {
  if (o.calibration.empty()) return calibration_of_link(o.link);
  Calibration c = read_calibration(o.calibration);
  c.source += fmt::format(", {} ranks on {} machine{}", c.ranks, c.nodes, c.nodes == 1 ? "" : "s");
  if (!o.emulate.empty()) forget_emulation(c);
  if (o.link.empty()) return c;
  forget_emulation(c);
  const Calibration link = calibration_of_link(o.link);
  for (const LinkClass& theirs : link.classes) {
    // The preset's own shared memory is for links alone; here it was measured.
    if (theirs.name == "shm" && o.link != "shm" && c.find("shm") != nullptr) continue;
    std::erase_if(c.classes, [&](const LinkClass& mine) { return mine.name == theirs.name; });
    if (theirs.name == "node")
      std::erase_if(c.classes, [](const LinkClass& mine) { return mine.name == "shm"; });
    c.classes.push_back(theirs);
  }
  c.source = fmt::format("{}; computing by {}", link.source, c.source);
  c.nodes = 1;
  return c;
}

PredictionRequest request_of(const PredictOptions& o) {
  PredictionRequest r;
  r.model = o.shape.empty() ? o.model : o.shape;
  r.config = o.shape.empty() ? read_model_config(o.model) : parse_shape(o.shape, "--shape");
  r.precision = on_cpu(precision_of(o.dtype, o.kv_dtype));
  r.dtype = dtype_name(r.precision.weights);
  for (const std::int64_t n : o.ranks) r.ranks.push_back(static_cast<int>(n));
  if (o.nodes) r.layout.nodes = static_cast<int>(*o.nodes);
  if (o.ranks_per_node) r.layout.ranks_per_node = static_cast<int>(*o.ranks_per_node);
  r.prefill = o.phase == PhaseChoice::prefill;
  r.batch = o.batch;
  r.prompt = o.prompt;
  r.prefill_chunk = o.prefill_chunk;
  if (o.allreduce != "auto") r.choice = parse_choice(o.allreduce);
  r.links = links_of(o);
  if (!o.emulate.empty()) r.emulation = parse_emulation(o.emulate);
  r.read_gb_per_s = o.read_gb_per_s;
  r.gflop_per_s = o.gflop_per_s;
  if (o.memory_gb) r.memory_bytes = *o.memory_gb * 1e9;
  if (!o.from.empty()) {
    r.timing = read_one_rank_timing(o.from, {.config = &r.config,
                                             .prefill = r.prefill,
                                             .batch = r.batch,
                                             .prompt = r.prompt,
                                             .dtype = r.dtype});
  }
  if (!r.prefill) r.prompt = std::min(r.prompt, r.config.n_positions);
  if (r.prompt > r.config.n_positions) {
    fail(ExitCode::usage,
         {.expected = fmt::format("at most {} (n_positions)", r.config.n_positions),
          .found = std::to_string(r.prompt),
          .where = "--prompt",
          .remedy = "fewer tokens, or a model with a longer context"});
  }
  return r;
}

}  // namespace

void run_predict(const PredictOptions& options, std::ostream& out) {
  const PredictionRequest request = request_of(options);
  const Prediction prediction = predict(request);
  out << (options.shared.json ? prediction_json(request, prediction)
                              : prediction_text(request, prediction));
}

}  // namespace shardlm
