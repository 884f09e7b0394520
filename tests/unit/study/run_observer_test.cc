#include "study/run_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

std::filesystem::path file_in_temp(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("shardlm_observer_" + std::to_string(getpid()) + "_" + name);
}

// A run of one-token passes, recorded around the calls of a real communicator.
void run_passes(Communicator& comm, CallLog& log, int n_passes) {
  std::uint64_t number = 0;
  std::vector<std::byte> plan(16), answer(8);
  std::vector<std::vector<std::byte>> answers;
  for (int n = 1; n <= n_passes; ++n) {
    RecordedCall planned(log, {Op::broadcast, {SiteKind::step}, ++number});
    comm.broadcast({SiteKind::step}, plan, 0);
    planned.set_root(0);
    planned.end("shm", DType::u8, plan.size(), 0);
    log.begin_step({static_cast<std::uint64_t>(n), Phase::decode, 1});
    RecordedCall summed(log, {Op::all_reduce, {SiteKind::embed}, ++number});
    comm.barrier({SiteKind::embed});
    summed.end("shm-oneshot", DType::f32, 32, 32);
    log.end_step();
    RecordedCall gathered(log, {Op::gather, {SiteKind::lm_head}, ++number});
    comm.gather({SiteKind::lm_head}, answer, answers, 0);
    gathered.set_root(0);
    gathered.end("shm", DType::u8, answer.size(), 8);
  }
}

ModelConfig no_layers_of_8() {
  ModelConfig config;
  config.n_layer = 0;
  config.n_embd = 8;
  return config;
}

TEST(RunObserver, ReportsAndTracesARun) {
  const auto trace = file_in_temp("trace.json"), report = file_in_temp("report.json");
  run_ranks(3, [&](int rank, Communicator& comm, Backend&) {
    CallLog log(1000, 100);
    RunObserver observer(comm, log,
                         {.host = "here", .cores = std::to_string(rank), .machine = machine_id()},
                         {.report = true,
                          .report_file = report,
                          .trace_file = trace,
                          .title = "three threads",
                          .model = no_layers_of_8()});
    comm.barrier({SiteKind::load});
    observer.begin_run();
    run_passes(comm, log, 50);
    const std::string text = observer.finish();
    if (rank != 0) {
      EXPECT_EQ(text, "");
      return;
    }
    EXPECT_THAT(text, HasSubstr("communication of 3 ranks, 150 calls"));
    EXPECT_THAT(text, HasSubstr("0 violations of causality"));
    EXPECT_THAT(text, HasSubstr("50 of 50 passes have the 1 all-reduces"));
  });
  const auto json = nlohmann::json::parse(std::ifstream(report));
  EXPECT_EQ(json["ranks"].size(), 3U);
  EXPECT_EQ(json["traffic_as_expected"], true);
  EXPECT_EQ(json["phases"][0]["steps"], 50);
  EXPECT_LE(json["worst_sum_error"].get<double>(), 0.01);
  EXPECT_EQ(json["sites"][1]["sent_bytes_all_ranks"], 50 * 3 * 32);
  const auto events = nlohmann::json::parse(std::ifstream(trace));
  EXPECT_GT(events["traceEvents"].size(), 450U);
  std::filesystem::remove(trace);
  std::filesystem::remove(report);
}

TEST(RunObserver, SaysThatTheRingWasTooSmall) {
  run_ranks(2, [](int rank, Communicator& comm, Backend&) {
    CallLog log(30, 100);
    RunObserver observer(comm, log, {.host = "here", .cores = "0", .machine = machine_id()},
                         {.report = true});
    observer.begin_run();
    run_passes(comm, log, 50);
    const std::string text = observer.finish();
    if (rank == 0) {
      EXPECT_THAT(text, HasSubstr("INCOMPLETE: the 240 oldest calls"));
    }
  });
}

TEST(RunObserver, AsksNobodyForALiveLine) {
  run_ranks(2, [](int rank, Communicator& comm, Backend&) {
    CallLog log;  // the observer gives it memory
    RunObserver observer(comm, log, {.host = "here", .cores = "0", .machine = ""}, {.live = true});
    EXPECT_TRUE(log.tells_wait);
    run_passes(comm, log, 2);
    if (rank == 0) {
      EXPECT_THAT(observer.live_line(2), testing::StartsWith("tok 2  "));
    }
    EXPECT_EQ(observer.finish(), "");
  });
}

TEST(RunObserver, NamesAFileThatItCannotWrite) {
  run_ranks(1, [](int, Communicator& comm, Backend&) {
    CallLog log(10, 10);
    RunObserver observer(comm, log, {.host = "here", .cores = "0", .machine = machine_id()},
                         {.trace_file = "/nowhere/trace.json"});
    try {
      observer.finish();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_THAT(e.what(), HasSubstr("/nowhere/trace.json: the trace cannot be written"));
    }
  });
}

}  // namespace
}  // namespace shardlm
