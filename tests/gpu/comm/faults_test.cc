// Ranks that do not come, that are out of step, that fail: named, within the time limit, and
// nobody hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>

#include "base/error.h"
#include "comm/cuda/ipc_reducer.h"
#include "tests/gpu/comm/environment.h"
#include "tests/gpu/comm/fork_ranks.h"
#include "tests/gpu/comm/gpu_ranks.h"
#include "tests/support/comm_checks.h"

namespace shardlm::cuda {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr Site kSite{SiteKind::attn_out, 3};

GpuRankOptions quick(const std::string& transport, double limit_s = kSoon_s) {
  GpuRankOptions options;
  options.transport = transport;
  options.deadlines = {limit_s, 60};
  return options;
}

struct Failure {
  std::string text;
  ExitCode code = ExitCode::ok;
};

Failure failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}

// All ranks run `together`; then all but `absent` run `alone`, and fail.
using Part = std::function<void(int rank, DeviceCommunicator&, CudaBackend&)>;
std::array<Failure, 4> without(int absent, const GpuRankOptions& options, const Part& together,
                               const Part& alone) {
  std::array<Failure, 4> failures;
  std::latch given_up(3);
  run_gpu_ranks(
      4,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        together(rank, comm, backend);
        if (rank == absent) return given_up.wait();
        failures[static_cast<std::size_t>(rank)] = failure_of([&] { alone(rank, comm, backend); });
        EXPECT_THAT(error_of([&] { alone(rank, comm, backend); }),
                    HasSubstr("after the communicator has failed"));
        given_up.count_down();
      },
      options);
  return failures;
}

void one_sum(int rank, DeviceCommunicator& comm, CudaBackend& backend) {
  OnesCall call(rank, backend, 2, 9);
  call.run(comm, kSite);
  backend.synchronize();
}

TEST(Faults, IpcNamesTheMissingRank) {
  const auto failures = without(2, quick("ipc"), one_sum, one_sum);
  for (const int rank : {0, 1, 3}) {
    const Failure& failure = failures[static_cast<std::size_t>(rank)];
    EXPECT_THAT(failure.text, HasSubstr("rank 2 did not come to all_reduce at attn_out[3] (call 2) "
                                        "within "));
    EXPECT_EQ(failure.code, ExitCode::peer);
  }
}

TEST(Faults, NcclNamesTheCall) {
  const auto failures = without(2, quick("nccl"), one_sum, one_sum);
  for (const int rank : {0, 1, 3}) {
    const Failure& failure = failures[static_cast<std::size_t>(rank)];
    EXPECT_THAT(failure.text, HasSubstr("a rank did not come to all_reduce at attn_out[3] (call 2) "
                                        "within "));
    EXPECT_EQ(failure.code, ExitCode::peer);
  }
}

TEST(Faults, StagedNamesTheMissingRank) {
  std::array<std::string, 3> errors;
  std::latch given_up(2);
  run_gpu_ranks(
      3,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        if (rank == 1) return given_up.wait();
        errors[static_cast<std::size_t>(rank)] = error_of([&] { one_sum(rank, comm, backend); });
        given_up.count_down();
      },
      quick("staged"));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                HasSubstr("rank 1 did not come to all_reduce at attn_out[3]"));
  }
}

// `passes` runs of a repeatable pass of two sums.
Part passes(int n) {
  return [n](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
    OnesCall call(rank, backend, 2, 9);
    for (int i = 0; i < n; ++i) {
      backend.run_pass(repeatable_step(), [&](const Step&) {
        call.run(comm, {SiteKind::attn_out, 0});
        call.run(comm, {SiteKind::mlp_out, 0});
        return call.residual();
      });
    }
    backend.synchronize();
  };
}

// The tensors of a recorded pass must live on, so that all its runs are in one body.
std::array<Failure, 4> without_2_in_a_replay(const std::string& transport) {
  std::array<Failure, 4> failures;
  std::latch given_up(3);
  run_gpu_ranks(
      4,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 2, 9);
        const auto pass = [&] {
          backend.run_pass(repeatable_step(), [&](const Step&) {
            call.run(comm, {SiteKind::attn_out, 0});
            call.run(comm, {SiteKind::mlp_out, 0});
            return call.residual();
          });
          backend.synchronize();
        };
        for (int i = 0; i < 3; ++i) pass();
        if (rank == 2) return given_up.wait();
        failures[static_cast<std::size_t>(rank)] = failure_of(pass);
        given_up.count_down();
      },
      quick(transport));
  return failures;
}

TEST(Faults, IpcNamesTheCallOfAReplay) {
  for (const int rank : {0, 1, 3}) {
    static const auto failures = without_2_in_a_replay("ipc");
    EXPECT_THAT(failures[static_cast<std::size_t>(rank)].text,
                HasSubstr("rank 2 did not come to all_reduce at attn_out[0] (call 7)"));
  }
}

TEST(Faults, NcclNamesTheReplayedPass) {
  for (const int rank : {0, 1, 3}) {
    static const auto failures = without_2_in_a_replay("nccl");
    EXPECT_THAT(failures[static_cast<std::size_t>(rank)].text,
                HasSubstr("a rank did not come to a repeated pass (attn_out[0] to mlp_out[0])"));
  }
}

TEST(Faults, ARankThatIsOnlyLateIsWaitedFor) {
  run_gpu_ranks(
      2,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5);
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        call.run(comm, kSite);
        EXPECT_TRUE(call.residual_is(backend, 3));
      },
      quick("ipc", 20));
}

TEST(Faults, NoLimitWaitsForEver) {
  run_gpu_ranks(
      2,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5);
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        call.run(comm, kSite);
        EXPECT_TRUE(call.residual_is(backend, 3));
      },
      quick("ipc", 0));
}

// Both ranks are in an all-reduce, but not in the same one.
std::array<Failure, 2> out_of_step(const std::string& transport, Site other_site,
                                   std::int64_t other_rows) {
  std::array<Failure, 2> failures;
  run_gpu_ranks(
      2,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, rank == 0 ? 2 : other_rows, 9);
        failures[static_cast<std::size_t>(rank)] = failure_of([&] {
          call.run(comm, rank == 0 ? kSite : other_site);
          backend.synchronize();
        });
      },
      quick(transport, 20));
  return failures;
}

TEST(Faults, IpcSeesRanksOutOfStepAtOnce) {
  const auto site = out_of_step("ipc", {SiteKind::mlp_out, 3}, 2);
  EXPECT_THAT(site[0].text,
              AllOf(HasSubstr("rank 1 is out of step in all_reduce at attn_out[3] (call 1)"),
                    HasSubstr("found all_reduce at mlp_out[3]")));
  EXPECT_THAT(site[1].text, HasSubstr("expected all_reduce at mlp_out[3], found all_reduce at "
                                      "attn_out[3]"));
  EXPECT_EQ(site[0].code, ExitCode::bug);
  const auto shape = out_of_step("ipc", kSite, 3);
  EXPECT_THAT(shape[0].text, HasSubstr("found all_reduce at attn_out[3] of another shape"));
}

TEST(Faults, AnExceptionOnOneRankEndsAll) {
  for (const char* transport : {"ipc", "nccl", "staged"}) {
    const std::string error = error_of([&] {
      run_gpu_ranks(
          3,
          [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
            one_sum(rank, comm, backend);
            if (rank == 1) throw Error(ExitCode::model_files, "rank 1 cannot read its file");
            one_sum(rank, comm, backend);
          },
          quick(transport));
    });
    EXPECT_EQ(error, "rank 1 cannot read its file") << transport;
  }
}

TEST(Faults, AnExceptionEndsARanksOwnKernels) {
  // Rank 1 has a sum in its stream that rank 0 never comes to.
  const std::string error = error_of([&] {
    run_gpu_ranks(
        2,
        [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
          OnesCall call(rank, backend, 1, 5);
          if (rank == 0) return comm.barrier(kSite);
          call.run(comm, kSite);
          throw Error(ExitCode::bug, "thrown with a sum under way");
        },
        quick("ipc", 60));
  });
  EXPECT_EQ(error, "thrown with a sum under way");
}

TEST(Faults, AGpuThatHangsIsNotCalledAMissingRank) {
  run_gpu_ranks(
      1,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        one_sum(rank, comm, backend);
        std::latch released(1);
        doubles::enqueue(backend.stream().get(), "hang", [&] { released.wait(); });
        std::jthread later([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          released.count_down();
        });
        const Failure failure = failure_of([&] { backend.synchronize(); });
        EXPECT_THAT(failure.text, HasSubstr("rank 0's GPU did not end its work within 0.2 s"));
        EXPECT_EQ(failure.code, ExitCode::resources);
      },
      quick("ipc", 0.2));
}

TEST(Faults, AGpuThatCannotBeStoppedEndsTheProcess) {
  const auto codes = fork_ranks(1, {60, 60}, [](int, std::unique_ptr<Communicator> host) {
    CudaBackend backend({});
    const ThreadIpcMemory memory(1, 64);
    std::vector<ReducePath> paths;
    paths.push_back({std::make_unique<IpcReducer>(0, memory.memory(), backend, 1)});
    DeviceCommunicator comm(std::move(host), backend, std::move(paths), {0.1, 60}, "ipc", 0.2);
    std::latch never(1);
    doubles::enqueue(backend.stream().get(), "hang", [&] { never.wait(); });
    backend.synchronize();
    return 0;
  });
  EXPECT_THAT(codes, testing::ElementsAre(static_cast<int>(ExitCode::peer)));
}

TEST(Faults, StagedSumsAreNotRecorded) {
  run_gpu_ranks(
      1,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        EXPECT_FALSE(comm.recordable());
        EXPECT_THAT(error_of([&] { passes(2)(rank, comm, backend); }),
                    HasSubstr("a staged all_reduce cannot be recorded"));
      },
      quick("staged"));
}

TEST(Faults, NcclConnectsBeforeItIsRecorded) {
  run_gpu_ranks(
      1,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall small(rank, backend, 1, 100), large(rank, backend, 1, 200);
        OnesCall* call = &large;
        const auto pass = [&] {
          backend.run_pass(repeatable_step(), [&](const Step&) {
            call->run(comm, kSite);
            return call->residual();
          });
        };
        pass();
        call = &small;
        EXPECT_THAT(error_of(pass), HasSubstr("a message of a size that NCCL has not sent before"));
      },
      quick("nccl"));
}

TEST(Faults, IpcChecksItsMemory) {
  const ThreadIpcMemory memory(1, 64);
  CudaBackend backend({});
  const auto error_with = [&](int rank, IpcMemory m, int n_blocks) {
    return error_of([&] { IpcReducer(rank, std::move(m), backend, n_blocks); });
  };
  EXPECT_EQ(error_with(0, memory.memory(), 1), "");
  EXPECT_THAT(error_with(1, memory.memory(), 1), HasSubstr("1 to 16 ranks"));
  EXPECT_THAT(error_with(0, memory.memory(), 0), HasSubstr("1 to 32 blocks"));
  EXPECT_THAT(error_with(0, memory.memory(), 33), HasSubstr("1 to 32 blocks"));
  EXPECT_THAT(error_with(0, {memory.memory().base, 64}, 1), HasSubstr("a header and two slots"));
  EXPECT_THAT(error_of([] { ipc_bytes(0); }), HasSubstr("multiple of 16"));
  EXPECT_THAT(error_of([] { ipc_bytes(24); }), HasSubstr("multiple of 16"));
}

}  // namespace
}  // namespace shardlm::cuda
