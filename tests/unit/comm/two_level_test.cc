#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/two_level_reducer.h"
#include "tests/support/comm_checks.h"
#include "tests/support/reducer_checks.h"
#include "tests/support/thread_messages.h"
#include "tests/support/thread_shm.h"

namespace shardlm {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

using Nodes = std::vector<int>;  // the node of every rank

struct Cluster {
  Nodes nodes;
  Algorithm between = Algorithm::ring;
  WireFormat wire = WireFormat::f32;
  std::size_t slot_bytes = 4096;
  Deadlines deadlines{60, 60};
};

// Ranks as threads: those of a node share memory, all send messages.
void run_cluster(const Cluster& cluster,
                 const std::function<void(AllReducer&, ReducerRank&)>& body) {
  std::map<int, std::vector<int>> ranks_of;
  const auto size = static_cast<int>(cluster.nodes.size());
  for (int r = 0; r < size; ++r) {
    ranks_of[cluster.nodes[static_cast<std::size_t>(r)]].push_back(r);
  }
  std::map<int, ShmSegments> segments;
  for (const auto& [node, ranks] : ranks_of) {
    segments[node] = thread_segments(static_cast<int>(ranks.size()), cluster.slot_bytes);
  }
  ThreadMessageOptions mail;
  mail.deadlines = cluster.deadlines;
  mail.eager_bytes = 100;
  ThreadPost post(size, mail);
  run_threads(size, [&](int rank) {
    const int node = cluster.nodes[static_cast<std::size_t>(rank)];
    const std::vector<int>& ranks = ranks_of.at(node);
    const auto place = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    ShmTeam team(place, segments.at(node),
                 thread_shm_options(size, {.deadlines = cluster.deadlines, .job_ranks = ranks}));
    const std::unique_ptr<Messages> messages = post.join(rank);
    TwoLevelReducer reducer(team, *messages, cluster.nodes, *backend, cluster.between,
                            cluster.wire);
    ReducerRank me{rank, size, 0};
    body(reducer, me);
  });
}

// Even nodes and uneven ones, ranks of a node apart from each other, one node, one rank a node.
const Nodes kClusters[] = {
    {0},          {0, 0, 0},          {0, 1},          {0, 1, 2, 3, 4},
    {0, 0, 1, 1}, {0, 0, 0, 1, 1, 2}, {5, 2, 5, 2, 2}, {0, 0, 0, 0, 1, 1, 1, 1}};

class TwoLevel : public testing::TestWithParam<Algorithm> {};

TEST_P(TwoLevel, SumsAreExactOnAnyClusterAtAnySize) {
  for (const Nodes& nodes : kClusters) {
    run_cluster({.nodes = nodes, .between = GetParam()},
                [](AllReducer& reducer, ReducerRank& rank) {
                  for (const auto& [rows, cols] : std::vector<std::array<std::int64_t, 2>>{
                           {0, 4}, {1, 1}, {1, 33}, {3, 17}, {2, 256}, {1, 511}}) {
                    check_reducer_sums(reducer, rank, rows, cols, DType::f32);
                    check_reducer_sums(reducer, rank, rows, cols, DType::i64, AddendPlace::mixed);
                    check_reducer_sums(reducer, rank, rows, cols, DType::f32, AddendPlace::offered);
                    check_reducer_sums(reducer, rank, rows, cols, DType::i64, AddendPlace::apart);
                  }
                  check_reducer_sums(reducer, rank, 1, 1024, DType::f32);
                });
  }
}

INSTANTIATE_TEST_SUITE_P(Between, TwoLevel,
                         testing::Values(Algorithm::direct, Algorithm::recdbl,
                                         Algorithm::rabenseifner, Algorithm::ring, Algorithm::star,
                                         Algorithm::tree));

// Addends are rounded on the way between nodes: the nodes' sums, and sums of those as often as
// there are rounds.
TEST(TwoLevelReducer, RoundedSumsHaveTheSameBitsOnAllRanks) {
  for (const WireFormat wire : {WireFormat::bf16, WireFormat::int8}) {
    for (const Algorithm between : {Algorithm::direct, Algorithm::ring, Algorithm::recdbl}) {
      const Nodes nodes{0, 0, 0, 1, 1, 2};
      std::vector<std::vector<float>> sums(nodes.size());
      run_cluster({.nodes = nodes, .between = between, .wire = wire},
                  [&](AllReducer& reducer, ReducerRank& rank) {
                    const double unit = wire == WireFormat::bf16 ? 0x1p-9 : 1.0 / 254;
                    sums[static_cast<std::size_t>(rank.rank)] =
                        check_reducer_rounding(reducer, rank, 3, 111, 4 * 6 * unit);
                  });
      for (const std::vector<float>& sum : sums) EXPECT_EQ(sum, sums[0]) << name(wire);
    }
  }
}

TEST(TwoLevelReducer, OnlyTheSlicesGoBetweenNodes) {
  run_cluster({.nodes = {0, 0, 1, 1}, .between = Algorithm::direct},
              [](AllReducer& reducer, ReducerRank& rank) {
                check_reducer_sums(reducer, rank, 1, 128, DType::f32);
                // Written: the addend, half of the sum; sent: half of the node's sum.
                EXPECT_EQ(reducer.sent_bytes(), 128U * 4 + 64 * 4 + 64 * 4);
              });
}

TEST(TwoLevelReducer, ARankThatFailsIsNamedOnAllNodes) {
  for (const int culprit : {0, 3, 5}) {
    const Nodes nodes{0, 0, 0, 1, 1, 2};
    std::vector<std::string> errors(nodes.size());
    run_cluster({.nodes = nodes}, [&](AllReducer& reducer, ReducerRank& rank) {
      check_reducer_sums(reducer, rank, 1, 64, DType::f32);
      if (rank.rank == culprit) return;
      errors[static_cast<std::size_t>(rank.rank)] =
          error_of([&] { check_reducer_sums(reducer, rank, 1, 64, DType::f32); });
    });
    // Those that wait for the culprit name it; the others, who waits for it.
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      if (std::cmp_equal(r, culprit)) continue;
      EXPECT_THAT(errors[r], HasSubstr("left the job; this rank still waits in all_reduce at "
                                       "attn_out[3] (call 2)"))
          << "rank " << r << " of culprit " << culprit;
    }
  }
}

}  // namespace
}  // namespace shardlm
