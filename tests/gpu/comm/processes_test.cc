// Ranks as processes: memory shared by CUDA's handles, transports chosen by name, and what happens
// when a process dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/cuda/device_communicator.h"
#include "comm/gpu.h"
#include "tests/gpu/comm/environment.h"
#include "tests/gpu/comm/fork_ranks.h"
#include "tests/gpu/comm/gpu_ranks.h"
#include "tests/support/comm_checks.h"

namespace shardlm::cuda {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;

constexpr Site kSite{SiteKind::attn_out, 3};
constexpr Deadlines kPatient{60, 60};
constexpr int kPeer = static_cast<int>(ExitCode::peer);

GpuPlacement placement(bool peer_access, bool shared_gpu = false) {
  return {.one_node = true, .peer_access = peer_access, .shared_gpu = shared_gpu, .device = 0};
}

// A rank's process: back end, communicator, work.
using Work = std::function<void(Communicator&, Backend&)>;
ForkedBody rank_with(const std::string& name, const GpuPlacement& where, const Deadlines& limits,
                     const Work& work) {
  return [=](int rank, std::unique_ptr<Communicator> host) {
    const auto backend = make_gpu_backend({.device = where.shared_gpu ? 0 : rank});
    const auto comm = make_gpu_communicator(std::move(host), *backend, name, where, limits);
    work(*comm, *backend);
    return 0;
  };
}

void check_everything(Communicator& comm, Backend& backend) {
  check_exact_sums(comm, backend, 1, 1);
  check_exact_sums(comm, backend, 5, 51);
  check_rank_order(comm, backend, 2, 301, 1);
  check_rank_order(comm, backend, 3, 40, 2);
  check_mixed_calls(comm, backend, 8, 3, 1000);
  OnesCall call(comm.rank(), backend, 2, 20);
  if (!comm.recordable()) return;
  for (int i = 0; i < 4; ++i) {
    backend.run_pass(repeatable_step(), [&](const Step&) {
      call.run(comm, kSite);
      call.run(comm, kSite);
      return call.residual();
    });
  }
  EXPECT_TRUE(
      call.residual_is(backend, 4.0F * static_cast<float>(comm.size() * (comm.size() + 1))));
}

struct Case {
  const char* name;
  GpuPlacement where;
  const char* description;
};

class Processes : public testing::TestWithParam<int> {};

TEST_P(Processes, EveryTransportByName) {
  const int size = GetParam();
  const std::vector<Case> cases = {
      {"ipc", placement(true), "ipc, "},
      {"ipc", placement(true, true), "ipc, for ranks share a GPU, "},
      {"nccl", placement(false), "nccl 2."},
      {"staged", placement(false), "staged through the hosts (shared memory, "},
      {"auto", placement(true), "ipc up to 256 KiB, else nccl 2."},
      {"auto", placement(true, true), "ipc, for ranks share a GPU, "},
      {"auto", placement(false), "nccl 2."},
      {"auto", placement(false, true),
       " (ranks that share a GPU; GPUs that cannot map each other's memory), "},
  };
  for (const Case& c : cases) {
    const auto codes =
        fork_ranks(size, kPatient,
                   rank_with(c.name, c.where, kPatient, [&](Communicator& comm, Backend& backend) {
                     EXPECT_THAT(comm.describe(), HasSubstr(c.description));
                     EXPECT_THAT(comm.describe(), HasSubstr(std::to_string(size) + " ranks"));
                     check_everything(comm, backend);
                   }));
    EXPECT_THAT(codes, Each(0)) << c.name << ", " << c.description;
  }
}

TEST_P(Processes, LargeSumsOfAutoGoThroughNccl) {
  const auto codes = fork_ranks(
      GetParam(), kPatient,
      rank_with("auto", placement(true), kPatient, [](Communicator& comm, Backend& backend) {
        auto& device = dynamic_cast<DeviceCommunicator&>(comm);
        device.record_calls(8);
        check_exact_sums(comm, backend, 1, 64 << 10);        // 256 KiB
        check_exact_sums(comm, backend, 1, (64 << 10) + 1);  // one float more
        const CallLog& log = device.call_log();
        ASSERT_EQ(log.calls.size(), 2U);
        EXPECT_GE(log.calls[0].wait, 0);  // ipc can tell
        EXPECT_EQ(log.calls[1].wait, -1);
      }));
  EXPECT_THAT(codes, Each(0));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Processes, testing::Values(2, 4));

TEST(Process, ThatDiesIsNamedByTheOthers) {
  const Deadlines limits{kSoon_s, 60};
  const auto codes = fork_ranks(
      3, kPatient, rank_with("ipc", placement(true), limits, [](Communicator& comm, Backend& b) {
        OnesCall call(comm.rank(), b, 2, 9);
        call.run(comm, kSite);
        b.synchronize();
        comm.barrier(kSite);  // nobody reads this rank's memory any more
        if (comm.rank() == 1) _exit(77);
        const std::string error = error_of([&] {
          call.run(comm, kSite);
          b.synchronize();
        });
        EXPECT_THAT(error, HasSubstr("rank 1 did not come to all_reduce at attn_out[3] (call 2)"));
        throw Error(ExitCode::peer, error);
      }));
  EXPECT_EQ(codes, (std::vector<int>{kPeer, 77, kPeer}));
}

TEST(Process, ThatDiesUnderNcclEndsTheOthers) {
  const Deadlines limits{kSoon_s, 60};
  const auto codes = fork_ranks(
      3, kPatient, rank_with("nccl", placement(true), limits, [](Communicator& comm, Backend& b) {
        OnesCall call(comm.rank(), b, 2, 9);
        call.run(comm, kSite);
        b.synchronize();
        if (comm.rank() == 1) _exit(77);
        call.run(comm, kSite);
        b.synchronize();
      }));
  EXPECT_EQ(codes, (std::vector<int>{kPeer, 77, kPeer}));
}

// One rank's call of CUDA fails while the ranks start: all leave with its reason.
void expect_all_leave(const char* transport, const std::string& fault, ExitCode code) {
  const auto codes = fork_ranks(3, kPatient, [&](int rank, std::unique_ptr<Communicator> host) {
    const auto backend = make_gpu_backend({.device = rank});
    const std::string value = rank == 1 ? fault : "";
    const WithEnvironment environment("SHARDLM_FAKE_GPU_FAULT", value);
    try {
      make_gpu_communicator(std::move(host), *backend, transport, placement(true), {10, 10});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1: ")) << rank;
      return static_cast<int>(error.code());
    }
    return 0;
  });
  EXPECT_THAT(codes, Each(static_cast<int>(code))) << fault;
}

TEST(Process, ThatCannotShareItsMemoryStopsAll) {
  expect_all_leave("ipc", "cudaMalloc:1:2", ExitCode::resources);
  expect_all_leave("ipc", "cudaIpcGetMemHandle:1:1", ExitCode::resources);
  expect_all_leave("ipc", "cudaIpcOpenMemHandle:2:205", ExitCode::resources);
}

}  // namespace
}  // namespace shardlm::cuda
