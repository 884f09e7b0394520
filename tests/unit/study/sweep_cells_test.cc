// Which cells a study has, in which order they run, and what fits a budget.
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "study/sweep/budget.h"
#include "study/sweep/cell_command.h"
#include "study/sweep/guess.h"
#include "study/sweep/launch_words.h"
#include "study/sweep/meeting_refusal.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Design::Kind;

StudySpec study_of(std::vector<Factor> factors) {
  StudySpec spec;
  spec.name = "s";
  spec.shape = "gpt2";
  spec.factors = std::move(factors);
  return spec;
}

std::vector<std::string> texts_of(const std::vector<Cell>& cells) {
  std::vector<std::string> texts;
  for (const Cell& cell : cells) texts.push_back(factors_text(cell.factors));
  return texts;
}

TEST(SweepCells, CrossedIsEveryCombinationOnce) {
  const auto cells = make_cells(study_of({{"ranks", {"2", "3"}}, {"batch", {"1", "8"}}}));
  EXPECT_THAT(texts_of(cells), ElementsAre("ranks=2 batch=1", "ranks=2 batch=8", "ranks=3 batch=1",
                                           "ranks=3 batch=8"));
  EXPECT_EQ(cells[3].id, "c004");
}

TEST(SweepCells, OneAtATimeGoesAroundACenterAndCrossesWhatIsAskedFor) {
  StudySpec spec =
      study_of({{"ranks", {"2", "3"}}, {"batch", {"1", "8"}}, {"dtype", {"f32", "bf16"}}});
  spec.design = {.kind = Kind::one_at_a_time, .around = {{"ranks", "3"}}};
  EXPECT_THAT(texts_of(make_cells(spec)),
              ElementsAre("ranks=3 dtype=f32 batch=1", "ranks=2 dtype=f32 batch=1",
                          "ranks=3 dtype=f32 batch=8", "ranks=3 dtype=bf16 batch=1"));
  spec.design.full = {{"ranks", "batch"}};
  EXPECT_THAT(texts_of(make_cells(spec)), testing::Contains("ranks=2 dtype=f32 batch=8"));
  EXPECT_EQ(make_cells(spec).size(), 5U);
}

TEST(SweepCells, PairedFactorsChangeTogether) {
  StudySpec spec = study_of({{"ranks", {"1", "2"}}, {"shape", {"a", "b"}}, {"batch", {"1", "4"}}});
  spec.design.paired = {{"ranks", "shape"}};
  EXPECT_THAT(texts_of(make_cells(spec)),
              ElementsAre("ranks=1 shape=a batch=1", "ranks=1 shape=a batch=4",
                          "ranks=2 shape=b batch=1", "ranks=2 shape=b batch=4"));
}

TEST(SweepCells, OneRankMakesNoSums) {
  const auto cells = make_cells(study_of({{"ranks", {"1", "2"}}, {"allreduce", {"ring", "mpi"}}}));
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0].skipped, "");
  EXPECT_THAT(cells[1].skipped, HasSubstr("the same as c001"));
  EXPECT_EQ(cells[3].skipped, "");
}

TEST(SweepCells, OneCalibrationAndCollectivesForEachWayToMeet) {
  StudySpec spec = study_of({{"ranks", {"1", "2", "4"}}, {"emulate", {"none", "latency_us=9"}}});
  spec.coll.emplace();
  spec.calibrate = true;
  std::vector<std::string> kinds;
  for (const Cell& cell : make_cells(spec)) {
    if (cell.kind != CellKind::bench)
      kinds.push_back(name(cell.kind) + " " + factors_text(cell.factors));
  }
  EXPECT_THAT(kinds,
              ElementsAre("calibrate ranks=4", "coll ranks=2 emulate=none",
                          "coll ranks=2 emulate=latency_us=9", "coll ranks=4 emulate=none",
                          "coll ranks=4 emulate=latency_us=9"));
}

TEST(SweepCells, CalibratesWhereRanksHaveCoresOfTheirOwn) {
  StudySpec spec = study_of({{"ranks", {"1", "4", "3", "2"}}, {"threads", {"1"}}});
  spec.calibrate = true;
  const auto ranks_with = [&](int cores) { return ranks_of(make_cells(spec, cores)[0].factors); };
  EXPECT_EQ(ranks_with(8), 4);
  EXPECT_EQ(ranks_with(3), 3);
  EXPECT_EQ(ranks_with(2), 2);
  EXPECT_EQ(ranks_with(1), 2);  // the least crowded
}

TEST(SweepOrder, FirstLaunchesOfAllComeBeforeSecondOnesAndSkippedNever) {
  std::vector<Cell> cells(20);
  cells[7].skipped = "because";
  const auto order = launch_order(cells, {.launches = 3}, false);
  ASSERT_EQ(order.size(), 57U);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i].launch, static_cast<int>(i / 19));
    EXPECT_NE(order[i].cell, 7U);
  }
  std::set<std::size_t> first;
  for (std::size_t i = 0; i < 19; ++i) first.insert(order[i].cell);
  EXPECT_EQ(first.size(), 19U);
}

TEST(SweepOrder, FollowsFromTheSeedAlone) {
  // Pinned: another order on another machine or version would make seeds worthless.
  EXPECT_THAT(shuffled(6, 42, 0), testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(shuffled(50, 42, 0), shuffled(50, 42, 0));
  EXPECT_NE(shuffled(50, 42, 0), shuffled(50, 43, 0));
  EXPECT_NE(shuffled(50, 42, 0), shuffled(50, 42, 1));
  EXPECT_THAT(shuffled(0, 1, 0), IsEmpty());
}

// Every element is as likely in every place: counts within five standard deviations.
TEST(SweepOrder, EveryPlaceIsAsLikely) {
  constexpr int kDraws = 3000, kN = 5;
  int counts[kN][kN] = {};
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const auto order = shuffled(kN, seed, 0);
    for (std::size_t i = 0; i < kN; ++i) ++counts[i][order[i]];
  }
  for (const auto& row : counts) {
    for (const int n : row) EXPECT_NEAR(n, kDraws / kN, 5 * 22);
  }
}

TEST(SweepOrder, AsWritten) {
  std::vector<Cell> cells(4);
  const auto order = launch_order(cells, {.launches = 2, .random = false}, false);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i].cell, i % 4);
}

TEST(SweepOrder, CalibrationsThenOneRankThenTheOthers) {
  std::vector<Cell> cells(6);
  for (std::size_t i = 0; i < 6; ++i) cells[i].factors["ranks"] = i % 2 == 0 ? "2" : "1";
  cells[4].kind = CellKind::calibrate;
  const auto order = launch_order(cells, {.launches = 2}, true);
  ASSERT_EQ(order.size(), 11U);  // a calibration has one launch
  EXPECT_EQ(order[0], (LaunchRef{4, 0}));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(order[i].cell % 2, 1U) << i;
  for (std::size_t i = 4; i < 6; ++i) EXPECT_EQ(order[i].cell % 2, 0U) << i;
}

TEST(SweepBudget, LaunchesAreDroppedBeforeCells) {
  std::vector<Cell> cells(3);
  const auto order = launch_order(cells, {.launches = 4}, false);
  const std::vector<double> seconds = {1, 2, 3};
  EXPECT_EQ(fit_budget(order, seconds, 24).dropped, 0U);
  const BudgetFit three = fit_budget(order, seconds, 23.9);
  EXPECT_EQ(three.rounds, 3);
  EXPECT_EQ(three.dropped, 3U);
  EXPECT_EQ(three.kept_s, 18);
  EXPECT_EQ(three.cells_left, 0U);
  const BudgetFit part = fit_budget(order, seconds, 5);  // not even one launch each
  EXPECT_GT(part.cells_left, 0U);
  EXPECT_LE(part.kept_s, 5);
  EXPECT_EQ(fit_budget({}, {}, 0).dropped, 0U);
}

TEST(SweepBudget, GuessesAreCorrectedByWhatHasEnded) {
  std::vector<Cell> cells(3);
  for (Cell& cell : cells) cell.guess_s = 10;
  EXPECT_THAT(expected_seconds(cells, {{}, {}, {}}), ElementsAre(10, 10, 10));
  EXPECT_THAT(expected_seconds(cells, {{20, 40}, {30}, {}}), ElementsAre(30, 30, 30));
}

TEST(SweepBudget, Durations) {
  EXPECT_EQ(duration_text(3.21), "3.2 s");
  EXPECT_EQ(duration_text(245), "4 min 05 s");
  EXPECT_EQ(duration_text(7800), "2 h 10 min");
}

std::string command_of(const Factors& factors, CellKind kind = CellKind::bench) {
  StudySpec spec = study_of({});
  spec.coll = CollSpec{{64, 4096}, {"ring"}, 0.5};
  spec.repeat = {.repetitions = 3, .ci_width = 0.05};
  return shell_text(program_words(spec, {.kind = kind, .factors = factors}));
}

TEST(SweepCommand, OfBench) {
  EXPECT_EQ(command_of({{"ranks", "2"}, {"threads", "1"}, {"emulate", "none"}, {"nodes", "1"}}),
            "bench --shape gpt2 --threads 1 --repetitions 3 --ci-width 0.05 --format jsonl");
  EXPECT_THAT(command_of({{"ranks", "2"}, {"shape", "gpt2-xl"}, {"emulate", "latency_us=3"}}),
              HasSubstr("--shape gpt2-xl --emulate latency_us=3"));
  // One rank makes no sums: what says how is left out.
  EXPECT_THAT(command_of({{"ranks", "1"}, {"allreduce", "ring"}, {"wire", "bf16"}}),
              testing::Not(HasSubstr("ring")));
}

// --wire has no effect beside an algorithm's name.
TEST(SweepCommand, TheWireFormatGoesIntoTheRule) {
  EXPECT_THAT(command_of({{"ranks", "2"}, {"allreduce", "ring"}, {"wire", "bf16"}}),
              HasSubstr("--allreduce ring:bf16 --rep"));
  EXPECT_THAT(command_of({{"ranks", "2"}, {"allreduce", "auto"}, {"wire", "bf16"}}),
              HasSubstr("--wire bf16"));
  EXPECT_THROW(command_of({{"ranks", "2"}, {"allreduce", "mpi"}, {"wire", "int8"}}), Error);
}

TEST(SweepCommand, OfCollectives) {
  EXPECT_EQ(command_of({{"ranks", "2"}}, CellKind::coll),
            "bench coll --bytes 64,4096 --algorithms ring --max-seconds 0.5 --format jsonl");
}

TEST(SweepMeeting, WhatBenchWouldRefuseLate) {
  EXPECT_EQ(meeting_refusal({{"ranks", "2"}, {"allreduce", "ring"}, {"comm", "mpi"}}), "");
  EXPECT_THAT(meeting_refusal({{"ranks", "2"}, {"allreduce", "shm-oneshot"}, {"comm", "mpi"}}),
              HasSubstr("shm-oneshot needs shared memory"));
  EXPECT_THAT(meeting_refusal({{"ranks", "2"}, {"nodes", "2"}, {"allreduce", "shm-twoshot"}}),
              HasSubstr("one node"));
  EXPECT_THAT(meeting_refusal({{"ranks", "2"}, {"nodes", "2"}, {"comm", "shm"}}),
              HasSubstr("one node"));
}

TEST(SweepGuess, GrowsWithTheWorkAndIsCapped) {
  StudySpec spec = study_of({});
  const auto guess = [&](const Factors& factors) {
    return guess_seconds(spec, {.factors = factors}, {1e7, 24}, 2);
  };
  const double one = guess({{"generate", "16"}, {"prompt", "0"}});
  EXPECT_GT(one, 0);
  EXPECT_GT(guess({{"generate", "64"}, {"prompt", "0"}}), one);
  EXPECT_LT(guess({{"generate", "16"}, {"prompt", "0"}, {"dtype", "int8"}}), one);
  spec.repeat.max_seconds = 0.1;
  EXPECT_LT(guess({{"generate", "16"}, {"prompt", "0"}}), one);
}

}  // namespace
}  // namespace shardlm
