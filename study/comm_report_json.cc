#include <nlohmann/json.hpp>

#include "study/comm_report.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
Json or_null(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json site_json(const SiteRow& s) {
  return {{"site", site_text(s.site)},
          {"phase", phase_text(s.phase)},
          {"algorithm", s.algorithms},
          {"calls", s.calls},
          {"steps", s.steps},
          {"bytes", s.bytes},
          {"sent_bytes_all_ranks", or_null(s.wire_tx)},
          {"call_ms_per_step", s.call_ms},
          {"wait_ms_per_step", s.wait_ms},
          {"transfer_ms_per_step", s.transfer_ms},
          {"hidden_ms_per_step", s.hidden_ms},
          {"share_of_step", s.share},
          {"transfer_median_us", s.median_transfer_us},
          {"transfer_p50_us", or_null(s.p50_us)},
          {"transfer_p99_us", or_null(s.p99_us)},
          {"model_us", or_null(s.model_us)},
          {"efficiency", or_null(s.efficiency)}};
}

Json phase_json(const PhaseRow& p) {
  return {{"phase", phase_text(p.phase)},
          {"steps", p.steps},
          {"tokens", p.tokens},
          {"step_ms", p.step_ms},
          {"compute_ms", p.compute_ms},
          {"wait_ms", p.wait_ms},
          {"transfer_ms", p.transfer_ms},
          {"other_ms", p.other_ms},
          {"hidden_ms", p.hidden_ms},
          {"overlap", p.overlap()},
          {"load_balance", p.load_balance},
          {"serialisation_efficiency", p.serialisation},
          {"transfer_efficiency", p.transfer},
          {"parallel_efficiency", p.parallel()}};
}

Json quality_json(const WireQuality& q) {
  return {{"asked", q.asked},
          {"text", q.text},
          {"tokens", q.tokens},
          {"decoded", q.decoded},
          {"max_logit_difference", q.max_logit_difference},
          {"top1_agreement", q.top1_agreement},
          {"kl", q.kl},
          {"perplexity", q.perplexity},
          {"perplexity_change", q.perplexity_change}};
}

Json rank_json(std::size_t rank, const RankRow& r) {
  return {{"rank", rank},         {"host", r.who.host},
          {"cores", r.who.cores}, {"compute_s", r.compute_s},
          {"wait_s", r.wait_s},   {"transfer_s", r.transfer_s},
          {"other_s", r.other_s}, {"sum_s", r.sum_s()},
          {"wall_s", r.wall_s}};
}

}  // namespace

std::string report_json(const CommReport& report) {
  Json json = {{"clock", report.clock},
               {"clock_error_us", report.clock_error_us},
               {"split", report.split},
               {"causality_violations", report.violations},
               {"worst_violation_us", report.worst_violation_us},
               {"calls", report.calls},
               {"dropped_calls", report.dropped_calls},
               {"dropped_steps", report.dropped_steps},
               {"incomplete_calls", report.incomplete_calls},
               {"model", report.model_source},
               {"traffic_check", report.traffic_check},
               {"traffic_as_expected", report.traffic_as_expected},
               {"exactness", report.exactness},
               {"quality", report.quality ? quality_json(*report.quality) : Json(nullptr)},
               {"worst_sum_error", report.worst_sum_error}};
  for (const char* list : {"sites", "phases", "ranks", "message_sizes"}) json[list] = Json::array();
  for (const SiteRow& s : report.sites) json["sites"].push_back(site_json(s));
  for (const PhaseRow& p : report.phases) json["phases"].push_back(phase_json(p));
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    json["ranks"].push_back(rank_json(r, report.ranks[r]));
  for (const SizeBucket& b : report.sizes) {
    json["message_sizes"].push_back(
        {{"from", b.from}, {"below", b.to}, {"calls", b.calls}, {"bytes", b.bytes}});
  }
  return json.dump(2) + "\n";
}

}  // namespace shardlm
