#include "comm/no_sum_communicator.h"

#include <gtest/gtest.h>

#include "comm/borrowed_communicator.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::attn_out, 0};

// Rank r adds r + 1; only rank 1 calls the all-reduce at first, which nobody waits for.
TEST(NoSumCommunicator, AppliesTheOwnAddendAndPassesTheRestOn) {
  run_ranks(3, [](int rank, Communicator& inner, Backend& backend) {
    NoSumCommunicator comm(std::make_unique<BorrowedCommunicator>(inner), backend);
    EXPECT_EQ(comm.rank(), rank);
    EXPECT_EQ(comm.size(), 3);
    EXPECT_NE(comm.describe().find(inner.describe()), std::string::npos);
    EXPECT_NE(comm.describe().find("mean nothing"), std::string::npos);
    EXPECT_FALSE(comm.addend(kSite, 2, 3));
    const Tensor addend = backend.allocate(2, 3), bias = backend.allocate(1, 3);
    Tensor x = backend.allocate(2, 3);
    backend.upload(std::vector<float>(6, static_cast<float>(rank + 1)), addend);
    backend.upload(std::vector<float>(3, 100.0F), bias);
    backend.upload(std::vector<float>(6, 1000.0F), x);
    if (rank == 1) comm.all_reduce(kSite, addend, {.bias = &bias, .residual = &x});
    comm.barrier(kSite);
    if (rank != 1) comm.all_reduce(kSite, addend, {.bias = &bias, .residual = &x});
    for (std::int64_t t = 0; t < 2; ++t) {
      for (std::int64_t j = 0; j < 3; ++j)
        EXPECT_EQ(x.row(t)[j], 1100.0F + static_cast<float>(rank + 1));
    }
    check_messages(comm, 1000, 2);
  });
}

}  // namespace
}  // namespace shardlm
