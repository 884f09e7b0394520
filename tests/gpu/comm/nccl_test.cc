// The rules of starting, failing and ending NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <latch>
#include <thread>

#include "base/error.h"
#include "comm/cuda/nccl_reducer.h"
#include "comm/gpu.h"
#include "comm/self_communicator.h"
#include "tests/gpu/comm/environment.h"
#include "tests/gpu/comm/fork_ranks.h"
#include "tests/gpu/comm/gpu_ranks.h"
#include "tests/support/comm_checks.h"

namespace shardlm::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Site kSite{SiteKind::attn_out, 3};
constexpr int kPeer = static_cast<int>(ExitCode::peer);

GpuRankOptions by_nccl(double limit_s = 60) {
  GpuRankOptions options;
  options.transport = "nccl";
  options.deadlines = {limit_s, 60};
  return options;
}

// Three processes start NCCL, each in its own environment. Each must fail so.
using Variables = std::function<std::string(int rank)>;
std::vector<int> start_three(const char* variable, const Variables& value_on, double load_s,
                             const std::function<std::string(int rank)>& text_on) {
  return fork_ranks(3, {60, 60}, [&](int rank, std::unique_ptr<Communicator> host) {
    const auto backend = make_gpu_backend({.device = rank});
    const WithEnvironment environment(variable, value_on(rank));
    try {
      make_gpu_communicator(std::move(host), *backend, "nccl", {.one_node = true}, {60, load_s});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text_on(rank)));
      return static_cast<int>(error.code());
    }
    return 0;
  });
}

Variables on_rank(int one, const std::string& value, const std::string& others) {
  return [=](int rank) { return rank == one ? value : others; };
}
Variables on_all(const std::string& value) {
  return [=](int) { return value; };
}

TEST(Nccl, RefusesOldVersions) {
  const auto codes = start_three("SHARDLM_FAKE_NCCL_VERSION", on_all("21701"), 10,
                                 on_all("NCCL's version: expected 2.18.0 or later, found 2.17.1"));
  EXPECT_THAT(codes, Each(static_cast<int>(ExitCode::usage)));
}

TEST(Nccl, RefusesUnequalVersions) {
  const auto codes = start_three("SHARDLM_FAKE_NCCL_VERSION", on_rank(1, "22703", "22809"), 10,
                                 on_all("NCCL's version: expected the same on all ranks, found "
                                        "2.27.3 on rank 1, 2.28.9 on ranks 0, 2"));
  EXPECT_THAT(codes, Each(static_cast<int>(ExitCode::usage)));
}

TEST(Nccl, WithoutAnIdNobodyStarts) {
  const auto codes =
      start_three("SHARDLM_FAKE_GPU_FAULT", on_rank(0, "ncclGetUniqueId:1:2", ""), 10,
                  on_all("NCCL failed while starting: found unhandled system error"));
  EXPECT_THAT(codes, Each(kPeer));
}

TEST(Nccl, ARankThatCannotConnectIsNotWaitedForForEver) {
  const auto codes =
      start_three("SHARDLM_FAKE_GPU_FAULT", on_rank(1, "ncclCommInitRankConfig:1:2", ""), 0.4,
                  on_rank(1, "NCCL failed while connecting the ranks: found unhandled system error",
                          "NCCL did not end connecting the ranks within 0.4 s"));
  EXPECT_THAT(codes, Each(kPeer));
}

TEST(Nccl, FailsWhileConnecting) {
  const auto codes = start_three("SHARDLM_FAKE_GPU_FAULT", on_all("ncclCommGetAsyncError:1:6"), 10,
                                 on_all("NCCL failed while connecting the ranks: found remote "
                                        "process exited or there was a network error"));
  EXPECT_THAT(codes, Each(kPeer));
}

TEST(Nccl, WithoutAVersionThereIsNoNccl) {
  const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT", "ncclGetVersion:1:3");
  EXPECT_THAT(error_of([] {
                run_gpu_ranks(
                    1, [](int, DeviceCommunicator&, CudaBackend&) {}, by_nccl());
              }),
              HasSubstr("NCCL failed while asking its version"));
}

TEST(Nccl, RanksThatShareAGpuAreNcclsToRefuseIfNobodyDidBefore) {
  const auto codes = fork_ranks(2, {60, 60}, [](int, std::unique_ptr<Communicator> host) {
    const auto backend = make_gpu_backend({.device = 0});
    EXPECT_THAT(error_of([&] {
                  make_gpu_communicator(std::move(host), *backend, "nccl", {}, {60, 10});
                }),
                HasSubstr("Duplicate GPU"));
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(Nccl, WarnsUnlessToldOtherwise) {
  for (const std::string set : {"", "INFO"}) {
    const auto codes = fork_ranks(1, {60, 60}, [&](int, std::unique_ptr<Communicator> host) {
      if (set.empty()) {
        unsetenv("NCCL_DEBUG");
      } else {
        setenv("NCCL_DEBUG", set.c_str(), 1);
      }
      const auto backend = make_gpu_backend({});
      make_gpu_communicator(std::move(host), *backend, "nccl", {}, {60, 60});
      EXPECT_EQ(std::string(std::getenv("NCCL_DEBUG")), set.empty() ? "WARN" : set);
      return 0;
    });
    EXPECT_THAT(codes, Each(0));
  }
}

TEST(Nccl, ACallThatItRefusesIsNamed) {
  const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT", "ncclAllReduce:2:3");
  run_gpu_ranks(
      1,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5);
        call.run(comm, kSite);
        EXPECT_THAT(error_of([&] { call.run(comm, kSite); }),
                    HasSubstr("NCCL failed while all_reduce at attn_out[3] (call 2): found "
                              "internal error"));
      },
      by_nccl());
}

TEST(Nccl, AnErrorInTheBackgroundEndsTheWait) {
  run_gpu_ranks(
      1,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5);
        std::latch released(1);
        doubles::enqueue(backend.stream().get(), "hang", [&] { released.wait(); });
        call.run(comm, kSite);
        std::jthread later([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          released.count_down();
        });
        const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT", "ncclCommGetAsyncError:1:6");
        const std::string error = error_of([&] { backend.synchronize(); });
        EXPECT_THAT(error, AllOf(HasSubstr("NCCL failed in all_reduce at attn_out[3] (call 1)"),
                                 HasSubstr("remote process exited")));
      },
      by_nccl());
}

TEST(Nccl, AnErrorWithoutACallUnderWay) {
  run_gpu_ranks(
      1,
      [](int, DeviceCommunicator&, CudaBackend& backend) {
        std::latch released(1);
        doubles::enqueue(backend.stream().get(), "hang", [&] { released.wait(); });
        std::jthread later([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          released.count_down();
        });
        const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT", "ncclCommGetAsyncError:1:6");
        EXPECT_THAT(error_of([&] { backend.synchronize(); }),
                    HasSubstr("NCCL failed in the background"));
      },
      by_nccl());
}

TEST(Nccl, RanksInDifferentCallsFailInsteadOfComputing) {
  std::string errors[2];
  run_gpu_ranks(
      2,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5 + rank);
        errors[rank] = error_of([&] {
          call.run(comm, kSite);
          backend.synchronize();
        });
        comm.barrier(kSite);
      },
      by_nccl(5));
  for (const std::string& error : errors) EXPECT_NE(error, "");
  EXPECT_THAT(doubles::take_async_error(), HasSubstr("ranks issued different collectives"));
}

TEST(Nccl, EndsAfterTheRecordedPasses) {
  run_gpu_ranks(
      2,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 1, 5);
        for (int i = 0; i < 3; ++i) {
          backend.run_pass(repeatable_step(), [&](const Step&) {
            call.run(comm, kSite);
            return call.residual();
          });
        }
      },
      by_nccl());
  EXPECT_THAT(ncclGetLastError(nullptr), Not(HasSubstr("graphs")));
}

TEST(Nccl, AnEndThatFailsIsAnAbort) {
  for (const char* fault : {"ncclCommFinalize:1:2", "ncclCommGetAsyncError:1:2"}) {
    run_gpu_ranks(
        1,
        [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
          OnesCall call(rank, backend, 1, 5);
          call.run(comm, kSite);
          backend.synchronize();
          setenv("SHARDLM_FAKE_GPU_FAULT", fault, 1);
        },
        by_nccl());
    unsetenv("SHARDLM_FAKE_GPU_FAULT");
    doubles::take_async_error();
  }
}

TEST(Nccl, VersionsAreReadable) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(21805), "2.18.5");
}

}  // namespace
}  // namespace shardlm::cuda
