// Sums of the host communicator that go on in the background.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <latch>
#include <string>
#include <vector>

#include "comm/host_communicator.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

constexpr Site kSum{SiteKind::attn_out, 3};

// Two sums under way at once, in the order of a model's two lanes.
class HostOverlap : public testing::TestWithParam<Overlap> {};

TEST_P(HostOverlap, SumsGoOnInTheBackground) {
  for (const char* allreduce : {"shm-oneshot", "shm-twoshot", "direct", "ring", "rabenseifner"}) {
    ThreadRankOptions options;
    options.overlap = GetParam();
    options.allreduce = allreduce;
    options.slot_bytes = 1024;
    run_ranks(
        3,
        [](int rank, Communicator& comm, Backend& backend) {
          EXPECT_FALSE(comm.overlaps()) << "before the first step";
          comm.begin_step({1, Phase::prefill, 2});
          ASSERT_TRUE(comm.overlaps());
          const Tensor a = backend.allocate(3, 200), b = backend.allocate(1, 700);
          Tensor x = backend.allocate(3, 200), y = backend.allocate(1, 700);
          for (int round = 0; round < 20; ++round) {
            const auto value = static_cast<float>(rank + round);
            for (const Tensor* t : {&a, &b}) {
              backend.upload(std::vector<float>(static_cast<std::size_t>(t->elements()), value),
                             *t);
            }
            backend.upload(std::vector<float>(600), x);
            backend.upload(std::vector<float>(700), y);
            comm.start_all_reduce(kSum, a);
            comm.start_all_reduce(kSum, b);
            comm.finish_all_reduce({.residual = &x});
            comm.finish_all_reduce({.residual = &y});
            const auto sum = static_cast<float>(3 + 3 * round);
            std::vector<float> got(600);
            backend.download(x, got);
            EXPECT_EQ(got, std::vector<float>(600, sum));
            got.resize(700);
            backend.download(y, got);
            EXPECT_EQ(got, std::vector<float>(700, sum));
          }
          comm.end_step();
          comm.begin_step({2, Phase::decode, 1});
          EXPECT_FALSE(comm.overlaps());
        },
        options);
  }
}

TEST_P(HostOverlap, AMissingRankEndsIt) {
  std::array<std::string, 3> errors;
  std::latch given_up(2);
  ThreadRankOptions options;
  options.overlap = GetParam();
  options.deadlines = {0.1, 0.1};
  run_ranks(
      3,
      [&](int rank, Communicator& comm, Backend& backend) {
        comm.begin_step({1, Phase::prefill, 2});
        if (rank == 2) return given_up.wait();
        const Tensor a = backend.allocate(1, 8);
        Tensor x = backend.allocate(1, 8);
        errors[static_cast<std::size_t>(rank)] = error_of([&] {
          comm.start_all_reduce(kSum, a);
          comm.finish_all_reduce({.residual = &x});
        });
        given_up.count_down();
      },
      options);
  for (const std::size_t rank : {0U, 1U})
    EXPECT_THAT(errors[rank], HasSubstr("rank 2 did not come to all_reduce at attn_out[3]"));
}

INSTANTIATE_TEST_SUITE_P(Ways, HostOverlap, testing::Values(Overlap::poll, Overlap::thread),
                         [](const auto& way) {
                           return std::string(way.param == Overlap::poll ? "poll" : "thread");
                         });

}  // namespace
}  // namespace shardlm
