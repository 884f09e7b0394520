#include "study/emulated_load.h"

#include "comm/wire_codec.h"
#include "study/cost_model.h"

namespace shardlm {

NetworkLoad emulated_load(const AllReduceChoice& choice, const GroupShape& shape,
                          std::size_t bytes) {
  Algorithm algorithm = choice.algorithm;
  int members = shape.ranks;
  if (algorithm == Algorithm::two_level) {
    algorithm = choice.between_nodes;
    members = shape.nodes;
  } else if (algorithm == Algorithm::mpi) {
    algorithm = Algorithm::recdbl;
  }
  const std::size_t sent =
      choice.wire == WireFormat::f32
          ? bytes
          : wire_codec(SumType::f32, choice.wire).wire_bytes(bytes / held_bytes(SumType::f32));
  const auto terms = cost_terms(algorithm, members, static_cast<double>(sent));
  if (!terms) return {};
  return {terms->rounds, terms->moved_bytes};
}

}  // namespace shardlm
