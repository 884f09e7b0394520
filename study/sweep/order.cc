#include "study/sweep/order.h"

#include <algorithm>
#include <utility>

#include "base/philox.h"

namespace shardlm {

std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed, std::uint32_t stream) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  for (std::size_t i = n; i > 1; --i) {
    const auto words = philox4x32_10({static_cast<std::uint32_t>(i), stream, 0, 0}, key);
    const std::uint64_t draw = (std::uint64_t{words[0]} << 32) | words[1];
    std::swap(order[i - 1], order[draw % i]);
  }
  return order;
}

std::vector<LaunchRef> launch_order(const std::vector<Cell>& cells, const RepeatSpec& repeat,
                                    bool one_rank_first) {
  std::vector<LaunchRef> order;
  const auto phase = [&](std::size_t i) {  // of a first launch
    if (cells[i].kind == CellKind::calibrate) return 0;
    return one_rank_first && ranks_of(cells[i].factors) == 1 ? 1 : 2;
  };
  for (int launch = 0; launch < repeat.launches; ++launch) {
    std::vector<LaunchRef> round;
    for (const std::size_t i :
         shuffled(cells.size(), repeat.seed, static_cast<std::uint32_t>(launch))) {
      if (cells[i].runs()) round.push_back({i, launch});
    }
    if (!repeat.random) std::ranges::sort(round, {}, &LaunchRef::cell);
    if (launch == 0) {
      std::ranges::stable_sort(round, {}, [&](const LaunchRef& ref) { return phase(ref.cell); });
    } else {
      std::erase_if(round, [&](const LaunchRef& ref) { return phase(ref.cell) == 0; });
    }
    order.insert(order.end(), round.begin(), round.end());
  }
  return order;
}

}  // namespace shardlm
