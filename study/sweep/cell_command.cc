#include "study/sweep/cell_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/algorithm_table.h"

namespace shardlm {
namespace {

using Words = std::vector<std::string>;

void add(Words& words, const std::string& option, const std::string& value) {
  words.insert(words.end(), {"--" + option, value});
}

template <typename Value>
void add_given(Words& words, const std::string& option, const std::optional<Value>& value) {
  if (value) add(words, option, fmt::format("{}", *value));
}

void add_model(Words& words, const std::string& model, const std::string& shape,
               const Factors& factors) {
  const std::string made_up = level_of(factors, "shape", shape);
  if (made_up.empty()) {
    add(words, "model", model);
  } else {
    add(words, "shape", made_up);
  }
}

// --wire counts only where no rule of --allreduce says another: an algorithm by its name alone is
// such a rule.
void add_sums(Words& words, const Factors& factors) {
  std::string allreduce = level_of(factors, "allreduce", "auto");
  std::string wire = level_of(factors, "wire", "f32");
  const bool rule = allreduce != "auto" && allreduce != "table";
  if (rule && wire != "f32" && allreduce.find_first_of("=,:") == std::string::npos) {
    allreduce += ":" + wire;
    parse_choice(allreduce);
    wire = "f32";
  }
  if (allreduce != "auto") add(words, "allreduce", allreduce);
  if (wire != "f32") add(words, "wire", wire);
}

void add_factors(Words& words, const Factors& factors) {
  for (const std::string& name : factor_names()) {
    const auto found = factors.find(name);
    if (found == factors.end() || name == "ranks" || name == "shape" || name == "allreduce" ||
        name == "wire" || (ranks_of(factors) == 1 && of_communication(name)) || name == "nodes" ||
        (name == "emulate" && found->second == "none")) {
      continue;
    }
    add(words, name, found->second);
  }
  if (ranks_of(factors) > 1) add_sums(words, factors);
}

void add_network(Words& words, const Factors& factors) {
  const std::string network = level_of(factors, "emulate", "none");
  if (network != "none") add(words, "emulate", network);
}

Words bench_words(const StudySpec& spec, const Cell& cell) {
  Words words = {"bench"};
  add_model(words, spec.model, spec.shape, cell.factors);
  add_factors(words, cell.factors);
  const RepeatSpec& repeat = spec.repeat;
  add_given(words, "repetitions", repeat.repetitions);
  add_given(words, "warmup", repeat.warmup);
  add_given(words, "most", repeat.most);
  add_given(words, "ci-width", repeat.ci_width);
  add_given(words, "max-seconds", repeat.max_seconds);
  add(words, "format", "jsonl");
  return words;
}

Words coll_words(const StudySpec& spec, const Cell& cell) {
  const CollSpec& coll = *spec.coll;
  Words words = {"bench", "coll"};
  if (!coll.bytes.empty()) add(words, "bytes", fmt::format("{}", fmt::join(coll.bytes, ",")));
  if (!coll.algorithms.empty())
    add(words, "algorithms", fmt::format("{}", fmt::join(coll.algorithms, ",")));
  add_network(words, cell.factors);
  add_given(words, "max-seconds", coll.max_seconds);
  add(words, "format", "jsonl");
  return words;
}

}  // namespace

std::vector<std::string> calibrate_words(const StudySpec& spec, const Cell& cell) {
  Words words = {"calibrate"};
  for (const std::string name : {"threads", "dtype"}) {
    if (cell.factors.contains(name)) add(words, name, cell.factors.at(name));
  }
  add_given(words, "seconds", spec.calibrate_seconds);
  add(words, "out", fmt::format("{}/{}", kStudyFolder, kCalibrationFile));
  return words;
}

std::vector<std::string> program_words(const StudySpec& spec, const Cell& cell) {
  check(cell.kind != CellKind::calibrate, "calibrations have words of their own");
  return cell.kind == CellKind::bench ? bench_words(spec, cell) : coll_words(spec, cell);
}

std::vector<std::string> predicted_phases(const Factors& factors) {
  Words phases;
  if (level_of(factors, "generate", "64") != "0") phases.emplace_back("decode");
  if (level_of(factors, "prompt", "128") != "0") phases.emplace_back("prefill");
  return phases;
}

std::vector<std::string> predict_words(const std::string& model, const std::string& shape,
                                       const Factors& factors, const std::string& phase,
                                       const std::string& file, const std::string& from) {
  Words words = {"predict", "--json", "--calibration", file, "--from", from, "--phase", phase};
  add_model(words, model, shape, factors);
  add_network(words, factors);
  for (const std::string name : {"ranks", "nodes", "dtype", "kv-dtype", "batch", "prefill-chunk"}) {
    if (factors.contains(name)) add(words, name, factors.at(name));
  }
  // Of decoding: the tokens that stand before, on average over the steps.
  const std::string prompt = level_of(factors, "prompt", "128");
  const int steps = std::stoi(level_of(factors, "generate", "64"));
  add(words, "prompt", phase == "prefill" ? prompt : fmt::format("{}", 1 + steps / 2));
  const std::string allreduce = level_of(factors, "allreduce", "auto");
  if (allreduce != "auto" && allreduce != "table") add(words, "allreduce", allreduce);
  return words;
}

}  // namespace shardlm
