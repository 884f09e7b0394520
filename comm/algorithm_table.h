// Which all-reduce runs where: by site, phase and size.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/algorithm.h"
#include "comm/communicator.h"

namespace shardlm {

/// An algorithm and what its messages are made of.
struct AllReduceChoice {
  Algorithm algorithm = Algorithm::direct;
  WireFormat wire = WireFormat::f32;
  Algorithm between_nodes = Algorithm::recdbl;  ///< of two-level
  bool operator==(const AllReduceChoice&) const = default;
};
/// "ring", "shm-twoshot:int8", "two-level/rabenseifner:bf16".
std::string choice_text(const AllReduceChoice& choice);
/// The inverse. Another text is an Error(ExitCode::usage) with the choices.
AllReduceChoice parse_choice(std::string_view text);

/// A choice and where it counts.
struct AllReduceRule {
  std::optional<SiteKind> site = {};  ///< embed, attn_out or mlp_out; none: all
  std::optional<Phase> phase = {};    ///< prefill or decode; none: both
  std::size_t up_to_bytes = std::numeric_limits<std::size_t>::max();  ///< of the message
  AllReduceChoice choice = {};
  bool fits_all() const {
    return !site && !phase && up_to_bytes == std::numeric_limits<std::size_t>::max();
  }
};
/// "attn_out.decode<=4096=ring"
std::string rule_text(const AllReduceRule& rule);

/// Rules in order: the first that fits counts.
class AlgorithmTable {
 public:
  AlgorithmTable() = default;
  explicit AlgorithmTable(std::vector<AllReduceRule> rules) : rules_(std::move(rules)) {}

  /// The first rule that fits, by its number; none: no rule does. Messages of loading go as those
  /// of a prefill.
  std::optional<std::size_t> find(Site site, Phase phase, std::size_t bytes) const;
  const std::vector<AllReduceRule>& rules() const { return rules_; }
  /// These rules, and `others` where none of them fits.
  AlgorithmTable before(const AlgorithmTable& others) const;
  std::string text() const;  ///< the rules, with commas

 private:
  std::vector<AllReduceRule> rules_;
};

/// Rules with commas between: [SITE][.PHASE][<=BYTES]=CHOICE, or CHOICE alone for all the rest:
/// "decode=shm-oneshot,attn_out.prefill<=65536=direct,shm-twoshot". Error(ExitCode::usage) with
/// the part that cannot be read.
AlgorithmTable parse_algorithm_table(std::string_view text);

/// What decides the default.
struct GroupShape {
  int ranks = 1;
  int nodes = 1;
  int most_ranks_on_a_node = 1;
};
/// The rules of `auto` where nothing was measured (docs/communication.md). Ends with a rule that
/// always fits.
AlgorithmTable default_table(const GroupShape& shape);

}  // namespace shardlm
