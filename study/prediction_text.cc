// A prediction for people and for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/utf8.h"
#include "study/prediction.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

std::string phase_of(const PredictionRequest& r) { return r.prefill ? "prefill" : "decode"; }

Json link_json(const LinkClass& link) {
  Json object = {{"name", link.name}, {"transport", link.transport}, {"segments", Json::array()}};
  for (const LinkSegment& s : link.segments) {
    object["segments"].push_back({{"from", s.from_bytes},
                                  {"to", s.to_bytes},
                                  {"alpha_us", s.alpha_s * 1e6},
                                  {"beta_ns_per_byte", s.beta_s_per_byte * 1e9}});
  }
  object["o_us"] = link.per_message_s ? Json(*link.per_message_s * 1e6) : Json(nullptr);
  return object;
}

Json point_json(const PredictedPoint& p) {
  return {{"ranks", p.ranks},
          {"nodes", p.nodes},
          {"tokens_per_s", p.tokens_per_s},
          {"ms",
           {{"compute", p.ms.compute},
            {"all_reduce", p.ms.all_reduce},
            {"head", p.ms.head},
            {"other", p.ms.other},
            {"total", p.ms.total()}}},
          {"algorithm", p.algorithm},
          {"speedup", p.speedup},
          {"efficiency", p.efficiency},
          {"load_balance", p.load_balance},
          {"rank_bytes", p.rank_bytes},
          {"fits_memory", p.fits_memory ? Json(*p.fits_memory) : Json(nullptr)}};
}

std::string memory_text(const PredictedPoint& p) {
  const std::string gb = fmt::format("{:.1f} GB", p.rank_bytes * 1e-9);
  if (!p.fits_memory) return gb;
  return gb + (*p.fits_memory ? "" : " too much");
}

std::string alpha_text(const PredictedPoint& p) {
  if (p.ranks == 1) return "-";
  return p.break_even_alpha_us ? fmt::format("{:.4g}", *p.break_even_alpha_us) : "never";
}

}  // namespace

std::string prediction_json(const PredictionRequest& r, const Prediction& p) {
  const ModelConfig& c = r.config;
  Json object = {{"schema", "shardlm prediction 1"},
                 {"source", sanitize_utf8(r.links.source)},
                 {"model",
                  {{"source", sanitize_utf8(r.model)},
                   {"n_layer", c.n_layer},
                   {"n_embd", c.n_embd},
                   {"n_head", c.n_head},
                   {"n_inner", c.n_inner},
                   {"n_positions", c.n_positions},
                   {"vocab_size", c.vocab_size}}},
                 {"link", Json::array()},
                 {"emulate", emulation_text(r.emulation)},
                 {"dtype", r.dtype},
                 {"batch", r.batch},
                 {"phase", phase_of(r)},
                 {"tokens", r.prefill ? r.prompt : 1},
                 {"points", Json::array()},
                 {"best_ranks", p.best_ranks},
                 {"break_even", Json::array()},
                 {"notes", Json::array()}};
  for (const LinkClass& link : r.links.classes) object["link"].push_back(link_json(link));
  for (const PredictedPoint& point : p.points) {
    object["points"].push_back(point_json(point));
    if (point.ranks == 1) continue;
    object["break_even"].push_back(
        {{"ranks", point.ranks},
         {"alpha_us",
          point.break_even_alpha_us ? Json(*point.break_even_alpha_us) : Json(nullptr)}});
  }
  for (const std::string& note : p.notes) object["notes"].push_back(sanitize_utf8(note));
  return object.dump() + "\n";
}

std::string prediction_text(const PredictionRequest& r, const Prediction& p) {
  const ModelConfig& c = r.config;
  std::string text = fmt::format(
      "{}: {} layers, {} wide, {} heads, MLP {}, {} ids; {}; {}, batch {}", r.model, c.n_layer,
      c.n_embd, c.n_head, c.n_inner, c.vocab_size, r.dtype, phase_of(r), r.batch);
  text += r.prefill ? fmt::format(", {} tokens\n\n", r.prompt) : "\n\n";
  text += fmt::format("{:>6}{:>6}{:>12}{:>11}{:>10}{:>11}{:>9}{:>8}{:>9}{:>7}{:>14}  {:<24}{}\n",
                      "ranks", "nodes", "tokens/s", r.prefill ? "ms" : "ms/token", "compute",
                      "all-reduce", "head", "other", "speed-up", "eff %", "break-even us",
                      "all-reduce by", "a rank's memory");
  for (const PredictedPoint& x : p.points) {
    text += fmt::format(
        "{:>6}{:>6}{:>12.5g}{:>11.4g}{:>10.4g}{:>11.4g}{:>9.3g}{:>8.2g}{:>9.3g}{:>7.3g}{:>14}  "
        "{:<24}{}\n",
        x.ranks, x.nodes, x.tokens_per_s, x.ms.total(), x.ms.compute, x.ms.all_reduce, x.ms.head,
        x.ms.other, x.speedup, x.efficiency * 100, alpha_text(x), x.algorithm, memory_text(x));
  }
  text +=
      fmt::format("\nbest: {} rank{}{}\n", p.best_ranks, p.best_ranks == 1 ? "" : "s", " of these");
  text += "break-even us: the latency of a round at which so many ranks are no faster than one\n";
  for (const std::string& note : p.notes) text += "- " + note + "\n";
  return text;
}

}  // namespace shardlm
