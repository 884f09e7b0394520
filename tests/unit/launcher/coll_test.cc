// The options of bench coll, and what its results say of their times.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/coll_report.h"
#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CollOptions coll(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "coll"});
  return parse_as<CollOptions>(more);
}

std::string coll_error(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "coll"});
  return usage_error(more);
}

TEST(CollOptions, AreRead) {
  const CollOptions none = coll({});
  EXPECT_THAT(none.ops, ElementsAre("all_reduce"));
  EXPECT_TRUE(none.algorithms.empty());
  EXPECT_THAT(none.modes, ElementsAre(CollMode::isolated));
  EXPECT_EQ(none.least, 200);
  EXPECT_EQ(none.most, 20000);
  const CollOptions all =
      coll({"--op", "barrier,gather", "--bytes", "64,128", "--algorithms", "ring,two-level/star",
            "--mode", "back-to-back,isolated", "--buffers", "cold", "--format", "md"});
  EXPECT_THAT(all.ops, ElementsAre("barrier", "gather"));
  EXPECT_THAT(all.bytes, ElementsAre(64, 128));
  EXPECT_THAT(all.algorithms, ElementsAre("ring", "two-level/star"));
  EXPECT_THAT(all.modes, ElementsAre(CollMode::back_to_back, CollMode::isolated));
  EXPECT_EQ(all.buffers, CollBuffers::cold);
  EXPECT_EQ(all.format, BenchFormat::md);
}

TEST(CollOptions, RefuseJunk) {
  EXPECT_THAT(coll_error({"--op", "all_reduse"}), HasSubstr("all_reduce"));
  EXPECT_THAT(coll_error({"--algorithms", "rang"}), HasSubstr("rang"));
  EXPECT_THAT(coll_error({"--mode", "alone"}), HasSubstr("isolated"));
  EXPECT_THAT(coll_error({"--bytes", "-1"}), HasSubstr("--bytes"));
  EXPECT_THAT(coll_error({"--emulate", "latency=1"}), HasSubstr("--emulate"));
  EXPECT_THAT(coll_error({"--ci-width", "-1"}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(coll_error({"--json", "--format", "md"}), HasSubstr("another --format"));
}

CollContext context() {
  CollContext c;
  c.environment = {{"cpu", "some"}};
  c.ranks = 4;
  c.ranks_of_nodes = {2, 2};
  c.buffers = "warm";
  return c;
}

CollResult result() {
  CollResult r;
  r.sample.algorithm = "ring";
  r.sample.bytes = 8000;
  r.sample.us = {1, 3, 2, 2};
  r.sample.calls = 4;
  r.sample.model_us = 1.0;
  return r;
}

TEST(CollReport, CountsAsNcclTestsDoes) {
  const CollNumbers n = numbers_of(result(), 4);
  EXPECT_EQ(n.median.median, 2);
  EXPECT_FALSE(n.p99);
  EXPECT_NEAR(n.cv, 0.8165 / 2, 1e-4);
  EXPECT_DOUBLE_EQ(n.algbw_gb_s, 4);
  EXPECT_DOUBLE_EQ(n.busbw_gb_s, 6);  // 2 (P - 1) / P
  EXPECT_DOUBLE_EQ(*n.efficiency, 0.5);
  CollResult gather = result();
  gather.sample.op = Op::gather;
  EXPECT_DOUBLE_EQ(numbers_of(gather, 4).algbw_gb_s, 16);
  EXPECT_DOUBLE_EQ(numbers_of(gather, 4).busbw_gb_s, 12);
}

TEST(CollReport, AFitGivesBackTheLinkThatItWasMadeFrom) {
  std::vector<CollSample> samples;
  for (const std::size_t bytes : {64, 4096, 65536}) {
    CollSample& s = samples.emplace_back();
    s.choice = AllReduceChoice{Algorithm::ring};
    s.bytes = bytes;
    // Of 2 ranks: 2 alpha and n (beta + gamma / 2), here 2 us and 1 ns a byte.
    s.us = {2 * 2.0 + 1.5 * 1e-3 * static_cast<double>(bytes)};
  }
  const CollModel model = fitted_model(samples, 2);
  EXPECT_NEAR(*model({Algorithm::ring}, 4096), 10.144e-6, 1e-9);
  EXPECT_FALSE(model({Algorithm::shm_oneshot}, 4096));  // none of these was measured
  EXPECT_FALSE(model({Algorithm::mpi}, 4096));
}

std::string text_of(BenchFormat format) {
  std::ostringstream out;
  const auto report = make_coll_report(format, out);
  report->begin(context());
  report->add(context(), result());
  report->end(context());
  return out.str();
}

TEST(CollReport, HasTheFieldsOfItsSchema) {
  const auto line = nlohmann::json::parse(text_of(BenchFormat::jsonl));
  EXPECT_EQ(line["schema"], "shardlm coll 1");
  for (const char* key :
       {"method_version", "op",         "algorithm",      "bytes",    "count",      "type",
        "ranks",          "nodes",      "ranks_of_nodes", "emulate",  "mode",       "buffers",
        "t_min_us",       "t_p50_us",   "low_us",         "high_us",  "t_p99_us",   "cv",
        "algbw_gb_s",     "busbw_gb_s", "wire_tx",        "model_us", "efficiency", "wrong",
        "calls",          "samples_us", "oversubscribed", "noisy",    "environment"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["nodes"], 2);
  EXPECT_EQ(line["count"], 2000);
  EXPECT_TRUE(line["low_us"].is_null());
  EXPECT_EQ(line["samples_us"], nlohmann::json({1, 3, 2, 2}));
  const auto whole = nlohmann::json::parse(text_of(BenchFormat::json));
  EXPECT_EQ(whole["results"].size(), 1U);
  EXPECT_EQ(whole["environment"]["cpu"], "some");
}

TEST(CollReport, TablesHaveACellForEachColumn) {
  std::istringstream csv(text_of(BenchFormat::csv));
  std::string names, cells;
  std::getline(csv, names);
  std::getline(csv, cells);
  EXPECT_EQ(std::count(names.begin(), names.end(), ','),
            std::count(cells.begin(), cells.end(), ','));
  std::istringstream table(text_of(BenchFormat::md));
  std::size_t width = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("|")) continue;
    if (width == 0) width = line.size();
    EXPECT_EQ(line.size(), width) << line;
  }
  EXPECT_GT(width, 0U);
}

}  // namespace
}  // namespace shardlm
