// What calls cost, as each transport tells it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "comm/call_record.h"
#include "tests/gpu/comm/gpu_ranks.h"

namespace shardlm::cuda {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr std::int64_t kLate_ns = 200'000'000;

GpuRankOptions by(const std::string& transport) {
  GpuRankOptions options;
  options.transport = transport;
  return options;
}

class CallTimes : public testing::TestWithParam<std::string> {};

// Rank 1 comes late to the second of three sums.
TEST_P(CallTimes, TellSiteBytesAndTimes) {
  const bool tells_wait = GetParam() == "ipc";
  run_gpu_ranks(
      2,
      [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        OnesCall call(rank, backend, 2, 9);
        call.run(comm, {SiteKind::dump});  // before: not in the log
        comm.record_calls(10);
        // A clock is mapped to another's by reading both one after the other.
        const std::int64_t slack_ns = 20'000'000;
        const std::int64_t before_ns = steady_ns();
        for (int i = 0; i < 3; ++i) {
          if (i < 2) comm.begin_step({static_cast<std::uint64_t>(i) + 5, Phase::decode, 1});
          if (i == 1 && rank == 1) {
            std::this_thread::sleep_for(std::chrono::nanoseconds(kLate_ns));
          }
          call.run(comm, {SiteKind::mlp_out, i});
          backend.synchronize();
          if (i != 1) comm.end_step();
          if (i == 0) std::this_thread::sleep_for(std::chrono::nanoseconds(slack_ns));
        }
        const CallLog& log = comm.call_log();
        ASSERT_EQ(log.calls.size(), 3U);
        for (int i = 0; i < 3; ++i) {
          const CallRecord& record = log.calls[static_cast<std::size_t>(i)];
          EXPECT_EQ(record.call.op, Op::all_reduce);
          EXPECT_EQ(site_text(record.call.site), "mlp_out[" + std::to_string(i) + "]");
          EXPECT_EQ(record.call.number, static_cast<std::uint64_t>(i) + 2);
          EXPECT_EQ(record.bytes, 72U);
          EXPECT_THAT(record.start, AllOf(Ge(before_ns - slack_ns), Le(steady_ns() + slack_ns)));
          if (tells_wait) {
            EXPECT_GE(record.wait, 0);
            EXPECT_LE(record.wait, record.end - record.start);
          } else {
            EXPECT_EQ(record.wait, -1);
          }
          EXPECT_GE(record.end, record.start);
          EXPECT_EQ(record.algorithm, GetParam());
          EXPECT_EQ(record.step.number, static_cast<std::uint64_t>(i == 0 ? 5 : 6));
        }
        const std::int64_t waited_ns =
            tells_wait ? log.calls[1].wait : log.calls[1].end - log.calls[1].start;
        if (rank == 0) {
          EXPECT_GE(waited_ns, kLate_ns / 2);
        }
        EXPECT_EQ(comm.call_log().calls.size(), 3U) << "records are added once";
        comm.record_calls(0);
        call.run(comm, {SiteKind::dump});
        EXPECT_EQ(comm.call_log().calls.size(), 0U);
      },
      by(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Transports, CallTimes, testing::Values("ipc", "nccl", "staged"));

TEST(CallTimes, OfReplays) {
  for (const char* transport : {"ipc", "nccl"}) {
    run_gpu_ranks(
        2,
        [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
          comm.record_calls(100);
          OnesCall call(rank, backend, 2, 9);
          for (int i = 0; i < 4; ++i) {
            backend.run_pass(repeatable_step(), [&](const Step&) {
              call.run(comm, {SiteKind::attn_out, 0});
              return call.residual();
            });
          }
          const CallLog& log = comm.call_log();
          // ipc: each run. nccl: the eager run, and the last of the replays.
          ASSERT_EQ(log.calls.size(), transport == std::string("ipc") ? 4U : 2U);
          for (std::size_t i = 0; i < log.calls.size(); ++i)
            EXPECT_GE(log.calls[i].end, log.calls[i].start);
        },
        by(transport));
  }
}

TEST(CallTimes, OfEachLaunchOfAMessageAboveASlot) {
  GpuRankOptions options = by("ipc");
  options.slot_bytes = 64;
  run_gpu_ranks(
      2,
      [](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
        comm.record_calls(10);
        OnesCall above(rank, backend, 5, 8), below(rank, backend, 1, 8);
        above.run(comm, {SiteKind::mlp_out, 0});  // two rows a launch
        below.run(comm, {SiteKind::mlp_out, 1});
        const CallLog& log = comm.call_log();
        ASSERT_EQ(log.calls.size(), 4U);
        const std::uint64_t numbers[] = {1, 1, 1, 2}, bytes[] = {64, 64, 32, 32};
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_EQ(log.calls[i].call.number, numbers[i]) << i;
          EXPECT_EQ(log.calls[i].bytes, bytes[i]) << i;
        }
      },
      options);
}

TEST(CallTimes, AreKeptForAsManyCallsAsThereIsRoom) {
  for (const char* transport : {"ipc", "nccl"}) {
    run_gpu_ranks(
        1,
        [&](int rank, DeviceCommunicator& comm, CudaBackend& backend) {
          comm.record_calls(2000);
          OnesCall call(rank, backend, 1, 2);
          for (int i = 0; i < 1030; ++i) call.run(comm, {SiteKind::mlp_out, i});
          EXPECT_EQ(comm.call_log().calls.size(), 1024U) << transport;
          call.run(comm, {SiteKind::dump});
          EXPECT_EQ(comm.call_log().calls.size(), 1025U) << transport;
        },
        by(transport));
  }
}

}  // namespace
}  // namespace shardlm::cuda
