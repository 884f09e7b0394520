// What a study found, put together from its files: a row for each test of each cell over all its
// launches. The sections of the report are made of this and read no JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/report/study_report.h"
#include "study/report/summary.h"

namespace shardlm::report {

/// A step of a rank in the mean over ranks and steps, milliseconds.
struct StepTimes {
  double compute = 0, wait = 0, transfer = 0, other = 0;
  double total() const { return compute + wait + transfer + other; }
};
struct RankTimes {
  int rank = 0;
  std::string host, core;
  StepTimes ms;
};
/// All-reduces of a step: what formulas say and what was counted; bytes are payload, of one rank.
struct Traffic {
  double calls = 0, bytes_per_call = 0, counted_bytes = 0;
  std::optional<double> expected_calls = {}, expected_bytes = {};
  std::optional<double> sent_bytes = {};  ///< by all ranks, as the algorithm sends them
  std::string algorithms = {};
};
struct Quality {
  double tokens = 0;
  bool fixed_text = false;
  double max_logit_difference = 0, top1 = 0, kl = 0;
  std::optional<double> perplexity_change = {};
};

/// One test of one cell.
struct BenchRow {
  std::string cell, test;
  bool decode = true;
  int ranks = 1, nodes = 1;
  double batch = 1, tokens = 1;  ///< tokens: of a sequence, in the test
  std::string allreduce, wire, overlap, emulate, model;
  std::map<std::string, std::string> setting =
      {};           ///< what it was asked to be, all of it: for grouping
  Summary rate;     ///< tokens/s
  Summary time_ms;  ///< a decode step; a prefill to the first token
  /// Of the launch whose time is in the middle, so that they belong together.
  std::optional<StepTimes> step = {};
  std::optional<double> load_balance = {}, serialisation = {}, transfer_efficiency = {};
  std::optional<double> closing_error = {};
  std::vector<RankTimes> rank_times = {};
  std::optional<Traffic> traffic = {};
  std::optional<Quality> quality = {};
  std::optional<double> read_gb_per_s = {}, weight_bytes = {}, parameters = {},
                        joules_per_token = {};
  std::string exactness = {};
  std::vector<double> gaps_ms = {};  ///< between tokens, of all launches
  std::size_t noisy = 0, oversubscribed = 0,
              open = 0;                    ///< launches; open: whose parts do not add up
  std::optional<double> parallel() const;  ///< load balance x serialisation x transfer efficiency
  bool messages_only = false;              ///< nothing was computed (--compute none)
  bool doubtful() const { return noisy + oversubscribed > 0; }
  bool approximate() const { return exactness == "approximate"; }
};

/// One algorithm at one size.
struct CollRow {
  std::string cell, op, algorithm, emulate, mode, buffers;
  int ranks = 1, nodes = 1;
  double bytes = 0;
  Summary us;  ///< medians
  std::optional<double> model_us = {};
  std::size_t wrong = 0, noisy = 0, oversubscribed = 0;
  double calls = 0;  ///< of all launches
  std::map<std::string, std::string> setting = {};
};

struct PredictedPoint {
  int ranks = 1, nodes = 1;
  double tokens_per_s = 0;
  double compute_ms = 0, all_reduce_ms = 0, head_ms = 0, other_ms = 0, total_ms = 0;
  std::string algorithm = {};
};
struct Prediction {
  std::string cell, source, emulate;
  bool decode = true;
  double batch = 1, tokens = 1;
  std::vector<PredictedPoint> points = {};
  std::vector<std::pair<int, double>> break_even_us = {};
};

struct Segment {
  double from = 0, to = 0, alpha_s = 0, beta_s_per_byte = 0;
};
struct LinkClass {
  std::string name, transport;
  std::string emulate = {};  ///< the network that the calibration was made over
  double pairs = 0;
  std::vector<Segment> segments = {};
  double per_message_s = 0;
  std::optional<double> fit_error = {};
};

struct CellStatus {
  std::string id, kind, skipped;  ///< skipped: why; empty: it was not
  std::string factors;            ///< "ranks=2 batch=1"
  std::string command;            ///< as a shell takes it
  std::size_t planned = 0, ok = 0;
};
struct Failure {
  std::string cell, factors, status, messages, command;
  std::string ending;  ///< "exit code 5", "signal 9"
  double launch = 0;
};

struct Facts {
  std::string name, method_version, seed, started;
  double launches_asked = 0;
  std::vector<BenchRow> benches = {};
  std::vector<CollRow> colls = {};
  std::vector<Prediction> predictions = {};
  std::vector<LinkClass> links = {};
  double gamma_s_per_byte = 0;
  std::string calibration_hash = {};
  std::vector<CellStatus> cells = {};
  std::vector<Failure> failures = {};
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< of the first launch
  std::vector<std::string> environment_changes = {};  ///< names that differ between launches
  std::vector<std::string> notes = {};
  std::size_t launches_ok = 0;
  double wall_s = 0;
  std::string yaml = {};
};

Facts gather_facts(const StudyData& study);
void gather_benches(const StudyData& study, Facts& facts);
void gather_colls(const StudyData& study, Facts& facts);
void gather_models(const StudyData& study, Facts& facts);  ///< calibration and predictions

/// The number that a name=value list as of --emulate gives a name: "latency_us=100,gbit=1".
std::optional<double> list_number(const std::string& list, const std::string& name);

}  // namespace shardlm::report
