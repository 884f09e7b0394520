#include "backend/cpu/attention_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

namespace shardlm {
namespace {

using Unit =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // s, head, row, run

std::vector<SequenceRows> ragged() {
  return {{.first_row = 0, .n_rows = 1, .start = 700, .blocks = {}},
          {.first_row = 1, .n_rows = 0, .start = 5, .blocks = {}},
          {.first_row = 1, .n_rows = 40, .start = 250, .blocks = {}},
          {.first_row = 41, .n_rows = 1, .start = 0, .blocks = {}},
          {.first_row = 42, .n_rows = 13, .start = 0, .blocks = {}}};
}

TEST(AttentionPlan, EveryRowMeetsEveryRunOnceInOnePart) {
  const std::vector<SequenceRows> sequences = ragged();
  for (const std::int64_t heads : {1, 3}) {
    std::map<Unit, int> wanted;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      for (std::int64_t row = 0; row < sequences[s].n_rows; ++row) {
        for (std::int64_t key = 0; key <= sequences[s].start + row; key += kRunTokens) {
          for (std::int64_t head = 0; head < heads; ++head) {
            wanted[{static_cast<std::int64_t>(s), head, row, key / kRunTokens}] = 1;
          }
        }
      }
    }
    for (std::int64_t parts = 1; parts < 40; ++parts) {
      AttentionPlan plan(sequences, heads);
      plan.set_parts(parts);
      std::map<Unit, int> found;
      for (std::int64_t part = 0; part < parts; ++part) {
        plan.visit(part, [&](const PlannedTile& tile) {
          EXPECT_LE(tile.rows, kTileRows);
          EXPECT_LE(tile.first_part, part);
          EXPECT_EQ(tile.first_part == part, tile.first_run == 0);
          const SequenceRows& s = sequences[static_cast<std::size_t>(tile.sequence)];
          for (std::int64_t run = tile.first_run; run < tile.end_run; ++run) {
            for (std::int64_t r = tile.first_row; r < tile.first_row + tile.rows; ++r) {
              if (run * kRunTokens > s.start + r) continue;  // sees nothing of it
              ++found[{tile.sequence, tile.head, r, run}];
            }
          }
        });
      }
      EXPECT_EQ(found, wanted) << parts << " parts, " << heads << " heads";
    }
  }
}

TEST(AttentionPlan, OneLongSequenceWithOneHeadFeedsAllThreads) {
  const SequenceRows s{.first_row = 0, .n_rows = 1, .start = 8 * kRunTokens - 1, .blocks = {}};
  AttentionPlan plan({&s, 1}, 1);
  plan.set_parts(4);
  for (std::int64_t part = 0; part < 4; ++part) {
    std::int64_t runs = 0;
    plan.visit(part, [&](const PlannedTile& tile) { runs += tile.end_run - tile.first_run; });
    EXPECT_EQ(runs, 2) << part;
  }
}

TEST(AttentionPlan, NothingToDo) {
  const SequenceRows s{.first_row = 0, .n_rows = 0, .start = 9, .blocks = {}};
  EXPECT_EQ(AttentionPlan({&s, 1}, 12).cost(), 0);
  EXPECT_EQ(AttentionPlan({}, 12).cost(), 0);
}

}  // namespace
}  // namespace shardlm
