// Records since a mark: of a part of a run.
#include <gtest/gtest.h>

#include "study/rank_records.h"

namespace shardlm {
namespace {

void add_calls(CallLog& log, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t number = from; number <= to; ++number) {
    CallRecord& record = log.calls.add();
    record = CallRecord();
    record.call.number = number;
  }
}

std::vector<std::uint64_t> numbers_since(const CallLog& log, const LogMark& mark) {
  std::vector<std::uint64_t> numbers;
  for (const LoggedCall& call : take_records(log, {}, mark).calls)
    numbers.push_back(call.call.number);
  return numbers;
}

using Numbers = std::vector<std::uint64_t>;

TEST(LogMark, TakesWhatCameAfterIt) {
  CallLog log(4, 2);
  add_calls(log, 1, 2);
  const LogMark mark = LogMark::of(log);
  EXPECT_EQ(numbers_since(log, mark), Numbers());
  add_calls(log, 3, 4);
  EXPECT_EQ(numbers_since(log, mark), (Numbers{3, 4}));
  EXPECT_EQ(numbers_since(log, {}), (Numbers{1, 2, 3, 4}));
}

TEST(LogMark, MissesOnlyWhatWasLostAfterIt) {
  CallLog log(4, 2);
  add_calls(log, 1, 2);
  const LogMark mark = LogMark::of(log);
  add_calls(log, 3, 6);  // pushes out 1 and 2
  EXPECT_EQ(numbers_since(log, mark), (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(take_records(log, {}, mark).dropped_calls, 0U);
  EXPECT_EQ(take_records(log, {}).dropped_calls, 2U);
  add_calls(log, 7, 7);
  EXPECT_EQ(numbers_since(log, mark), (Numbers{4, 5, 6, 7}));
  EXPECT_EQ(take_records(log, {}, mark).dropped_calls, 1U);
}

TEST(LogMark, CountsPassesToo) {
  CallLog log(4, 2);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    log.begin_step({n, Phase::decode, 1});
    log.end_step();
  }
  const LogMark mark{0, 2};
  const RankRecords records = take_records(log, {}, mark);
  ASSERT_EQ(records.steps.size(), 1U);
  EXPECT_EQ(records.steps[0].mark.number, 3U);
  EXPECT_EQ(records.dropped_steps, 0U);
  EXPECT_EQ(take_records(log, {}).dropped_steps, 1U);
}

}  // namespace
}  // namespace shardlm
