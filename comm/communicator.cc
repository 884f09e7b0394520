#include "comm/communicator.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shardlm {
namespace {

std::string_view kind_text(SiteKind kind) {
  switch (kind) {
    case SiteKind::load:
      return "load";
    case SiteKind::step:
      return "step";
    case SiteKind::embed:
      return "embed";
    case SiteKind::attn_out:
      return "attn_out";
    case SiteKind::mlp_out:
      return "mlp_out";
    case SiteKind::lm_head:
      return "lm_head";
    case SiteKind::dump:
      return "dump";
  }
  return "unknown";
}

}  // namespace

void Communicator::start_all_reduce(Site, const Tensor&) {
  check(false, "a communicator without overlap starts no sums");
}

void Communicator::finish_all_reduce(const ResidualUpdate&) {
  check(false, "a communicator without overlap finishes no sums");
}

std::string_view phase_text(Phase phase) {
  switch (phase) {
    case Phase::load:
      return "load";
    case Phase::prefill:
      return "prefill";
    case Phase::decode:
      return "decode";
  }
  return "unknown";
}

std::string site_text(Site site) {
  if (site.layer < 0) return std::string(kind_text(site.kind));
  return fmt::format("{}[{}]", kind_text(site.kind), site.layer);
}

}  // namespace shardlm
