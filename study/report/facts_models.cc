#include <map>

#include "study/report/facts.h"
#include "study/report/json_fields.h"
#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

std::optional<PredictedPoint> point_of(const Json& p) {
  const auto ranks = count(p, "ranks");
  const auto rate = positive(p, "tokens_per_s");
  const Json& ms = member(p, "ms");
  if (!ranks || !rate) return std::nullopt;
  return PredictedPoint{.ranks = *ranks,
                        .nodes = count(p, "nodes").value_or(1),
                        .tokens_per_s = *rate,
                        .compute_ms = number(ms, "compute").value_or(0),
                        .all_reduce_ms = number(ms, "all_reduce").value_or(0),
                        .head_ms = number(ms, "head").value_or(0),
                        .other_ms = number(ms, "other").value_or(0),
                        .total_ms = number(ms, "total").value_or(0),
                        .algorithm = text(p, "algorithm")};
}

std::optional<Prediction> prediction_of(const Json& json) {
  Prediction p;
  p.cell = text(json, "cell");
  p.source = text(json, "source");
  p.emulate = text(json, "emulate");
  p.decode = text(json, "phase") != "prefill";
  p.batch = positive(json, "batch").value_or(1);
  p.tokens = positive(json, "tokens").value_or(1);
  const Json& points = member(json, "points");
  if (!points.is_array()) return std::nullopt;
  for (const Json& one : points) {
    if (auto point = point_of(one)) p.points.push_back(*point);
  }
  const Json& breaks = member(json, "break_even");
  if (breaks.is_array()) {
    for (const Json& b : breaks) {
      const auto ranks = count(b, "ranks");
      const auto us = number(b, "alpha_us");
      if (ranks && us) p.break_even_us.emplace_back(*ranks, *us);
    }
  }
  if (p.points.empty()) return std::nullopt;
  return p;
}

std::optional<LinkClass> class_of(const Json& json) {
  LinkClass c;
  c.name = text(json, "name");
  c.transport = text(json, "transport");
  c.pairs = number(json, "pairs").value_or(0);
  c.per_message_s = number(json, "per_message_s").value_or(0);
  c.fit_error = number(json, "fit_error");
  const Json& segments = member(json, "segments");
  if (!segments.is_array()) return std::nullopt;
  for (const Json& s : segments) {
    const auto from = number(s, "from"), to = number(s, "to");
    const auto alpha = number(s, "alpha_s"), beta = number(s, "beta_s_per_byte");
    if (alpha && beta) c.segments.push_back({from.value_or(0), to.value_or(0), *alpha, *beta});
  }
  if (c.segments.empty()) return std::nullopt;
  return c;
}

// What adding a byte costs: of the largest piece that is measured at no more than 64 KiB, where the
// messages of decoding lie, else of the first.
double gamma_of(const Json& calibration) {
  const Json& all = member(calibration, "gamma");
  if (!all.is_array()) return 0;
  double gamma = 0;
  for (const Json& g : all) {
    const auto cost = number(g, "s_per_byte");
    if (!cost) continue;
    if (gamma == 0 || number(g, "to_bytes").value_or(0) <= 65536) gamma = *cost;
  }
  return gamma;
}

void take_classes(const Json& calibration, Facts& facts) {
  const Json& classes = member(calibration, "classes");
  if (!classes.is_array()) return;
  for (const Json& one : classes) {
    auto c = class_of(one);
    if (!c) continue;
    c->emulate = text(calibration, "emulate");
    if (c->emulate == "none") c->emulate.clear();
    facts.links.push_back(std::move(*c));
  }
}

}  // namespace

void gather_models(const StudyData& study, Facts& facts) {
  std::map<std::string, std::size_t> unpredicted;
  for (const Json& line : study.predictions) {
    if (auto p = prediction_of(line)) {
      facts.predictions.push_back(std::move(*p));
      continue;
    }
    const std::string why = text(line, "unpredicted");
    ++unpredicted[why.empty() ? "no usable points" : why];
  }
  for (const auto& [why, n] : unpredicted)
    facts.notes.push_back(count_text(static_cast<double>(n), "prediction") +
                          " could not be made: " + why);
  take_classes(study.calibration, facts);
  for (const Json& calibration : study.more_calibrations) take_classes(calibration, facts);
  facts.gamma_s_per_byte = gamma_of(study.calibration);
  facts.calibration_hash = text(study.calibration, "hash");
}

}  // namespace shardlm::report
