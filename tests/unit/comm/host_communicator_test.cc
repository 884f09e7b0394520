#include "comm/host_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <thread>

#include "base/error.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Site kSum{SiteKind::attn_out, 3};

// An all_reduce of `n` zeros.
void reduce(Communicator& comm, Backend& backend, std::int64_t n = 8) {
  const Tensor addend = backend.allocate(1, n);
  backend.upload(std::vector<float>(static_cast<std::size_t>(n)), addend);
  Tensor residual = backend.allocate(1, n);
  backend.upload(std::vector<float>(static_cast<std::size_t>(n)), residual);
  ResidualUpdate update;
  update.residual = &residual;
  comm.all_reduce(kSum, addend, update);
}

class HostRanks : public testing::TestWithParam<int> {};

TEST_P(HostRanks, SumsAreExactAtAnySize) {
  ThreadRankOptions options;
  options.slot_bytes = 1024;  // 256 floats
  run_ranks(
      GetParam(),
      [](int, Communicator& comm, Backend& backend) {
        for (const auto& [rows, cols] : std::vector<std::array<std::int64_t, 2>>{{0, 4},
                                                                                 {1, 1},
                                                                                 {1, 3},
                                                                                 {1, 255},
                                                                                 {1, 256},
                                                                                 {5, 51},
                                                                                 {6, 51},
                                                                                 {33, 50},
                                                                                 {1, 257},
                                                                                 {3, 700},
                                                                                 {0, 700},
                                                                                 {2, 1024}}) {
          check_exact_sums(comm, backend, rows, cols);
        }
      },
      options);
}

// Rank r's addend is r + 1 everywhere, written into the communicator's own memory.
TEST_P(HostRanks, AddendsAreReadWhereTheyWereWritten) {
  ThreadRankOptions options;
  options.slot_bytes = 1024;
  run_ranks(
      GetParam(),
      [](int rank, Communicator& comm, Backend& backend) {
        std::vector<std::byte> message;
        for (int round = 0; round < 50; ++round) {
          if (round % 3 == 0) comm.broadcast({SiteKind::step}, message, 0);
          const std::optional<Tensor> addend = comm.addend(kSum, 2, 128, DType::f32);
          ASSERT_TRUE(addend);
          std::fill_n(addend->row(0), 256, static_cast<float>(rank + 1));
          Tensor residual = backend.allocate(2, 128);
          backend.upload(std::vector<float>(256, static_cast<float>(round)), residual);
          ResidualUpdate update;
          update.residual = &residual;
          comm.all_reduce(kSum, *addend, update);
          std::vector<float> found(256);
          backend.download(residual, found);
          const float sum = static_cast<float>(comm.size() * (comm.size() + 1)) / 2;
          EXPECT_EQ(found, std::vector<float>(256, static_cast<float>(round) + sum));
        }
        EXPECT_FALSE(comm.addend(kSum, 2, 129, DType::f32));
        EXPECT_FALSE(comm.addend(kSum, 0, 128, DType::f32));
      },
      options);
}

TEST(HostCommunicator, AnAddendThatIsNotReducedIsABug) {
  run_ranks(2, [](int, Communicator& comm, Backend&) {
    ASSERT_TRUE(comm.addend(kSum, 1, 8, DType::f32));
    EXPECT_THAT(error_of([&] { comm.barrier(kSum); }), HasSubstr("given out and not reduced"));
  });
}

TEST_P(HostRanks, RandomSumsHaveTheBitsOfTheRankOrder) {
  ThreadRankOptions options;
  options.slot_bytes = 4096;
  run_ranks(
      GetParam(),
      [](int, Communicator& comm, Backend& backend) {
        check_rank_order(comm, backend, 1, 768, 1);
        check_rank_order(comm, backend, 7, 301, 2);
        check_rank_order(comm, backend, 2, 1025, 3);  // a row above a slot
      },
      options);
}

TEST_P(HostRanks, MessagesOfAnyLengthFromAnyRoot) {
  ThreadRankOptions options;
  options.slot_bytes = 256;
  run_ranks(
      GetParam(),
      [](int, Communicator& comm, Backend&) {
        for (const std::size_t bytes : {0, 1, 255, 256, 257, 512, 1000}) {
          for (int root = 0; root < comm.size(); ++root) check_messages(comm, bytes, root);
        }
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostRanks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

TEST(HostCommunicator, SixtyFourRanks) {
  run_ranks(64, [](int, Communicator& comm, Backend& backend) {
    check_exact_sums(comm, backend, 2, 9);
    check_rank_order(comm, backend, 1, 17, 4);
    check_messages(comm, 20, 63);
    comm.barrier(kSum);
  });
}

TEST(HostCommunicator, ThousandsOfMixedCalls) {
  ThreadRankOptions options;
  options.slot_bytes = 512;
  const auto body = [](int, Communicator& comm, Backend& backend) {
    check_mixed_calls(comm, backend, 2000, 7, 2000);
  };
  run_ranks(2, body, options);
  run_ranks(4, body, options);
}

TEST(HostCommunicator, ARootMayBeAheadButNotOverwriteWhatIsUnread) {
  // The others read each broadcast late: after the root has sent as far ahead as it can.
  run_ranks(3, [](int rank, Communicator& comm, Backend&) {
    for (int i = 0; i < 500; ++i) {
      std::vector<std::byte> message;
      if (rank == 0) message.assign(64, static_cast<std::byte>(i));
      if (rank == 2 && i % 50 == 0) std::this_thread::yield();
      comm.broadcast({SiteKind::step, -1}, message, 0);
      ASSERT_EQ(message, std::vector<std::byte>(64, static_cast<std::byte>(i)));
    }
  });
}

TEST(HostCommunicator, DescribesItself) {
  run_ranks(2, [](int rank, Communicator& comm, Backend&) {
    EXPECT_EQ(comm.rank(), rank);
    EXPECT_EQ(comm.size(), 2);
    EXPECT_EQ(comm.describe(), "shared memory, 2 ranks: shm-oneshot");
  });
}

// Rank 2 of 4 stays away until the others have given up.
template <class Call>
std::array<std::string, 4> without_rank_2(const Call& call) {
  std::array<std::string, 4> errors;
  std::latch given_up(3);
  ThreadRankOptions options;
  options.deadlines = {0.1, 0.1};
  run_ranks(
      4,
      [&](int rank, Communicator& comm, Backend& backend) {
        reduce(comm, backend);
        if (rank == 2) {
          given_up.wait();
        } else {
          errors[static_cast<std::size_t>(rank)] = error_of([&] { call(comm, backend); });
          given_up.count_down();
        }
      },
      options);
  return errors;
}

TEST(HostCommunicator, AMissingRankIsNamedByAll) {
  const auto errors = without_rank_2([](Communicator& comm, Backend& b) { reduce(comm, b); });
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                HasSubstr("rank 2 did not come to all_reduce at attn_out[3] (call 2) within 0.1 s"))
        << rank;
  }
}

TEST(HostCommunicator, AMissingRankIsNamedInBarrierAndGather) {
  auto errors = without_rank_2([](Communicator& comm, Backend&) { comm.barrier(kSum); });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 did not come to barrier at attn_out[3] (call 2)"));
  errors = without_rank_2([](Communicator& comm, Backend&) {
    std::vector<std::vector<std::byte>> all;
    comm.gather({SiteKind::lm_head, -1}, {}, all, 0);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 did not come to gather at lm_head (call 2)"));
}

TEST(HostCommunicator, AMissingRootIsNamed) {
  const auto errors = without_rank_2([](Communicator& comm, Backend&) {
    std::vector<std::byte> message;
    comm.broadcast({SiteKind::embed, -1}, message, 2);
  });
  EXPECT_THAT(errors[1], HasSubstr("rank 2 did not come to broadcast at embed (call 2)"));
}

TEST(HostCommunicator, ARootThatRunsAheadNamesWhoDoesNotRead) {
  const auto errors = without_rank_2([](Communicator& comm, Backend&) {
    std::vector<std::byte> message;
    for (int i = 0; i < 3; ++i) comm.broadcast({SiteKind::embed, -1}, message, 0);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 did not come to broadcast at embed"));
}

TEST(HostCommunicator, TheFirstExceptionWinsAndNobodyHangs) {
  const std::string error = error_of([] {
    run_ranks(4, [](int rank, Communicator& comm, Backend& backend) {
      reduce(comm, backend);
      if (rank == 2) throw Error(ExitCode::model_files, "rank 2 cannot read its file");
      reduce(comm, backend);
    });
  });
  EXPECT_EQ(error, "rank 2 cannot read its file");
}

TEST(HostCommunicator, ARankThatLeftIsNamedAtOnce) {
  const std::string error = error_of([] {
    run_ranks(3, [](int rank, Communicator& comm, Backend& backend) {
      if (rank != 1) reduce(comm, backend);
    });
  });
  EXPECT_THAT(error, HasSubstr("rank 1 left the job; this rank still waits in all_reduce at "
                               "attn_out[3] (call 1)"));
}

TEST(HostCommunicator, RanksOutOfStepAreAnErrorAndNotWrongData) {
  const std::string other_op = error_of([] {
    run_ranks(2, [](int rank, Communicator& comm, Backend& backend) {
      if (rank == 0) reduce(comm, backend);
      if (rank == 1) comm.barrier(kSum);
    });
  });
  EXPECT_THAT(other_op, AllOf(HasSubstr("out of step"), HasSubstr("barrier at attn_out[3]"),
                              HasSubstr("all_reduce at attn_out[3] (call 1) of [1, 8]")));
  const std::string other_size = error_of([] {
    run_ranks(
        2, [](int rank, Communicator& comm, Backend& backend) { reduce(comm, backend, 8 + rank); });
  });
  EXPECT_THAT(other_size, AllOf(HasSubstr("of [1, 8]"), HasSubstr("of [1, 9]")));
  const std::string other_site = error_of([] {
    run_ranks(2, [](int rank, Communicator& comm, Backend&) {
      std::vector<std::byte> message;
      comm.broadcast({rank == 0 ? SiteKind::step : SiteKind::load, -1}, message, 0);
      comm.barrier(kSum);
    });
  });
  EXPECT_THAT(other_site, AllOf(HasSubstr("broadcast at step"), HasSubstr("broadcast at load")));
}

// Every algorithm, in one piece and in several.
class HostAlgorithms : public testing::TestWithParam<const char*> {};

TEST_P(HostAlgorithms, SumExactlyAtEveryRankCount) {
  ThreadRankOptions options;
  options.slot_bytes = 1024;
  options.allreduce = GetParam();
  for (const int ranks : {1, 2, 3, 5, 8}) {
    run_ranks(
        ranks,
        [](int, Communicator& comm, Backend& backend) {
          for (const auto& [rows, cols] : std::vector<std::array<std::int64_t, 2>>{
                   {0, 4}, {1, 1}, {1, 3}, {7, 51}, {1, 257}, {2, 700}}) {
            check_exact_sums(comm, backend, rows, cols);
          }
        },
        options);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HostAlgorithms,
                         testing::Values("shm-oneshot", "shm-twoshot", "direct", "recdbl",
                                         "rabenseifner", "ring", "star", "tree", "two-level/ring",
                                         "attn_out<=64=ring,attn_out.prefill=star,shm-twoshot"));

TEST(HostCommunicator, ChoosesBySiteAndSize) {
  ThreadRankOptions options;
  options.allreduce = "attn_out<=32=star,attn_out=ring,shm-oneshot";
  run_ranks(
      3,
      [](int, Communicator& comm, Backend& backend) {
        *comm.log() = CallLog(16, 4);
        reduce(comm, backend, 8);
        reduce(comm, backend, 9);
        const auto& calls = comm.log()->calls;
        ASSERT_EQ(calls.size(), 2U);
        EXPECT_STREQ(calls[0].algorithm, "star");
        EXPECT_STREQ(calls[1].algorithm, "ring");
      },
      options);
}

// 1 + 2^-9 is no bf16: the sum of two loses it, if rounded.
TEST(HostCommunicator, RoundsOrNot) {
  ThreadRankOptions options;
  options.allreduce = "attn_out=ring:bf16,shm-oneshot";
  run_ranks(
      2,
      [](int, Communicator& comm, Backend& backend) {
        EXPECT_EQ(comm.exactness(), Exactness::approximate);
        const auto sum = [&](Site site) {
          const Tensor addend = backend.allocate(1, 4);
          backend.upload(std::vector<float>(4, 1 + 0x1p-9F), addend);
          Tensor x = backend.allocate(1, 4);
          backend.upload(std::vector<float>(4), x);
          ResidualUpdate update;
          update.residual = &x;
          comm.all_reduce(site, addend, update);
          std::vector<float> found(4);
          backend.download(x, found);
          return found[3];
        };
        for (const bool on : {true, false, true, false, false, true}) {
          comm.set_rounding(on);
          EXPECT_EQ(sum(kSum), on ? 2.0F : 2 + 0x1p-8F);
          EXPECT_EQ(sum({SiteKind::mlp_out, 3}), 2 + 0x1p-8F);
        }
      },
      options);
}

TEST(HostCommunicator, IsAsExactAsItsWorstRule) {
  for (const auto& [rules, floats, fixed] :
       std::vector<std::tuple<const char*, Exactness, Exactness>>{
           {"shm-oneshot", Exactness::exact, Exactness::exact},
           {"shm-oneshot,ring:bf16", Exactness::exact, Exactness::exact},
           {"decode=shm-oneshot,ring", Exactness::reordered, Exactness::exact},
           {"decode=direct:f16,ring", Exactness::approximate, Exactness::approximate}}) {
    ThreadRankOptions options;
    options.allreduce = rules;
    run_ranks(
        2,
        [&](int, Communicator& comm, Backend&) {
          EXPECT_EQ(comm.exactness(), floats) << rules;
          EXPECT_EQ(comm.exactness(true), fixed) << rules;
        },
        options);
  }
}

TEST(HostCommunicator, RecordsEveryCall) {
  run_ranks(2, [](int rank, Communicator& comm, Backend& backend) {
    *comm.log() = CallLog(16, 4);
    comm.begin_step({7, Phase::prefill, 2});
    std::vector<std::byte> message(rank == 0 ? 5 : 0);
    comm.broadcast({SiteKind::step}, message, 0);
    reduce(comm, backend, 6);
    std::vector<std::vector<std::byte>> all;
    comm.gather({SiteKind::lm_head}, message, all, 0);
    comm.barrier({SiteKind::step});
    comm.end_step();
    const auto& calls = comm.log()->calls;
    ASSERT_EQ(calls.size(), 4U);
    const std::array ops = {Op::broadcast, Op::all_reduce, Op::gather, Op::barrier};
    const std::array<std::uint64_t, 4> bytes = {5, 24, 5, 0};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(calls[i].call.op, ops[i]);
      EXPECT_EQ(calls[i].call.number, i + 1);
      EXPECT_EQ(calls[i].bytes, bytes[i]) << i;
      EXPECT_EQ(calls[i].step.number, 7U);
      EXPECT_LE(calls[i].start, calls[i].end);
      if (i > 0) {
        EXPECT_GE(calls[i].start, calls[i - 1].end);
      }
    }
    EXPECT_EQ(comm.log()->steps.size(), 1U);
  });
}

// Where a rank can tell when all had entered, that is after each of them had.
TEST(HostCommunicator, TellsWaitingFromMovingWhereItCan) {
  constexpr int kRanks = 3, kSums = 20;
  for (const auto& [rules, asked, tells] :
       std::vector<std::tuple<const char*, bool, bool>>{{"shm-oneshot", true, true},
                                                        {"shm-oneshot", false, false},
                                                        {"shm-oneshot:bf16", true, false},
                                                        {"ring", true, false}}) {
    ThreadRankOptions options;
    options.allreduce = rules;
    std::array<CallLog, kRanks> logs;
    run_ranks(
        kRanks,
        [&, asked = asked](int rank, Communicator& comm, Backend& backend) {
          *comm.log() = CallLog(kSums, 1);
          comm.log()->tells_wait = asked;
          for (int i = 0; i < kSums; ++i) reduce(comm, backend, i % 2 == 0 ? 8 : 60);
          logs[static_cast<std::size_t>(rank)] = *comm.log();
        },
        options);
    for (std::size_t i = 0; i < kSums; ++i) {
      for (const CallLog& log : logs) {
        const CallRecord& sum = log.calls[i];
        EXPECT_EQ(sum.wait >= 0, tells) << rules;
        EXPECT_LE(sum.wait, sum.end - sum.start);
        for (const CallLog& other : logs) {
          if (tells && ticks_are_tsc()) {
            EXPECT_GE(sum.start + sum.wait, other.calls[i].start);
          }
        }
      }
    }
  }
}

TEST(HostCommunicator, FixedPointIsSummedAsIntegers) {
  for (const char* allreduce : {"shm-oneshot", "shm-twoshot", "direct", "ring", "tree"}) {
    ThreadRankOptions options;
    options.allreduce = allreduce;
    options.slot_bytes = 256;
    run_ranks(
        4,
        [](int rank, Communicator& comm, Backend& backend) {
          // Addends whose float sums depend on the order; as integers they cancel.
          std::vector<std::int64_t> values(100);
          constexpr std::int64_t kLarge = std::int64_t{1} << 50;
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] =
                (rank % 2 == 0 ? kLarge : -kLarge) + (rank == 3 ? std::int64_t{1} << 32 : 0);
          const Tensor addend = Tensor::borrow(values.data(), 1, 100);
          Tensor x = backend.allocate(1, 100);
          backend.upload(std::vector<float>(100), x);
          comm.all_reduce(kSum, addend, {.residual = &x});
          std::vector<float> got(100);
          backend.download(x, got);
          EXPECT_EQ(got, std::vector<float>(100, 1.0F));
        },
        options);
  }
}

TEST(HostCommunicator, TheUpdateMustFitTheAddend) {
  run_ranks(1, [](int, Communicator& comm, Backend& backend) {
    const Tensor addend = backend.allocate(1, 4);
    Tensor residual = backend.allocate(1, 5);
    ResidualUpdate update;
    update.residual = &residual;
    EXPECT_THAT(error_of([&] { comm.all_reduce(kSum, addend, update); }),
                HasSubstr("the residual has the addend's shape"));
  });
}

}  // namespace
}  // namespace shardlm
