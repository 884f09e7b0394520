#include "comm/self_communicator.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/support/comm_checks.h"

namespace shardlm {
namespace {

TEST(SelfCommunicator, DoesWhatEveryTransportDoes) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  SelfCommunicator comm(*backend);
  EXPECT_EQ(comm.rank(), 0);
  EXPECT_EQ(comm.size(), 1);
  EXPECT_EQ(comm.describe(), "1 rank, no communication");
  check_exact_sums(comm, *backend, 3, 5);
  check_exact_sums(comm, *backend, 0, 5);
  check_rank_order(comm, *backend, 2, 33, 1);
  check_messages(comm, 100, 0);
  comm.barrier({SiteKind::load, -1});
}

}  // namespace
}  // namespace shardlm
