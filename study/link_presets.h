// Links that are documented, not measured: so that a cluster can be studied before it is bought.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "study/calibration.h"

namespace shardlm {

struct LinkPreset {
  std::string_view name;
  /// What its messages are: "shm" (memory of a machine), "node" (within a machine), "network".
  std::string_view link_class;
  double alpha_us, beta_ns_per_byte, o_us;
  std::string_view source;  ///< of the three numbers; docs/communication.md has the same
};

std::span<const LinkPreset> link_presets();

/// A preset's name, or "ALPHA_US,GBIT" or "ALPHA_US,GBIT,O_US" of a network. Ranks of one machine
/// meet by the preset shm, except where the link is itself within a machine. Error(usage) with the
/// names.
Calibration calibration_of_link(const std::string& text);

}  // namespace shardlm
