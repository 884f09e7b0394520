#include "comm/message_meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>

#include "tests/support/comm_checks.h"
#include "tests/support/thread_messages.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr Site kStep{SiteKind::step};

// One rank's meetings, call after call.
struct MeetingRank {
  explicit MeetingRank(Messages& messages) : meetings(make_message_meetings(messages)) {}
  Call next(Op op, Site site = kStep) { return {op, site, ++calls}; }
  std::unique_ptr<Meetings> meetings;
  std::uint64_t calls = 0;
};

// The message of a rank in gather: its length and bytes tell the rank.
Bytes message_of(int rank, std::size_t bytes) {
  Bytes message(bytes + static_cast<std::size_t>(rank) * 7);
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank) * 11);
  }
  return message;
}

class MeetingRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MeetingRanks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

// 3992 bytes still go with the length; 4000 less 7 (r - 1) are on both sides of that.
TEST_P(MeetingRanks, MessagesOfAnyLengthFromAnyRoot) {
  run_message_ranks(GetParam(), [](int r, Messages& messages) {
    MeetingRank rank(messages);
    for (const std::size_t bytes : {0, 1, 255, 3991, 3992, 3993, 20000}) {
      for (int root = 0; root < messages.size(); ++root) {
        Bytes message{std::byte{1}};
        if (r == root) message = message_of(root, bytes);
        rank.meetings->broadcast(rank.next(Op::broadcast), message, root);
        EXPECT_TRUE(message == message_of(root, bytes)) << bytes << " from " << root;

        std::vector<Bytes> all;
        rank.meetings->gather(rank.next(Op::gather), message_of(r, bytes), all, root);
        ASSERT_EQ(all.size(), r == root ? static_cast<std::size_t>(messages.size()) : 0U);
        for (std::size_t peer = 0; peer < all.size(); ++peer) {
          EXPECT_TRUE(all[peer] == message_of(static_cast<int>(peer), bytes)) << bytes;
        }
      }
    }
  });
}

TEST_P(MeetingRanks, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> came = 0;
  run_message_ranks(GetParam(), [&](int, Messages& messages) {
    MeetingRank rank(messages);
    for (int round = 1; round <= 20; ++round) {
      ++came;
      rank.meetings->barrier(rank.next(Op::barrier));
      EXPECT_GE(came, round * messages.size());
    }
  });
}

TEST(MessageMeetings, SentBytes) {
  run_message_ranks(3, [](int r, Messages& messages) {
    MeetingRank rank(messages);
    Bytes message(r == 0 ? 5000 : 0);
    rank.meetings->broadcast(rank.next(Op::broadcast), message, 0);
    EXPECT_EQ(rank.meetings->sent_bytes(), r == 0 ? 2U * (8 + 5000) : 0U);
    std::vector<Bytes> all;
    rank.meetings->gather(rank.next(Op::gather), Bytes(10), all, 0);
    EXPECT_EQ(rank.meetings->sent_bytes(), r == 0 ? 2U * (8 + 5000) : 8U + 10);
  });
}

// What the others say when rank 2 of 3 does not come.
template <class F>
std::vector<std::string> without_rank_2(F&& meet) {
  std::vector<std::string> errors(3);
  std::latch given_up(2);
  ThreadMessageOptions options;
  options.deadlines = {0.2, 0.2};
  run_message_ranks(
      3,
      [&](int r, Messages& messages) {
        MeetingRank rank(messages);
        rank.meetings->barrier(rank.next(Op::barrier));
        if (r == 2) return given_up.wait();
        errors[static_cast<std::size_t>(r)] = error_of([&] { meet(rank); });
        given_up.count_down();
      },
      options);
  return errors;
}

TEST(MessageMeetings, AMissingRankIsNamed) {
  auto errors = without_rank_2(
      [](MeetingRank& rank) { rank.meetings->barrier(rank.next(Op::barrier, {SiteKind::dump})); });
  EXPECT_THAT(errors, testing::Contains(HasSubstr("rank 2 did not come to barrier at dump (call 2) "
                                                  "within 0.2 s")));
  errors = without_rank_2([](MeetingRank& rank) {
    std::vector<Bytes> all;
    rank.meetings->gather(rank.next(Op::gather, {SiteKind::lm_head}), {}, all, 0);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 did not come to gather at lm_head (call 2)"));
}

TEST(MessageMeetings, ARootThatLeftIsNamed) {
  const std::string error = error_of([] {
    run_message_ranks(2, [](int r, Messages& messages) {
      if (r == 0) return;
      Bytes message;
      MeetingRank rank(messages);
      rank.meetings->broadcast(rank.next(Op::broadcast), message, 0);
    });
  });
  EXPECT_THAT(error, HasSubstr("rank 0 left the job; this rank still waits in broadcast at step"));
}

TEST(MessageMeetings, RanksOutOfStepAreAnErrorAndNotWrongData) {
  const std::string error = error_of([] {
    run_message_ranks(2, [](int r, Messages& messages) {
      MeetingRank rank(messages);
      Bytes message;
      if (r == 0) rank.meetings->barrier(rank.next(Op::barrier));
      if (r == 1) rank.meetings->broadcast(rank.next(Op::broadcast), message, 0);
    });
  });
  EXPECT_THAT(error, AllOf(HasSubstr("out of step"), HasSubstr("barrier at step (call 1)")));
}

}  // namespace
}  // namespace shardlm
