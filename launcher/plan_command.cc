#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "launcher/backend_options.h"
#include "launcher/commands.h"
#include "model/plan.h"

namespace shardlm {
namespace {

using nlohmann::json;

json range_json(Range r) { return json::array({r.begin, r.end}); }

json collectives_json(const std::vector<CollectiveCount>& list) {
  json sites = json::array();
  for (const CollectiveCount& c : list) {
    sites.push_back(
        {{"site", c.site}, {"kind", c.kind}, {"count", c.count}, {"bytes_each", c.bytes_each}});
  }
  return {{"collectives", sites},
          {"total_count", total_count(list)},
          {"total_bytes", total_bytes(list)}};
}

json plan_json(const PlanOptions& o, const ModelConfig& config,
               const std::vector<RankShare>& shares) {
  json ranks = json::array();
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const RankShare& s = shares[r];
    ranks.push_back({{"rank", r},
                     {"heads", range_json(s.heads)},
                     {"mlp_columns", range_json(s.mlp_columns)},
                     {"vocab_rows", range_json(s.vocab_rows)},
                     {"weight_bytes", s.weight_bytes},
                     {"kv_bytes_per_token", s.kv_bytes_per_token}});
  }
  const int n = static_cast<int>(o.ranks);
  json per_prompt =
      collectives_json(step_collectives(config, n, o.prompt_tokens, reduction_of(o.reduction)));
  per_prompt["tokens"] = o.prompt_tokens;
  const Precision precision = precision_of(o.dtype, o.kv_dtype);
  return {
      {"model", o.model},
      {"ranks", n},
      {"dtype", dtype_name(precision.weights)},
      {"kv_dtype", dtype_name(precision.kv)},
      {"reduction", reduction_name(o.reduction)},
      {"per_rank", ranks},
      {"per_token", collectives_json(step_collectives(config, n, 1, reduction_of(o.reduction)))},
      {"per_prompt", per_prompt}};
}

std::string range_text(Range r) {
  return r.size() == 0 ? "none" : fmt::format("{}-{}", r.begin, r.end - 1);
}

void write_collectives(std::ostream& out, const std::string& title,
                       const std::vector<CollectiveCount>& list) {
  out << fmt::format("\n{}\n", title);
  if (list.empty()) out << "  none at one rank\n";
  for (const CollectiveCount& c : list) {
    out << fmt::format("  {:<10} {:<12} {:>6} x {:>12} bytes\n", c.site, c.kind, c.count,
                       c.bytes_each);
  }
  if (!list.empty()) {
    out << fmt::format("  {:<10} {:<12} {:>6}   {:>12} bytes\n", "total", "", total_count(list),
                       total_bytes(list));
  }
}

void write_text(std::ostream& out, const PlanOptions& o, const ModelConfig& config,
                const std::vector<RankShare>& shares) {
  out << fmt::format("{}: {} layers, {} wide, {} heads of {}, MLP {}, {} ids, context {}; {}\n\n",
                     o.model, config.n_layer, config.n_embd, config.n_head, config.head_dim(),
                     config.n_inner, config.vocab_size, config.n_positions,
                     precision_text(precision_of(o.dtype, o.kv_dtype)));
  out << fmt::format("{:>4}  {:<9} {:<13} {:<15} {:>14} {:>13}\n", "rank", "heads", "MLP columns",
                     "vocabulary rows", "weight bytes", "KV bytes/token");
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const RankShare& s = shares[r];
    out << fmt::format("{:>4}  {:<9} {:<13} {:<15} {:>14} {:>13}\n", r, range_text(s.heads),
                       range_text(s.mlp_columns), range_text(s.vocab_rows), s.weight_bytes,
                       s.kv_bytes_per_token);
  }
  const int n = static_cast<int>(o.ranks);
  write_collectives(out, "collectives per generated token",
                    step_collectives(config, n, 1, reduction_of(o.reduction)));
  write_collectives(out, fmt::format("collectives per prompt of {} tokens", o.prompt_tokens),
                    step_collectives(config, n, o.prompt_tokens, reduction_of(o.reduction)));
}

}  // namespace

void run_plan(const PlanOptions& options, std::ostream& out) {
  const ModelConfig config = read_model_config(options.model);
  const std::vector<RankShare> shares =
      shard_plan(config, static_cast<int>(options.ranks),
                 precision_of(options.dtype, options.kv_dtype), reduction_of(options.reduction));
  if (options.shared.json) {
    out << plan_json(options, config, shares).dump() << '\n';
  } else {
    write_text(out, options, config, shares);
  }
}

}  // namespace shardlm
