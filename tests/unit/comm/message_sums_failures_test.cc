// What becomes of sums by messages whose ranks are missing, late or out of step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <mutex>

#include "tests/support/comm_checks.h"
#include "tests/support/thread_messages.h"
#include "tests/unit/comm/message_cases.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// Rank 3 of 4 stays away until the first of the others has given up; the errors in the order of
// time.
std::vector<std::string> without_rank_3(Algorithm algorithm) {
  std::vector<std::string> errors;
  std::mutex mutex;
  std::latch one_has_given_up(1);
  ThreadMessageOptions options;
  options.deadlines = {0.2, 0.2};
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  run_message_ranks(
      4,
      [&](int r, Messages& messages) {
        SummingRank rank(messages);
        rank.sum(algorithm, codec, exact_values(codec, 8, 1));
        if (r == 3) return one_has_given_up.wait();
        const std::string error =
            error_of([&] { rank.sum(algorithm, codec, exact_values(codec, 8, 1)); });
        const std::lock_guard lock(mutex);
        errors.push_back(error);
        if (errors.size() == 1) one_has_given_up.count_down();
      },
      options);
  return errors;
}

TEST(MessageSumFailures, AMissingRankIsNamedByTheFirstToSpeak) {
  for (const Algorithm algorithm : kByMessages) {
    const std::vector<std::string> errors = without_rank_3(algorithm);
    ASSERT_EQ(errors.size(), 3U);
    EXPECT_THAT(errors[0],
                HasSubstr("rank 3 did not come to all_reduce at attn_out[3] (call 2) within 0.2 s"))
        << name(algorithm);
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AnyOf(HasSubstr("rank 3 did not come"), HasSubstr("left the job")))
          << name(algorithm);
    }
  }
}

TEST(MessageSumFailures, ARankThatLeftIsNamedAtOnce) {
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  for (const Algorithm algorithm : kByMessages) {
    const std::string error = error_of([&] {
      run_message_ranks(2, [&](int r, Messages& messages) {
        if (r == 1) return;
        SummingRank(messages).sum(algorithm, codec, exact_values(codec, 8, 1));
      });
    });
    EXPECT_THAT(error, HasSubstr("rank 1 left the job; this rank still waits in all_reduce at "
                                 "attn_out[3] (call 1)"))
        << name(algorithm);
  }
}

// Rank 1 comes only when the others cannot go on without it; nothing but time is lost.
TEST(MessageSumFailures, ASlowRankIsWaitedFor) {
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  for (const Algorithm algorithm : kByMessages) {
    std::latch others_have_begun(3);
    run_message_ranks(4, [&](int r, Messages& messages) {
      SummingRank rank(messages);
      if (r == 1) others_have_begun.wait();
      const auto begin_and_sum = [&](const MessageSum& sum) {
        if (r != 1) others_have_begun.count_down();
        sum_by(algorithm, sum);
      };
      EXPECT_TRUE(rank.run(begin_and_sum, codec, exact_values(codec, 800, r + 1)) ==
                  exact_values(codec, 800, 10))
          << name(algorithm);
    });
  }
}

TEST(MessageSumFailures, RanksOutOfStepAreAnErrorAndNotWrongData) {
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  for (const Algorithm algorithm : kByMessages) {
    const std::string other_size = error_of([&] {
      run_message_ranks(2, [&](int r, Messages& messages) {
        SummingRank(messages).sum(algorithm, codec,
                                  exact_values(codec, 8 + 2 * static_cast<std::size_t>(r), 1));
      });
    });
    EXPECT_THAT(other_size, AllOf(HasSubstr("out of step"), HasSubstr("bytes"))) << name(algorithm);
    const std::string other_call = error_of([&] {
      run_message_ranks(2, [&](int r, Messages& messages) {
        SummingRank rank(messages);
        const auto shifted = [&](const MessageSum& sum) {
          Call call = sum.call;
          call.number += static_cast<std::uint64_t>(r);
          sum_by(algorithm,
                 {sum.messages, sum.team, call, sum.codec, sum.scratch, sum.held, sum.n});
        };
        rank.run(shifted, codec, exact_values(codec, 8, 1));
      });
    });
    EXPECT_THAT(other_call,
                AllOf(HasSubstr("out of step"), HasSubstr("(call 1)"), HasSubstr("(call 2)")))
        << name(algorithm);
  }
}

}  // namespace
}  // namespace shardlm
