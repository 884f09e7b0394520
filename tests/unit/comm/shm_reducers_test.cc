#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "comm/shm_meetings.h"
#include "comm/shm_oneshot.h"
#include "comm/shm_twoshot.h"
#include "tests/support/comm_checks.h"
#include "tests/support/reducer_checks.h"
#include "tests/support/thread_shm.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Kind { oneshot, twoshot };

// One rank's end of a team with everything on it.
struct Member {
  explicit Member(ShmTeam& shm, WireFormat wire = WireFormat::f32)
      : team(shm),
        rank{shm.rank(), shm.size(), 0},
        oneshot(shm, *backend, wire),
        twoshot(shm, *backend, wire),
        meetings(shm) {}
  AllReducer& reducer(Kind kind) {
    return kind == Kind::oneshot ? static_cast<AllReducer&>(oneshot) : twoshot;
  }

  ShmTeam& team;
  ReducerRank rank;
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ShmOneShot oneshot;
  ShmTwoShot twoshot;
  ShmMeetings meetings;
};

using Param = std::tuple<Kind, int>;
class ShmReducers : public testing::TestWithParam<Param> {
 protected:
  void run(const std::function<void(AllReducer&, ReducerRank&)>& body, std::size_t slot_bytes) {
    const auto [kind, size] = GetParam();
    run_team(size,
             [&](ShmTeam& team) {
               Member member(team);
               body(member.reducer(kind), member.rank);
             },
             {.slot_bytes = slot_bytes});
  }
};

struct Shape {
  std::int64_t rows, cols;
};
// 4096 bytes are 1024 floats, or 512 integers of 64 bits: whole slots among others.
constexpr Shape kShapes[] = {{0, 4},   {1, 1},   {1, 3},  {3, 1},   {1, 31},
                             {1, 32},  {1, 33},  {2, 37}, {1, 127}, {7, 73},
                             {1, 512}, {2, 256}, {4, 0},  {1, 64},  {16, 32}};

TEST_P(ShmReducers, SumsAreExactAtAnySize) {
  run(
      [](AllReducer& reducer, ReducerRank& rank) {
        for (const auto& [rows, cols] : kShapes) {
          check_reducer_sums(reducer, rank, rows, cols, DType::f32);
          check_reducer_sums(reducer, rank, rows, cols, DType::i64);
          check_reducer_sums(reducer, rank, rows, cols, DType::f32, AddendPlace::offered);
          check_reducer_sums(reducer, rank, rows, cols, DType::i64, AddendPlace::mixed);
          check_reducer_sums(reducer, rank, rows, cols, DType::f32, AddendPlace::apart);
          check_reducer_sums(reducer, rank, rows, cols, DType::i64, AddendPlace::apart);
        }
        check_reducer_sums(reducer, rank, 1, 1024, DType::f32);
        check_reducer_sums(reducer, rank, 2, 512, DType::f32, AddendPlace::offered);
      },
      4096);
}

TEST_P(ShmReducers, LongMessagesInChunks) {
  run(
      [](AllReducer& reducer, ReducerRank& rank) {
        for (const Shape shape : {Shape{1, 8192}, {1, 8193}, {3, 5555}, {1, 32768}}) {
          check_reducer_sums(reducer, rank, shape.rows, shape.cols, DType::f32);
          check_reducer_sums(reducer, rank, shape.rows, shape.cols, DType::f32, AddendPlace::mixed);
          check_reducer_sums(reducer, rank, shape.rows, shape.cols, DType::f32, AddendPlace::apart);
        }
        check_reducer_sums(reducer, rank, 1, 16384, DType::i64);
        check_reducer_sums(reducer, rank, 1, 12287, DType::i64, AddendPlace::mixed);
      },
      std::size_t{128} << 10);
}

TEST_P(ShmReducers, RandomSumsHaveTheBitsOfTheRankOrder) {
  run(
      [](AllReducer& reducer, ReducerRank& rank) {
        check_reducer_order(reducer, rank, 1, 768);
        check_reducer_order(reducer, rank, 7, 301);
        check_reducer_order(reducer, rank, 2, 1025);
        check_reducer_order(reducer, rank, 3, 6000);
      },
      std::size_t{128} << 10);
}

TEST_P(ShmReducers, OfferAPlaceOnlyForWhatFits) {
  run(
      [](AllReducer& reducer, ReducerRank& rank) {
        const Call next{Op::all_reduce, {SiteKind::attn_out, 3}, 1};
        EXPECT_EQ(reducer.most_bytes(), 1024U);
        EXPECT_FALSE(reducer.addend(next, 1, 257, DType::f32));
        EXPECT_FALSE(reducer.addend(next, 1, 129, DType::i64));
        EXPECT_FALSE(reducer.addend(next, 0, 8, DType::f32));
        EXPECT_FALSE(reducer.addend(next, 1, 8, DType::bf16));
        check_reducer_sums(reducer, rank, 1, 256, DType::f32, AddendPlace::offered);
      },
      1024);
}

std::string test_name(const testing::TestParamInfo<Param>& param) {
  const auto [kind, size] = param.param;
  return (kind == Kind::oneshot ? "oneshot_" : "twoshot_") + std::to_string(size);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShmReducers,
                         testing::Combine(testing::Values(Kind::oneshot, Kind::twoshot),
                                          testing::Values(1, 2, 3, 4, 5, 6, 7, 8)),
                         test_name);

void meet(Member& member, std::mt19937_64& random) {
  const int root = static_cast<int>(random() % static_cast<std::uint64_t>(member.rank.size));
  const std::size_t bytes = random() % 3000;
  std::vector<std::byte> message;
  if (member.rank.rank == root) message.assign(bytes, static_cast<std::byte>(bytes));
  member.meetings.broadcast({Op::broadcast, {SiteKind::step}, ++member.rank.calls}, message, root);
  ASSERT_EQ(message, std::vector<std::byte>(bytes, static_cast<std::byte>(bytes)));
  std::vector<std::vector<std::byte>> all;
  const std::vector<std::byte> mine(bytes, static_cast<std::byte>(member.rank.rank));
  member.meetings.gather({Op::gather, {SiteKind::lm_head}, ++member.rank.calls}, mine, all, root);
  for (std::size_t r = 0; r < all.size(); ++r) {
    ASSERT_EQ(all[r], std::vector<std::byte>(bytes, static_cast<std::byte>(r)));
  }
  member.meetings.barrier({Op::barrier, {SiteKind::dump}, ++member.rank.calls});
}

TEST(ShmReducersTogether, AnyOrderOfCallsOnOneTeam) {
  for (const int size : {2, 3, 5}) {
    run_team(size,
             [](ShmTeam& team) {
               Member member(team);
               std::mt19937_64 random(11);  // the same on all ranks
               for (int i = 0; i < 600; ++i) {
                 if (random() % 4 == 0) {
                   meet(member, random);
                   continue;
                 }
                 AllReducer& reducer = member.reducer(static_cast<Kind>(random() % 2));
                 const auto rows = static_cast<std::int64_t>(random() % 4);
                 const auto cols = static_cast<std::int64_t>(random() % 60);
                 const DType dtype = random() % 2 == 0 ? DType::f32 : DType::i64;
                 check_reducer_sums(reducer, member.rank, rows, cols, dtype,
                                    static_cast<AddendPlace>(random() % 4));
               }
             },
             {.slot_bytes = 2048});
  }
}

TEST(ShmReducersTogether, BytesWrittenForThePeersAreCounted) {
  run_team(2, [](ShmTeam& team) {
    Member member(team);
    check_reducer_sums(member.oneshot, member.rank, 1, 96, DType::f32);
    check_reducer_sums(member.oneshot, member.rank, 1, 10, DType::i64);
    EXPECT_EQ(member.oneshot.sent_bytes(), 96U * 4 + 10 * 8);
    check_reducer_sums(member.twoshot, member.rank, 1, 128, DType::f32);
    EXPECT_EQ(member.twoshot.sent_bytes(), 128U * 4 + 64 * 4);  // the addend, and half of the sum
  });
}

// What rounding to the format may cost an addend in [-1, 1] (comm/wire_codec.h).
double rounding_of(WireFormat wire) {
  if (wire == WireFormat::bf16) return 0x1p-9;
  if (wire == WireFormat::f16) return 0x1p-12;
  return 1.0 / 254;  // int8: half of a scale, which is the largest of 32 over 127
}

// P addends are rounded, and in two shots their sum, which is up to P times as large (and where it
// is, a float's rounding may be twice that of an addend below 1).
TEST(ShmReducersTogether, RoundedSumsHaveTheSameBitsOnAllRanks) {
  for (const WireFormat wire : {WireFormat::bf16, WireFormat::f16, WireFormat::int8}) {
    for (const Kind kind : {Kind::oneshot, Kind::twoshot}) {
      for (const int size : {1, 2, 3, 8}) {
        std::vector<std::vector<float>> sums(static_cast<std::size_t>(size));
        run_team(size,
                 [&](ShmTeam& team) {
                   Member member(team, wire);
                   std::vector<float>& mine = sums[static_cast<std::size_t>(team.rank())];
                   const double tolerance = 3.01 * size * rounding_of(wire);
                   for (const auto& [rows, cols] : {Shape{1, 1}, {1, 768}, {3, 333}, {2, 6001}}) {
                     const std::vector<float> sum = check_reducer_rounding(
                         member.reducer(kind), member.rank, rows, cols, tolerance);
                     mine.insert(mine.end(), sum.begin(), sum.end());
                   }
                   check_reducer_sums(member.reducer(kind), member.rank, 0, 7, DType::f32);
                 },
                 {.slot_bytes = std::size_t{64} << 10});
        for (const std::vector<float>& sum : sums) {
          EXPECT_EQ(sum, sums[0]) << name(wire) << ", " << size << " ranks";
        }
      }
    }
  }
}

TEST(ShmReducersTogether, RoundedMessagesAreShorter) {
  run_team(2, [](ShmTeam& team) {
    Member member(team, WireFormat::bf16);
    check_reducer_rounding(member.oneshot, member.rank, 1, 128, 1);
    EXPECT_EQ(member.oneshot.sent_bytes(), 128U * 2);
    check_reducer_rounding(member.twoshot, member.rank, 1, 128, 1);
    EXPECT_EQ(member.twoshot.sent_bytes(), 128U * 2 + 64 * 2);
  });
}

TEST(ShmReducersTogether, FixedPointIsNotRounded) {
  run_team(1, [](ShmTeam& team) {
    Member member(team, WireFormat::bf16);
    EXPECT_THAT(
        error_of([&] { check_reducer_sums(member.twoshot, member.rank, 1, 8, DType::i64); }),
        HasSubstr("the wire format of an exact sum"));
  });
}

TEST(ShmReducersTogether, DifferentAlgorithmsOnTheRanksAreAnError) {
  const std::string error = error_of([] {
    run_team(2, [](ShmTeam& team) {
      Member member(team);
      check_reducer_sums(member.reducer(static_cast<Kind>(team.rank())), member.rank, 1, 8,
                         DType::f32);
    });
  });
  EXPECT_THAT(error, AllOf(HasSubstr("out of step"), HasSubstr("by shm-oneshot"),
                           HasSubstr("by shm-twoshot")));
}

TEST(ShmReducersTogether, ARankThatFailsBetweenTheShotsEndsTheOthersWait) {
  for (const Kind kind : {Kind::oneshot, Kind::twoshot}) {
    const std::string error = error_of([kind] {
      run_team(3, [kind](ShmTeam& team) {
        Member member(team);
        check_reducer_sums(member.reducer(kind), member.rank, 1, 8, DType::f32);
        if (team.rank() != 1) {
          check_reducer_sums(member.reducer(kind), member.rank, 1, 8, DType::f32);
        }
      });
    });
    EXPECT_THAT(error, HasSubstr("rank 1 left the job; this rank still waits in all_reduce at "
                                 "attn_out[3] (call 2)"));
  }
}

}  // namespace
}  // namespace shardlm
