#include "launcher/nearest_name.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace shardlm {
namespace {

// Half of the letters wrong is no slip any more.
bool is_slip(std::size_t distance, std::size_t length) {
  return distance <= std::max<std::size_t>(1, length / 3);
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  const std::size_t n = to.size();
  std::vector<std::size_t> two_above(n + 1), above(n + 1), row(n + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= n; ++j) {
      const std::size_t replace = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[n];
}

NearestName nearest_name(std::string_view wrong, std::span<const std::string> known) {
  NearestName nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : known) {
    if (wrong.size() >= 2 && name.starts_with(wrong)) return {name, true};
    const std::size_t distance = edit_distance(wrong, name);
    if (distance >= least) continue;
    least = distance;
    nearest = {name, is_slip(distance, std::max(wrong.size(), name.size()))};
  }
  return nearest;
}

std::string suggestion(std::string_view wrong, std::span<const std::string> known,
                       std::string_view prefix) {
  const NearestName nearest = nearest_name(wrong, known);
  if (nearest.name.empty()) return {};
  const std::string name = std::string(prefix) + nearest.name;
  return nearest.close ? "did you mean " + name + "?" : "the nearest known name is " + name;
}

}  // namespace shardlm
