#include "comm/shm_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>

#include "base/error.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_shm.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Call kCall{Op::barrier, {SiteKind::dump}, 1};
constexpr Call kSum{Op::all_reduce, {SiteKind::attn_out, 3}, 7};

Call call_at(std::uint64_t number) { return {Op::barrier, {SiteKind::dump}, number}; }

TEST(ShmTeam, DescribesItself) {
  run_team(2, [](ShmTeam& team) {
    EXPECT_EQ(team.size(), 2);
    EXPECT_EQ(team.slot_bytes(), 4096U);
    EXPECT_EQ(team.describe(), "shared memory, 2 ranks");
  });
}

// In each phase a rank writes its slot, then (a second step) into that of rank 0, and reads there.
TEST(ShmTeam, PhasesAndTheirSteps) {
  for (const int size : {1, 2, 3, 8}) {
    run_team(size, [size](ShmTeam& team) {
      for (std::uint64_t i = 1; i <= 200; ++i) {
        const Call call = call_at(i);
        const auto value = static_cast<std::byte>(i + static_cast<std::uint64_t>(team.rank()));
        team.begin_phase(call);
        team.slot(team.rank())[0] = value;
        team.arrive(message_label(call, 1));
        team.wait_for_all(call);
        team.check_labels(call, message_label(call, 1));
        for (int r = 0; r < size; ++r) {
          ASSERT_EQ(team.slot(r)[0], static_cast<std::byte>(i + static_cast<std::uint64_t>(r)));
        }
        team.slot(0)[1 + team.rank()] = value;
        team.reach(2);
        team.wait_for_all(call, 2);
        for (int r = 0; r < size; ++r) {
          ASSERT_EQ(team.slot(0)[1 + r], static_cast<std::byte>(i + static_cast<std::uint64_t>(r)));
        }
        team.finish();
      }
    });
  }
}

TEST(ShmTeam, ASlotGivenOutIsThatOfTheNextPhase) {
  run_team(3, [](ShmTeam& team) {
    for (std::uint64_t i = 1; i <= 20; ++i) {
      const Call call{Op::all_reduce, {SiteKind::embed}, i};
      std::byte* const slot = team.next_slot(call);
      team.begin_phase(call);
      EXPECT_EQ(team.slot(team.rank()), slot);
      team.arrive(message_label(call, 0));
      team.wait_for_all(call);
      team.finish();
    }
  });
}

TEST(ShmTeam, ASlotGivenOutIsForAnAllReduce) {
  run_team(2, [](ShmTeam& team) {
    team.next_slot(kSum);
    EXPECT_THAT(error_of([&] { team.begin_phase(kCall); }), HasSubstr("given out and not reduced"));
  });
}

// What the ranks but 2 of 4 say that stays away until they have given up. They are numbers 10, 20,
// 30, 40 of the job.
template <class Wait>
std::array<std::string, 4> without_rank_2(const Wait& wait) {
  std::array<std::string, 4> errors;
  std::latch given_up(3);
  run_team(4,
           [&](ShmTeam& team) {
             if (team.rank() == 2) {
               given_up.wait();
               return;
             }
             errors[static_cast<std::size_t>(team.rank())] = error_of([&] {
               team.begin_phase(kSum);
               team.arrive(message_label(kSum, 0));
               wait(team);
             });
             given_up.count_down();
           },
           {.deadlines = {0.1, 0.1}, .job_ranks = {10, 20, 30, 40}});
  return errors;
}

TEST(ShmTeam, AMissingRankIsNamedByItsNumberInTheJob) {
  const auto all = without_rank_2([](ShmTeam& team) { team.wait_for_all(kSum); });
  const auto one = without_rank_2([](ShmTeam& team) { team.wait_for(kSum, 2); });
  for (const std::size_t rank : {0, 1, 3}) {
    for (const auto& errors : {all, one}) {
      EXPECT_THAT(
          errors[rank],
          HasSubstr("rank 30 did not come to all_reduce at attn_out[3] (call 7) within 0.1 s"));
    }
  }
}

TEST(ShmTeam, ARankThatDoesNotReachAStepIsNamed) {
  std::latch given_up(1);
  run_team(2,
           [&](ShmTeam& team) {
             team.begin_phase(kSum);
             team.arrive(message_label(kSum, 0));
             team.wait_for_all(kSum);
             if (team.rank() == 1) {
               given_up.wait();
               return;
             }
             team.reach(2);
             EXPECT_THAT(error_of([&] { team.wait_for_all(kSum, 2); }),
                         HasSubstr("rank 1 did not come to all_reduce"));
             given_up.count_down();
           },
           {.deadlines = {0.1, 0.1}});
}

TEST(ShmTeam, ARankThatLeftIsNamedAtOnce) {
  run_team(3,
           [&](ShmTeam& team) {
             if (team.rank() == 1) return;
             team.begin_phase(kSum);
             team.arrive(message_label(kSum, 0));
             EXPECT_THAT(error_of([&] { team.wait_for_all(kSum); }),
                         HasSubstr("rank 6 left the job; this rank still waits in all_reduce at "
                                   "attn_out[3] (call 7)"));
           },
           {.job_ranks = {5, 6, 7}});
}

TEST(ShmTeam, RanksInOtherCallsAreNamed) {
  std::latch both_checked(2);
  run_team(2, [&](ShmTeam& team) {
    float none = 0;
    const Tensor addend = Tensor::borrow(&none, 2, team.rank() == 0 ? 8 : 9);
    const ShmLabel mine = sum_label(kSum, addend, Algorithm::shm_oneshot, WireFormat::f32);
    team.begin_phase(kSum);
    team.arrive(mine);
    team.wait_for_all(kSum);
    EXPECT_THAT(error_of([&] { team.check_labels(kSum, mine); }),
                AllOf(HasSubstr("(call 7) of [2, 8]"), HasSubstr("(call 7) of [2, 9]"),
                      Not(HasSubstr("shm-oneshot"))));
    both_checked.arrive_and_wait();
  });
}

TEST(ShmTeam, RanksWithOtherAlgorithmsAreNamed) {
  std::latch both_checked(2);
  run_team(2, [&](ShmTeam& team) {
    float none = 0;
    const Tensor addend = Tensor::borrow(&none, 2, 8);
    const ShmLabel mine = team.rank() == 0
                              ? sum_label(kSum, addend, Algorithm::shm_oneshot, WireFormat::f32)
                              : sum_label(kSum, addend, Algorithm::shm_twoshot, WireFormat::bf16);
    team.begin_phase(kSum);
    team.arrive(mine);
    team.wait_for_all(kSum);
    EXPECT_THAT(error_of([&] { team.check_labels(kSum, mine); }),
                AllOf(HasSubstr("of [2, 8] F32 by shm-oneshot in f32"),
                      HasSubstr("of [2, 8] F32 by shm-twoshot in bf16")));
    both_checked.arrive_and_wait();
  });
}

TEST(ShmTeam, SegmentsMustBeAlignedAndLargeEnough) {
  EXPECT_THAT(error_of([] { ShmTeam::segment_bytes(100); }), HasSubstr("multiple of 128"));
  EXPECT_THAT(error_of([] { ShmTeam::segment_bytes(0); }), HasSubstr("multiple of 128"));
  ShmSegments segments = thread_segments(1, 128);
  segments.bytes_each -= 128;
  EXPECT_THAT(error_of([&] { ShmTeam(0, segments, {}); }), HasSubstr("two slots"));
  segments = thread_segments(1, 128);
  segments.base[0] += 64;
  EXPECT_THAT(error_of([&] { ShmTeam(0, segments, {}); }), HasSubstr("aligned"));
}

}  // namespace
}  // namespace shardlm
