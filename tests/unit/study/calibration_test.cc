#include "study/calibration.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "comm/shm_team.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

LinkClass made_class(const std::string& name, double alpha, double beta) {
  LinkClass link;
  link.name = name;
  link.transport = name == "shm" ? "shm" : "mpi";
  link.pairs = 1;
  link.hosts = {"nodeA"};
  link.segments = {{0, 8192, alpha, beta}, {8192, 4U << 20, 2 * alpha, beta}};
  link.per_message_s = 1e-7;
  link.alpha_holds_one_message = true;
  link.fit_error = 0.02;
  link.points = {{0, alpha, 1.1 * alpha, 500}, {64, 1.01 * alpha, 1.2 * alpha, 400}};
  return link;
}

Calibration made_up() {
  Calibration c;
  c.hash = "0123456789abcdef";
  c.environment = {{"cpu", "two \"fast\" cores"}, {"method", "calibration 1"}};
  c.ranks = 4;
  c.nodes = 2;
  c.classes = {made_class("shm", 1e-6, 1e-9), made_class("node", 2e-6, 1e-9),
               made_class("network", 30e-6, 8e-9)};
  c.gamma = {{16384, 0.03e-9, "L1"}, {1U << 26, 0.2e-9, "RAM"}};
  ComputeFacts facts;
  facts.threads = 2;
  facts.ranks_at_once = 2;
  facts.read = {{1 << 20, 30, 28}};
  facts.matmul = {{1, 1 << 20, 15, 14}, {1, 1 << 27, 5, 2.5}, {128, 1 << 20, 60, 58}};
  facts.norm_row_s = 1e-7;
  facts.norm_s_per_element = 1e-10;
  facts.op_s = 2e-7;
  facts.meetings_s = 3e-6;
  facts.node_memory_bytes = std::uint64_t{8} << 30;
  c.compute = facts;
  return c;
}

class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("calibration_") + test->name() + std::to_string(::getpid()) + ".json");
  }
  ~CalibrationFile() override { std::filesystem::remove(path_); }

  Calibration read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return read_calibration(path_);
  }
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      return error.what();
    }
    return "no error";
  }
  // The made-up one with a value replaced, at a JSON pointer.
  std::string with(const std::string& pointer, const std::string& value) {
    auto object = nlohmann::ordered_json::parse(calibration_text(made_up()));
    object[nlohmann::ordered_json::json_pointer(pointer)] = nlohmann::ordered_json::parse(value);
    return object.dump();
  }
  std::filesystem::path path_;
};

TEST_F(CalibrationFile, ComesBackAsItWas) {
  const Calibration c = read(calibration_text(made_up()));
  EXPECT_EQ(calibration_text(c), calibration_text(made_up()));
  EXPECT_EQ(c.classes[2].segments[1].alpha_s, 60e-6);
  EXPECT_EQ(c.compute->matmul[1].all_gflop_per_s, 2.5);
  EXPECT_THAT(c.source, HasSubstr("calibration "));
}

TEST_F(CalibrationFile, NeedsNoComputePartAndNoO) {
  Calibration c = made_up();
  c.compute.reset();
  c.classes[0].per_message_s.reset();
  const Calibration back = read(calibration_text(c));
  EXPECT_FALSE(back.compute);
  EXPECT_FALSE(back.classes[0].per_message_s);
}

TEST_F(CalibrationFile, ThatIsHostileIsRefusedByName) {
  EXPECT_THAT(refusal("no JSON"), HasSubstr("calibration"));
  EXPECT_THAT(refusal("[]"), HasSubstr("an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("format"));
  EXPECT_THAT(refusal(with("/format", "\"shardlm calibration 2\"")),
              HasSubstr("shardlm calibration 1"));
  EXPECT_THAT(refusal(with("/ranks", "0")), HasSubstr("1 rank"));
  EXPECT_THAT(refusal(with("/ranks", "-3")), HasSubstr("ranks"));
  EXPECT_THAT(refusal(with("/ranks", "1e30")), HasSubstr("ranks"));
  EXPECT_THAT(refusal(with("/classes", "{}")), HasSubstr("classes"));
  EXPECT_THAT(refusal(with("/classes/0/segments", "[]")), HasSubstr("classes[0]"));
  EXPECT_THAT(refusal(with("/classes/0/segments/0/alpha_s", "-1")),
              HasSubstr("classes[0].segments[0].alpha_s"));
  EXPECT_THAT(refusal(with("/classes/0/segments/0/alpha_s", "\"fast\"")), HasSubstr("a number"));
  EXPECT_THAT(refusal(with("/classes/0/segments/0/alpha_s", "1e9")), HasSubstr("1e+06"));
  EXPECT_THAT(refusal(with("/classes/0/segments/1/to", "10")), HasSubstr("ascending"));
  EXPECT_THAT(refusal(with("/classes/0/segments/1/to", "0.5")), HasSubstr("whole"));
  EXPECT_THAT(refusal(with("/classes/0/name", "7")), HasSubstr("a text"));
  EXPECT_THAT(refusal(with("/compute/matmul/0/alone_gflop_per_s", "0")), HasSubstr("above 0"));
  EXPECT_THAT(refusal(with("/compute/matmul/0/rows", "0")), HasSubstr("a row"));
  EXPECT_THAT(refusal(with("/compute/threads", "0")), HasSubstr("compute"));
  EXPECT_THAT(refusal(with("/environment/cpu", "[1]")), HasSubstr("environment.cpu"));
  const std::string text = calibration_text(made_up());
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 97) refusal(text.substr(0, cut));
}

TEST(CalibratedAllReduce, GoesOverTheClassOfItsRanks) {
  const Calibration c = made_up();
  const auto us = [&](Algorithm a, int ranks, int nodes, std::size_t bytes) {
    return predicted_all_reduce_s(c, a, ranks, nodes, bytes).value_or(-1) * 1e6;
  };
  // alpha + n beta + n gamma: by hand.
  EXPECT_NEAR(us(Algorithm::shm_oneshot, 2, 1, 1000), 1 + 1 + 0.03, 1e-6);
  EXPECT_NEAR(us(Algorithm::direct, 2, 1, 1000), 2 + 1 + 0.03, 1e-6);
  EXPECT_NEAR(us(Algorithm::direct, 2, 2, 1000), 30 + 8 + 0.03, 1e-6);
  EXPECT_NEAR(us(Algorithm::direct, 3, 3, 1000), 30 + 2 * 8 + 0.1 + 2 * 0.03, 1e-6);
  EXPECT_EQ(us(Algorithm::shm_oneshot, 1, 1, 1000), 0);
  EXPECT_FALSE(predicted_all_reduce_s(c, Algorithm::shm_oneshot, 4, 2, 8));
  EXPECT_FALSE(predicted_all_reduce_s(c, Algorithm::mpi, 4, 2, 8));
  Calibration no_network = c;
  no_network.classes.pop_back();
  EXPECT_FALSE(predicted_all_reduce_s(no_network, Algorithm::direct, 4, 2, 8));
}

TEST(CalibratedAllReduce, IsCutAsSharedMemoryIs) {
  const Calibration c = made_up();
  const std::size_t slot = ShmTeam::kSlotBytes;
  const double one = *predicted_all_reduce_s(c, Algorithm::shm_oneshot, 2, 1, slot);
  const double rest = *predicted_all_reduce_s(c, Algorithm::shm_oneshot, 2, 1, 4096);
  EXPECT_NEAR(*predicted_all_reduce_s(c, Algorithm::shm_oneshot, 2, 1, 3 * slot + 4096),
              3 * one + rest, 1e-12);
  EXPECT_EQ(*rounds_in_all_reduce({Algorithm::shm_oneshot}, even_shape(2, 1), 3 * slot + 4096), 4);
}

// comm/two_level_reducer: put, wait, slices of 500 bytes, messages of both ranks over one link,
// wait, read.
TEST(CalibratedAllReduce, OfTwoLevelsByHand) {
  const Calibration c = made_up();
  const AllReduceChoice choice{Algorithm::two_level, WireFormat::f32, Algorithm::direct};
  const double inside = 2 * 1 + 2 * 500e-3 + 0.03 * 0.5, between = 30 + 2 * 500 * 8e-3 + 0.03 * 0.5;
  EXPECT_NEAR(*predicted_all_reduce_s(c, choice, even_shape(4, 2), 1000) * 1e6, inside + between,
              1e-6);
}

TEST(CalibratedAllReduce, IsEmulatedWhereTheLinksWere) {
  Calibration c = made_up();
  c.classes.push_back(made_class("emulated", 100e-6, 0));
  for (const Algorithm a : {Algorithm::shm_oneshot, Algorithm::direct})
    EXPECT_GT(*predicted_all_reduce_s(c, a, 2, 1, 1000), 99e-6);
}

}  // namespace
}  // namespace shardlm
