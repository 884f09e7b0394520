#include "study/calibration.h"

#include <algorithm>

#include "comm/shm_team.h"

namespace shardlm {
namespace {

bool by_shared_memory(Algorithm a) { return needs_one_node(a); }

// Over shared memory a slice is summed on each rank of a machine, slices go between machines, then
// all read the sum.
struct TwoLevels {
  std::vector<MessageRound> inside;
  std::vector<MessageRound> between;
};

std::optional<TwoLevels> two_levels(const AllReduceChoice& choice, const GroupShape& shape,
                                    double bytes) {
  const int local = std::max(1, shape.most_ranks_on_a_node);
  const auto inside = rounds_of(Algorithm::shm_twoshot, local, bytes);
  const auto between = rounds_of(choice.between_nodes, shape.nodes, bytes / local);
  if (!inside || !between) return std::nullopt;
  return TwoLevels{*inside, *between};
}

std::optional<double> two_level_s(const Calibration& c, const AllReduceChoice& choice,
                                  const GroupShape& shape, std::size_t bytes) {
  const LinkClass* const shm = c.find("shm");
  const LinkClass* const network = link_of(c, Algorithm::direct, even_shape(2, 2));
  if (shm == nullptr || network == nullptr) return std::nullopt;
  double total = 0;
  bool known = true;
  each_piece(bytes, ShmTeam::kSlotBytes, [&](std::size_t piece, double times) {
    const auto levels = two_levels(choice, shape, static_cast<double>(piece));
    known = known && levels.has_value();
    if (!levels) return;
    total += times * (rounds_s(levels->inside, *shm, c.gamma) +
                      rounds_s(levels->between, *network, c.gamma, shape.most_ranks_on_a_node));
  });
  return known ? std::optional(total) : std::nullopt;
}

}  // namespace

const LinkClass* Calibration::find(const std::string& name) const {
  const auto it = std::find_if(classes.begin(), classes.end(),
                               [&](const LinkClass& link) { return link.name == name; });
  return it == classes.end() ? nullptr : &*it;
}

GroupShape even_shape(int ranks, int nodes) {
  const int used = std::max(1, std::min(ranks, nodes));
  return {ranks, used, (ranks + used - 1) / used};
}

const LinkClass* link_of(const Calibration& calibration, Algorithm algorithm,
                         const GroupShape& shape) {
  if (const LinkClass* emulated = calibration.find("emulated")) return emulated;
  if (by_shared_memory(algorithm)) return shape.nodes == 1 ? calibration.find("shm") : nullptr;
  return calibration.find(shape.nodes == 1 ? "node" : "network");
}

std::optional<double> predicted_all_reduce_s(const Calibration& c, const AllReduceChoice& choice,
                                             const GroupShape& shape, std::size_t bytes) {
  if (shape.ranks <= 1) return 0;
  if (choice.algorithm == Algorithm::two_level) return two_level_s(c, choice, shape, bytes);
  if (by_shared_memory(choice.algorithm) && shape.nodes > 1) return std::nullopt;
  const LinkClass* const link = link_of(c, choice.algorithm, shape);
  if (link == nullptr || !rounds_of(choice.algorithm, shape.ranks, 1)) return std::nullopt;
  const std::size_t most =
      by_shared_memory(choice.algorithm) ? ShmTeam::kSlotBytes : std::max<std::size_t>(bytes, 1);
  double total = 0;
  each_piece(bytes, most, [&](std::size_t piece, double times) {
    const auto rounds = rounds_of(choice.algorithm, shape.ranks, static_cast<double>(piece));
    total += times * rounds_s(*rounds, *link, c.gamma);
  });
  return total;
}

std::optional<double> predicted_all_reduce_s(const Calibration& calibration, Algorithm algorithm,
                                             int ranks, int nodes, std::size_t bytes) {
  return predicted_all_reduce_s(calibration, AllReduceChoice{.algorithm = algorithm},
                                even_shape(ranks, nodes), bytes);
}

std::optional<double> rounds_in_all_reduce(const AllReduceChoice& choice, const GroupShape& shape,
                                           std::size_t bytes) {
  if (shape.ranks <= 1) return 0;
  const bool levels = choice.algorithm == Algorithm::two_level;
  const bool cut = by_shared_memory(choice.algorithm) || levels;
  const std::size_t most = cut ? ShmTeam::kSlotBytes : std::max<std::size_t>(bytes, 1);
  double count = 0;
  bool known = true;
  each_piece(bytes, most, [&](std::size_t piece, double times) {
    const auto rounds = rounds_of(levels ? choice.between_nodes : choice.algorithm,
                                  levels ? shape.nodes : shape.ranks, static_cast<double>(piece));
    known = known && rounds.has_value();
    if (rounds) count += times * rounds_count(*rounds);
  });
  return known ? std::optional(count) : std::nullopt;
}

}  // namespace shardlm
