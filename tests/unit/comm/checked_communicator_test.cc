#include "comm/checked_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The ranks' real communicator carries the checks; what is checked goes here and is counted.
class Counting final : public Communicator {
 public:
  explicit Counting(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::string describe() const override { return "counting"; }
  void all_reduce(Site, const Tensor&, const ResidualUpdate&) override { ++calls; }
  void broadcast(Site, std::vector<std::byte>&, int) override { ++calls; }
  void gather(Site, std::span<const std::byte>, std::vector<std::vector<std::byte>>&,
              int) override {
    ++calls;
  }
  void barrier(Site) override { ++calls; }
  int calls = 0;

 private:
  Communicator& ranks_;
};

using Calls = std::function<void(int, Communicator&, Backend&)>;

// One barrier; then `calls`, which must fail on every rank before it is made.
void expect_difference(const Calls& calls, const testing::Matcher<const char*>& message) {
  run_ranks(3, [&](int rank, Communicator& control, Backend& backend) {
    Counting counting(control);
    CheckedCommunicator comm(counting, control);
    comm.barrier({SiteKind::load});
    try {
      calls(rank, comm, backend);
      ADD_FAILURE() << "rank " << rank << " has seen nothing";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bug);
      EXPECT_THAT(e.what(), message);
    }
    EXPECT_EQ(counting.calls, 1);
  });
}

TEST(CheckedCommunicator, LetsEqualCallsPass) {
  run_ranks(3, [](int rank, Communicator& control, Backend& backend) {
    Counting counting(control);
    CheckedCommunicator comm(counting, control);
    Tensor t = backend.allocate(2, 3);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rank));  // lengths may differ
    std::vector<std::vector<std::byte>> all;
    comm.all_reduce({SiteKind::mlp_out, 1}, t, {.residual = &t});
    comm.broadcast({SiteKind::step}, bytes, 1);
    comm.gather({SiteKind::lm_head}, bytes, all, 0);
    comm.barrier({SiteKind::dump});
    EXPECT_EQ(counting.calls, 4);
    EXPECT_FALSE(comm.recordable());
    EXPECT_THAT(comm.describe(), HasSubstr("every collective checked"));
  });
}

TEST(CheckedCommunicator, SeesAnotherSite) {
  expect_difference(
      [](int rank, Communicator& comm, Backend& backend) {
        Tensor t = backend.allocate(2, 3);
        const SiteKind kind = rank == 1 ? SiteKind::mlp_out : SiteKind::attn_out;
        comm.all_reduce({kind, 3}, t, {.residual = &t});
      },
      AllOf(HasSubstr("ranks 0 and 1 make different collectives"),
            HasSubstr("rank 0's all_reduce at attn_out[3] (call 2) of [2, 3] F32, 24 bytes"),
            HasSubstr("rank 1's all_reduce at mlp_out[3] (call 2) of [2, 3] F32, 24 bytes")));
}

TEST(CheckedCommunicator, SeesAnotherShape) {
  expect_difference(
      [](int rank, Communicator& comm, Backend& backend) {
        Tensor t = backend.allocate(rank == 2 ? 3 : 2, 3);
        comm.all_reduce({SiteKind::embed}, t, {.residual = &t});
      },
      AllOf(HasSubstr("ranks 0 and 2"), HasSubstr("of [2, 3] F32, 24 bytes"),
            HasSubstr("of [3, 3] F32, 36 bytes")));
}

TEST(CheckedCommunicator, SeesAnotherLayer) {
  expect_difference(
      [](int rank, Communicator& comm, Backend& backend) {
        Tensor t = backend.allocate(1, 1);
        comm.all_reduce({SiteKind::mlp_out, rank == 2 ? 4 : 3}, t, {.residual = &t});
      },
      AllOf(HasSubstr("mlp_out[3]"), HasSubstr("mlp_out[4]")));
}

TEST(CheckedCommunicator, SeesAnotherOperationAndRoot) {
  expect_difference(
      [](int rank, Communicator& comm, Backend&) {
        std::vector<std::byte> bytes;
        if (rank == 0) {
          comm.barrier({SiteKind::step});
        } else {
          comm.broadcast({SiteKind::step}, bytes, 0);
        }
      },
      AllOf(HasSubstr("rank 0's barrier at step (call 2)"),
            HasSubstr("rank 1's broadcast at step (call 2) with root 0")));
  expect_difference(
      [](int rank, Communicator& comm, Backend&) {
        std::vector<std::byte> bytes;
        comm.broadcast({SiteKind::step}, bytes, rank == 2 ? 2 : 0);
      },
      AllOf(HasSubstr("with root 0"),
            HasSubstr("rank 2's broadcast at step (call 2) with root 2")));
}

TEST(CheckedCommunicator, TheControlNamesWhoMakesNoFurtherCall) {
  ThreadRankOptions soon;
  soon.deadlines = {0.2, 0.2};
  run_ranks(
      2,
      [](int rank, Communicator& control, Backend&) {
        Counting counting(control);
        CheckedCommunicator comm(counting, control);
        comm.barrier({SiteKind::step});
        if (rank == 1) return;
        try {
          comm.barrier({SiteKind::step});
          ADD_FAILURE() << "nobody was missing";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::peer);
          EXPECT_THAT(e.what(), HasSubstr("rank 1"));
        }
      },
      soon);
}

}  // namespace
}  // namespace shardlm
