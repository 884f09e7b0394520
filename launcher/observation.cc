#include "launcher/observation.h"

#include <fmt/format.h>

#include <iostream>

#include "base/log.h"
#include "launcher/host_facts.h"

namespace shardlm {

RankIdentity rank_identity(const MpiWorld& world) {
  return {world.host_name(), number_list_text(read_host_facts().cores), machine_id()};
}

Observation::Observation(Communicator& comm, const MpiWorld& world, const EngineOptions& options,
                         std::string title)
    : comm_(comm),
      options_(options.observe),
      fixed_point_(options.reduction == ReductionChoice::exact),
      title_(std::move(title)),
      who_(rank_identity(world)) {
  CallLog* const log = comm_.log();
  const auto capacity = static_cast<std::size_t>(options_.log);
  if (log != nullptr && capacity > 0) *log = CallLog(capacity, capacity / 8 + 1);
}

void Observation::begin_run(const ModelConfig& config,
                            std::function<std::optional<WireQuality>()> quality) {
  const bool wanted = options_.report || options_.live || !options_.trace.empty();
  CallLog* const log = comm_.log();
  if (!wanted) return;
  if (log == nullptr) {
    if (comm_.rank() == 0) log::info("no report, trace or line a step: " + comm_.describe());
    return;
  }
  ObserverOptions wishes;
  wishes.report = options_.report;
  wishes.per_layer = options_.per_layer;
  wishes.trace_file = options_.trace;
  wishes.live = options_.live;
  wishes.title = title_;
  wishes.model = config;
  wishes.exactness = name(comm_.exactness(fixed_point_));
  if (options_.report) wishes.quality = std::move(quality);
  observer_ = std::make_unique<RunObserver>(comm_, *log, who_, std::move(wishes));
  observer_->begin_run();
}

void Observation::step_ended() {
  if (observer_) log::info(observer_->live_line(++n_steps_));
}

void Observation::finish() {
  if (!observer_) return;
  const std::string text = observer_->finish();
  if (!text.empty()) std::cerr << text << std::flush;
}

}  // namespace shardlm
