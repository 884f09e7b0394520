// Watches one rank's run and, at its end, tells what its collectives cost. Made by the launcher,
// which owns the options and the communicator that fills the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "study/comm_report.h"
#include "study/live_line.h"

namespace shardlm {

struct ObserverOptions {
  bool report = false;                     ///< text at the end
  bool per_layer = false;                  ///< in the report, layers apart
  std::filesystem::path report_file = {};  ///< the report as JSON; empty: none
  std::filesystem::path trace_file = {};   ///< empty: none
  bool live = false;                       ///< a line a token
  std::size_t calls = 1 << 16;             ///< kept by a rank: 7 MiB; the oldest go first
  std::size_t steps = 1 << 13;
  std::string title = {};                 ///< of the trace: "gpt2-124m, 2 ranks"
  std::optional<ModelConfig> model = {};  ///< checks counts and bytes
  std::optional<LinkCost> link = {};      ///< from tune
  std::string exactness = {};             ///< of the sums
  /// Collective, after the run: the quality of rounded sums; empty: none are.
  std::function<std::optional<WireQuality>()> quality = {};
  bool wanted() const { return report || live || !report_file.empty() || !trace_file.empty(); }
  /// The same on all ranks: something is made from all ranks' records at the end.
  bool collective() const { return report || !report_file.empty() || !trace_file.empty(); }
};

class RunObserver {
 public:
  /// Collective. Empties the log, or gives it memory: records begin now. `comm` and `log` are this
  /// rank's and outlive the observer; the log is `comm`'s.
  RunObserver(Communicator& comm, CallLog& log, RankIdentity who, ObserverOptions options);

  /// The model is loaded: from here on the tables account for every rank's time.
  void begin_run();

  /// The line of the last pass, for the `token`-th new token, as this rank saw it. Without a
  /// message to anybody, so that it costs the run next to nothing.
  std::string live_line(std::uint64_t token) const;

  /// Collective, once, at a good end. Writes the files (rank 0; an Error(ExitCode::usage) if that
  /// fails) and returns the text at rank 0, "" elsewhere.
  std::string finish();

 private:
  Communicator& comm_;
  CallLog& log_;
  RankIdentity who_;
  ObserverOptions options_;
  std::vector<ClockOffset> first_offsets_;
  TickAnchor first_, run_;
};

}  // namespace shardlm
