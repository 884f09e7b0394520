#include "study/prediction.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "study/link_presets.h"
#include "study/work_shares.h"

namespace shardlm {
namespace {

using testing::Contains;
using testing::HasSubstr;

ModelConfig gpt2() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 12;
  c.n_embd = 768;
  c.n_head = 12;
  c.n_inner = 3072;
  c.n_positions = 1024;
  c.vocab_size = 50257;
  return c;
}

PredictionRequest request(const std::string& link, std::vector<int> ranks) {
  PredictionRequest r;
  r.model = "gpt2";
  r.config = gpt2();
  r.ranks = std::move(ranks);
  r.links = calibration_of_link(link);
  OneRankTiming timing;
  timing.test = "tg64";
  timing.tokens = 64;
  timing.seconds = 22e-3;
  timing.other_s = 0.4e-3;
  timing.where = "b.jsonl:1";
  r.timing = timing;
  return r;
}

PredictedPoint only(const PredictionRequest& r) { return predict(r).points.at(0); }

// The plan out and the replies in, of one sequence: 2 (alpha + (P-1) o) and their bytes.
double meetings_ms(double alpha_us, double beta_ns, double o_us, int ranks) {
  return 1e-3 * (2 * (alpha_us + (ranks - 1) * o_us) + (ranks - 1) * 480 * beta_ns * 1e-3);
}

// comm_study 2.2 counts 24 all-reduces of 3072 B; there is one more after the embedding here. 41 us
// each over 10 GbE at P = 4 (2.1).
TEST(Prediction, OfGpt2OverTenGigabit) {
  const PredictedPoint p = only(request("10gbe", {4}));
  EXPECT_EQ(p.nodes, 4);
  EXPECT_EQ(p.algorithm, "direct");
  EXPECT_NEAR(p.ms.all_reduce, 25 * 0.0414, 25 * 0.0005);
  const double meetings = meetings_ms(25, 0.8, 3, 4);
  // 12 heads and 3072 columns by 4; the largest share of 50257 ids is 12565.
  const PassWork w = pass_work(gpt2(), 1, 33.5, 1);
  const double shared = 21.6;
  EXPECT_NEAR(p.ms.compute, shared * (w.attention + w.mlp) / w.total() / 4, 1e-6);
  EXPECT_NEAR(p.ms.head, shared * w.head / w.total() * 12565 / 50257 + meetings / 2, 1e-6);
  EXPECT_NEAR(p.ms.other, 0.4 + meetings / 2, 1e-6);
  EXPECT_NEAR(p.tokens_per_s, 1e3 / p.ms.total(), 1e-9);
  EXPECT_NEAR(p.speedup, 22 / p.ms.total(), 1e-9);
  EXPECT_NEAR(p.efficiency, p.speedup / 4, 1e-12);
}

TEST(Prediction, OfOneRankIsWhatWasMeasured) {
  const PredictedPoint p = only(request("10gbe", {1}));
  EXPECT_NEAR(p.ms.total(), 22, 1e-9);
  EXPECT_EQ(p.ms.all_reduce, 0);
  EXPECT_EQ(p.algorithm, "-");
  EXPECT_NEAR(p.speedup, 1, 1e-12);
}

// By hand, two operations a multiply-add.
TEST(Prediction, CountsTheWork) {
  const PassWork w = pass_work(gpt2(), 2, 10, 1);
  EXPECT_EQ(w.attention, 2.0 * 2 * 12 * (4 * 768 * 768 + 2 * 768 * 10));
  EXPECT_EQ(w.mlp, 2.0 * 2 * 12 * (2 * 768 * 3072));
  EXPECT_EQ(w.head, 2.0 * 768 * 50257);
}

TEST(Prediction, UnevenHeadsCountAsTheLargestShare) {
  const LargestShares s = largest_shares(gpt2(), 8, {});
  EXPECT_NEAR(s.attention, 2.0 / 12, 1e-12);  // of 12 heads over 8 ranks some have 2
  EXPECT_NEAR(s.mlp, 1.0 / 8, 1e-12);
  PredictionRequest even = request("shm", {12}), more = request("shm", {13});
  // A thirteenth rank has no head to take, so attention gains nothing.
  EXPECT_EQ(largest_shares(gpt2(), 13, {}).attention, largest_shares(gpt2(), 12, {}).attention);
  EXPECT_LT(only(more).load_balance, only(even).load_balance);
}

// Where P ranks over a link of exactly that latency are as fast as one.
TEST(Prediction, BreakEvenIsWhereOneRankIsAsFast) {
  for (const int ranks : {2, 3, 4, 8, 12}) {
    const PredictedPoint p = only(request("10gbe", {ranks}));
    ASSERT_TRUE(p.break_even_alpha_us);
    const auto total = [&](double alpha) {
      return only(request(std::to_string(alpha) + ",10,3", {ranks})).ms.total();
    };
    EXPECT_NEAR(total(*p.break_even_alpha_us), 22, 0.01) << ranks;
    EXPECT_LT(total(*p.break_even_alpha_us * 0.9), 22);
    EXPECT_GT(total(*p.break_even_alpha_us * 1.1), 22);
  }
  // A model whose time is nothing is faster on one rank at any latency.
  PredictionRequest quick = request("1gbe", {8});
  quick.timing->seconds = 20e-6;
  quick.timing->other_s = 0;
  EXPECT_FALSE(only(quick).break_even_alpha_us);
}

TEST(Prediction, GetsNoFasterWithASlowerLink) {
  for (const int ranks : {2, 5, 8, 64}) {
    double before = 1e300;
    for (const char* link : {"ib-ndr", "ib-hdr", "100gbe", "25gbe", "10gbe", "1gbe"}) {
      const double speed = only(request(link, {ranks})).tokens_per_s;
      EXPECT_LE(speed, before * (1 + 1e-9)) << link << " " << ranks;
      before = speed;
    }
  }
  double sums = 0;
  for (const double alpha : {0.0, 1.0, 10.0, 100.0, 1000.0}) {
    const PredictedPoint p = only(request(std::to_string(alpha) + ",10", {8}));
    EXPECT_GT(p.ms.all_reduce, sums);
    sums = p.ms.all_reduce;
  }
}

TEST(Prediction, MoreRanksHaveLessToComputeAndToHold) {
  const Prediction p = predict(request("10gbe", {1, 2, 3, 4, 6, 12}));
  for (std::size_t i = 1; i < p.points.size(); ++i) {
    EXPECT_LT(p.points[i].ms.compute, p.points[i - 1].ms.compute);
    EXPECT_LT(p.points[i].rank_bytes, p.points[i - 1].rank_bytes);
    EXPECT_LE(p.points[i].efficiency, 1);
  }
}

TEST(Prediction, TheBestFitsTheMemory) {
  PredictionRequest r = request("1gbe", {1, 2, 4, 8});
  r.memory_bytes = 0.2e9;  // a quarter of 0.6 GB, not a half
  const Prediction p = predict(r);
  EXPECT_EQ(p.points[0].fits_memory, false);
  EXPECT_EQ(p.points[1].fits_memory, false);
  EXPECT_EQ(p.points[2].fits_memory, true);
  EXPECT_GE(p.best_ranks, 4);
  EXPECT_EQ(only(request("1gbe", {2})).fits_memory, std::nullopt);
}

TEST(Prediction, ChoosesAsTheLinksAre) {
  EXPECT_EQ(only(request("shm", {2})).algorithm, "shm-oneshot");
  EXPECT_EQ(only(request("10gbe", {2})).algorithm, "recdbl");
  PredictionRequest two = request("10gbe", {8});
  two.layout.nodes = 2;
  const PredictedPoint p = only(two);
  EXPECT_EQ(p.nodes, 2);
  EXPECT_THAT(p.algorithm, HasSubstr("two-level/"));
  EXPECT_LT(p.ms.all_reduce, only(request("10gbe", {8})).ms.all_reduce);
  PredictionRequest asked = request("10gbe", {8});
  asked.choice = AllReduceChoice{Algorithm::ring};
  EXPECT_EQ(only(asked).algorithm, "ring");
  EXPECT_NEAR(only(asked).ms.all_reduce, 25 * 0.354, 0.05);  // comm_study 2.1: 354 us
  asked.choice = AllReduceChoice{Algorithm::ring, WireFormat::bf16};
  EXPECT_LT(only(asked).ms.all_reduce, 25 * 0.354);
  asked.choice = AllReduceChoice{Algorithm::mpi};
  EXPECT_THROW(predict(asked), Error);
  asked.choice = AllReduceChoice{Algorithm::shm_oneshot};
  EXPECT_THROW(predict(asked), Error);
}

TEST(Prediction, AddsAnEmulatedNetwork) {
  PredictionRequest r = request("shm", {2});
  const double plain = only(r).ms.total();
  r.emulation.latency_us = 100;
  // 25 sums of one round, the plan and the replies.
  EXPECT_NEAR(only(r).ms.total() - plain, 27 * 0.1, 1e-3);
  r.emulation.gbit_per_s = 1;
  EXPECT_NEAR(only(r).ms.all_reduce, 25 * (0.1 + 3072 * 8e-6 + 0.36e-3 + 0.05e-3 + 3072 * 0.21e-6),
              0.01);
  r.emulation = {};
  r.emulation.slow_rank = 1;
  r.emulation.slow_us = 300;
  EXPECT_NEAR(only(r).ms.total() - plain, 25 * 0.3, 1e-6);
  r.emulation.slow_rank = 5;  // is not there
  EXPECT_NEAR(only(r).ms.total(), plain, 1e-9);
}

TEST(Prediction, OfAPrefillGoesChunkByChunk) {
  PredictionRequest r = request("10gbe", {4});
  r.prefill = true;
  r.prompt = 128;
  r.batch = 2;
  r.prefill_chunk = 100;
  r.timing->seconds = 1;
  r.choice = AllReduceChoice{Algorithm::direct};
  const PredictedPoint p = only(r);
  const auto us = [](double rows) { return 25 + 3 * 3 + 3 * 0.8e-3 * rows * 3072; };
  EXPECT_NEAR(p.ms.all_reduce, 25e-3 * (2 * us(100) + us(56)), 1e-6);
  EXPECT_NEAR(p.tokens_per_s, 256e3 / p.ms.total(), 1e-9);
}

// A machine on which two ranks have half of the memory's bandwidth each.
TEST(Prediction, RanksOfAMachineShareItsMemory) {
  PredictionRequest r = request("shm", {2});
  ComputeFacts facts;
  facts.ranks_at_once = 2;
  facts.matmul = {{1, 1 << 20, 10, 10}, {1, 1 << 30, 10, 5}};
  r.links.compute = facts;
  const double shared = only(r).ms.compute;
  r.links.compute->matmul = {{1, 1 << 20, 10, 10}, {1, 1 << 30, 10, 10}};
  const double free = only(r).ms.compute;
  EXPECT_GT(shared, 1.7 * free);
  EXPECT_LT(shared, 2 * free);
  EXPECT_NEAR(*slowness(facts, 1, 1 << 30, 1), 0.1, 1e-12);
  EXPECT_NEAR(*slowness(facts, 1, 1 << 30, 2), 0.2, 1e-12);
  EXPECT_NEAR(*slowness(facts, 1, 1 << 25, 2), 0.15, 1e-12);  // halfway in the logarithm
  EXPECT_NEAR(*slowness(facts, 7, 1, 2), 0.1, 1e-12);         // below all that was measured
}

TEST(Prediction, WithoutATimingNeedsRates) {
  PredictionRequest r = request("10gbe", {1});
  r.timing.reset();
  EXPECT_THROW(predict(r), Error);
  r.read_gb_per_s = 20;
  const double bytes = static_cast<double>(largest_shares(r.config, 1, {}).weight_bytes);
  EXPECT_NEAR(only(r).ms.total(), bytes / 20e9 * 1e3, 1e-9);
  r.gflop_per_s = 1;  // now arithmetic takes longer
  EXPECT_NEAR(only(r).ms.total(), pass_work(r.config, 1, 128, 1).total() * 1e-6, 1e-6);
  EXPECT_THAT(predict(r).notes, Contains(HasSubstr("at the given rates")));
}

TEST(Prediction, OfModelsBeyondAnyMachineStaysFinite) {
  PredictionRequest r = request("ib-ndr", {1, 65536});
  r.config.n_layer = 96;
  r.config.n_embd = r.config.n_head = 1 << 20;
  r.config.n_inner = 4 << 20;
  r.batch = 65536;
  r.prefill = true;
  r.prompt = 1 << 20;
  r.prefill_chunk = std::int64_t{1} << 62;
  for (const PredictedPoint& p : predict(r).points) {
    EXPECT_TRUE(std::isfinite(p.ms.total()) && p.ms.total() > 0);
    EXPECT_GT(p.rank_bytes, 0);
  }
}

TEST(Prediction, IsTheSameToProgramsAndToPeople) {
  const PredictionRequest r = request("10gbe", {1, 4});
  const Prediction p = predict(r);
  const auto json = nlohmann::json::parse(prediction_json(r, p));
  EXPECT_EQ(json["schema"], "shardlm prediction 1");
  EXPECT_EQ(json["source"], "link 10gbe (documented preset)");
  EXPECT_EQ(json["phase"], "decode");
  EXPECT_EQ(json["points"][1]["ranks"], 4);
  EXPECT_NEAR(json["points"][1]["ms"]["total"].get<double>(), p.points[1].ms.total(), 1e-9);
  EXPECT_EQ(json["best_ranks"], 4);
  EXPECT_EQ(json["break_even"].size(), 1U);
  EXPECT_TRUE(json["points"][0]["fits_memory"].is_null());
  const std::string text = prediction_text(r, p);
  EXPECT_THAT(text, HasSubstr("best: 4 ranks"));
  for (const std::string& note : p.notes) EXPECT_THAT(text, HasSubstr(note));
}

TEST(LinkPresets, EachIsOneThatCanBeNamed) {
  for (const LinkPreset& preset : link_presets()) {
    const Calibration c = calibration_of_link(std::string(preset.name));
    const LinkClass* link = c.find(std::string(preset.link_class));
    ASSERT_NE(link, nullptr) << preset.name;
    EXPECT_NEAR(link->message_s(1000) * 1e6, preset.alpha_us + preset.beta_ns_per_byte, 1e-9);
    EXPECT_FALSE(preset.source.empty());
    EXPECT_GT(only(request(std::string(preset.name), {2})).tokens_per_s, 0) << preset.name;
  }
}

TEST(LinkPresets, OrGivenByNumbers) {
  const Calibration c = calibration_of_link("100,1");
  EXPECT_NEAR(c.find("network")->message_s(1000) * 1e6, 100 + 8, 1e-9);
  EXPECT_NEAR(*calibration_of_link("5,100,0.5").find("network")->per_message_s, 0.5e-6, 1e-15);
  for (const char* wrong : {"", "11gbe", "5", "5,", "5,0", "-1,10", "5,10,1,2", "5,1e9", "nan,1",
                            "inf,1", "5;10", ",10", "5,10,"}) {
    EXPECT_THROW(calibration_of_link(wrong), Error) << wrong;
  }
}

class Timings : public testing::Test {
 protected:
  Timings() { path_ = std::filesystem::path(testing::TempDir()) / ("one_rank_timings-" + std::to_string(::getpid()) + ".jsonl"); }
  ~Timings() override { std::filesystem::remove(path_); }
  static std::string line(const std::string& test, int ranks, double speed,
                          const std::string& more = "") {
    return R"({"test": ")" + test + R"(", "kind": ")" + (test[0] == 'p' ? "prefill" : "decode") +
           R"(", "tokens": )" + test.substr(2) + R"(, "batch": 1, "dtype": "f32", "ranks": )" +
           std::to_string(ranks) + R"(, "threads": 2, "tokens_per_s": )" + std::to_string(speed) +
           R"(, "model": {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": 3072,)" +
           R"( "vocab_size": 50257})" + more + "}\n";
  }
  OneRankTiming read(const std::string& text, bool prefill = false) {
    std::ofstream(path_) << text;
    return read_one_rank_timing(path_, {.config = &config_, .prefill = prefill});
  }
  std::string refusal(const std::string& text) {
    try {
      read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "no error";
  }
  std::filesystem::path path_;
  ModelConfig config_ = gpt2();
};

TEST_F(Timings, AreTheLineOfOneRankThatFits) {
  const std::string text = line("tg64", 2, 90) + line("pp128", 1, 300) + "\n" +
                           line("tg64", 1, 50, R"(, "step_ms": {"other": 0.25})");
  const OneRankTiming t = read(text);
  EXPECT_NEAR(t.seconds, 0.02, 1e-12);
  EXPECT_NEAR(*t.other_s, 0.25e-3, 1e-12);
  EXPECT_EQ(t.threads, 2);
  EXPECT_THAT(t.where, HasSubstr(":4"));
  EXPECT_NEAR(read(text, true).seconds, 128.0 / 300, 1e-12);
  EXPECT_FALSE(read(text, true).other_s);
}

TEST_F(Timings, SayWhatIsThereIfNoneFits) {
  EXPECT_THAT(refusal(line("tg64", 2, 90)), HasSubstr("2 ranks"));
  EXPECT_THAT(refusal(""), HasSubstr("nothing"));
  EXPECT_THAT(refusal("{}\n"), HasSubstr(":1"));
  EXPECT_THAT(refusal(line("tg64", 1, 50) + "{\"half"), HasSubstr(":2"));
  EXPECT_THAT(refusal(line("tg64", 1, -5)), HasSubstr("tokens_per_s"));
  config_.n_embd = 1600;
  EXPECT_THAT(refusal(line("tg64", 1, 50)), HasSubstr("1600 wide"));
}

}  // namespace
}  // namespace shardlm
