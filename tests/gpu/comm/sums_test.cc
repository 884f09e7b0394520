// Sums over emulated GPUs, by every transport: right at any size, in rank order, fused or not,
// recorded or not.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <tuple>

#include "tests/gpu/comm/environment.h"
#include "tests/gpu/comm/gpu_ranks.h"
#include "tests/gpu/kernels/device.h"
#include "tests/support/comm_checks.h"

namespace shardlm::cuda {
namespace {

constexpr Site kSite{SiteKind::attn_out, 3};
constexpr float sum_of_ranks(int size) { return static_cast<float>(size * (size + 1) / 2); }

using Shape = std::array<std::int64_t, 2>;

GpuRankOptions with_slot(const std::string& transport, std::size_t slot_bytes) {
  GpuRankOptions options;
  options.transport = transport;
  options.slot_bytes = slot_bytes;
  return options;
}

class Sums : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& transport() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
};

TEST_P(Sums, AreExactAtAnySize) {
  run_gpu_ranks(
      size(),
      [](int, DeviceCommunicator& comm, CudaBackend& backend) {
        for (const auto& [rows, cols] : std::vector<Shape>{{0, 4},
                                                           {1, 1},
                                                           {1, 3},
                                                           {1, 255},
                                                           {1, 256},
                                                           {5, 51},
                                                           {6, 51},
                                                           {17, 50},
                                                           {1, 257},
                                                           {2, 700},
                                                           {0, 700}}) {
          check_exact_sums(comm, backend, rows, cols);
        }
      },
      with_slot(transport(), 1024));
}

TEST_P(Sums, HaveTheBitsOfTheRankOrderFusedOrNot) {
  run_gpu_ranks(
      size(),
      [](int, DeviceCommunicator& comm, CudaBackend& backend) {
        check_rank_order(comm, backend, 1, 768, 1);
        check_rank_order(comm, backend, 7, 301, 2);
        check_rank_order(comm, backend, 1, 1025, 3);  // a row above a slot
      },
      with_slot(transport(), 4096));
}

TEST_P(Sums, MixWithMessagesOfTheHosts) {
  run_gpu_ranks(
      size(),
      [](int, DeviceCommunicator& comm, CudaBackend& backend) {
        check_mixed_calls(comm, backend, 25, 7, 500);
      },
      with_slot(transport(), 512));
}

TEST_P(Sums, OfViewsWithRowsFarApart) {
  run_gpu_ranks(
      size(),
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        const std::int64_t rows = 3, cols = 6;
        const std::vector<float> ones(30, static_cast<float>(rank + 1));
        const Tensor wide = on_device(backend, rows, 10, ones);
        for (const std::int64_t begin : {0, 1, 4}) {
          Tensor residual = on_device(backend, rows, cols, std::vector<float>(18, 0.5F));
          comm.all_reduce(kSite, wide.columns(begin, begin + cols), {.residual = &residual});
          EXPECT_EQ(on_host(backend, residual),
                    std::vector<float>(18, 0.5F + sum_of_ranks(comm.size())));
        }
        EXPECT_EQ(on_host(backend, wide), ones) << "the addend was written";
      },
      with_slot(transport(), 1024));
}

TEST_P(Sums, NormedRowsInHalfTypesAreThoseOfSeparateOps) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    GpuRankOptions options = with_slot(transport(), 4096);
    options.dtype = dtype;
    run_gpu_ranks(
        size(),
        [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
          const std::int64_t rows = 3, cols = 37;
          const Tensor addend =
              on_device(backend, rows, cols, random_values(rows * cols, 10 + unsigned(rank)));
          const LayerNormParams norm{on_device(backend, 1, cols, random_values(cols, 1)),
                                     on_device(backend, 1, cols, random_values(cols, 2)), 1e-5F};
          Tensor residual = on_device(backend, rows, cols, random_values(rows * cols, 3));
          Tensor normed = backend.allocate_activation(rows, cols);
          comm.all_reduce(kSite, addend, {nullptr, &residual, &norm, &normed});
          const Tensor separate = backend.allocate_activation(rows, cols);
          backend.layer_norm(residual, norm, separate);
          // The two may add up a row's statistics in another order: a rounding of the type apart.
          const std::vector<float> a = on_host(backend, normed), b = on_host(backend, separate);
          for (std::size_t i = 0; i < a.size(); ++i) {
            ASSERT_NEAR(a[i], b[i],
                        2 * rounding(backend.precision().activations) * (std::abs(b[i]) + 1e-3));
          }
        },
        options);
  }
}

// What goes through the host is enqueued anew each time, with the same sums.
TEST_P(Sums, AreReplayedWithAPass) {
  GpuRankOptions options = with_slot(transport(), 1024);
  run_gpu_ranks(
      size(),
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall small(rank, backend, 2, 33), above_slot(rank, backend, 9, 100);
        EXPECT_EQ(comm.recordable(), transport() != "staged");
        Step step = repeatable_step();
        step.repeatable = comm.recordable();
        for (int i = 1; i <= 5; ++i) {
          backend.run_pass(step, [&](const Step&) {
            small.run(comm, {SiteKind::attn_out, 0});
            above_slot.run(comm, {SiteKind::mlp_out, 0});
            small.run(comm, {SiteKind::attn_out, 1});
            return small.residual();
          });
          const float sum = static_cast<float>(i) * sum_of_ranks(comm.size());
          EXPECT_TRUE(small.residual_is(backend, 2 * sum)) << i;
          EXPECT_TRUE(above_slot.residual_is(backend, sum)) << i;
          check_exact_sums(comm, backend, 1, i);  // another launch between two replays
        }
      },
      options);
}

std::string test_name(const testing::TestParamInfo<std::tuple<std::string, int>>& param) {
  std::string name = std::get<0>(param.param);
  std::replace(name.begin(), name.end(), '+', '_');
  return name + "_" + std::to_string(std::get<1>(param.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sums,
                         testing::Combine(testing::Values("ipc", "nccl", "staged"),
                                          testing::Values(1, 2, 3, 4, 5)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(TwoPaths, Sums,
                         testing::Values(std::tuple<std::string, int>{"ipc+nccl", 3}), test_name);

class IpcOrders : public testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { set_thread_order(GetParam()); }
  void TearDown() override { set_thread_order(ThreadOrder::forward); }
};

TEST_P(IpcOrders, DoNotMatter) {
  run_gpu_ranks(
      3,
      [](int, DeviceCommunicator& comm, CudaBackend& backend) {
        check_exact_sums(comm, backend, 9, 70);
        check_rank_order(comm, backend, 5, 33, 1);
        check_rank_order(comm, backend, 2, 300, 2);
      },
      with_slot("ipc", 1024));
}

SHARDLM_EVERY_THREAD_ORDER(IpcOrders);

TEST(Ipc, SixteenRanksAndEveryBlock) {
  const WithEnvironment gpus("SHARDLM_FAKE_GPUS", "16");
  GpuRankOptions options = with_slot("ipc", 4096);
  options.n_blocks = 32;
  run_gpu_ranks(
      16,
      [](int, DeviceCommunicator& comm, CudaBackend& backend) {
        check_exact_sums(comm, backend, 33, 5);
        check_rank_order(comm, backend, 1, 40, 1);
      },
      options);
}

// Launches of unequal sizes, one after another without a wait: a block that has no rows in one of
// them must not run ahead of those that have.
TEST(Ipc, ManyLaunchesInARow) {
  run_gpu_ranks(
      3,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall one(rank, backend, 1, 20), few(rank, backend, 3, 20), many(rank, backend, 9, 20);
        for (int i = 0; i < 60; ++i) {
          OnesCall& call = i % 3 == 0 ? one : i % 3 == 1 ? many : few;
          call.run(comm, {SiteKind::mlp_out, i});
        }
        for (const OnesCall* call : {&one, &few, &many}) {
          EXPECT_TRUE(call->residual_is(backend, 20 * sum_of_ranks(comm.size())));
        }
      },
      with_slot("ipc", 1024));
}

TEST(DeviceCommunicator, RefusesAddendsThatDoNotFitTheUpdate) {
  run_gpu_ranks(1, [](int, DeviceCommunicator& comm, CudaBackend& backend) {
    Tensor residual = backend.allocate(1, 5);
    EXPECT_NE(error_of([&] {
                comm.all_reduce(kSite, backend.allocate(1, 4), {.residual = &residual});
              }).find("the residual has the addend's shape"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace shardlm::cuda
