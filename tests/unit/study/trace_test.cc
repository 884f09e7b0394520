#include "study/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/unit/study/one_pass.h"

namespace shardlm {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;
using Json = nlohmann::json;

Json trace_of(const MergedRun& run) {
  std::ostringstream text;
  write_trace(run, "a \"title\"", text);
  return Json::parse(text.str());
}

std::vector<Json> events_of(const Json& trace, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

std::int64_t ns(const Json& us) { return std::llround(us.get<double>() * 1e3); }

TEST(Trace, HasWhatEveryEventNeeds) {
  const Json trace = trace_of(one_pass().merge());
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  EXPECT_EQ(trace["otherData"]["title"], "a \"title\"");
  EXPECT_EQ(trace["otherData"]["causality_violations"], 0);
  const std::set<std::string> phases = {"M", "X", "s", "f"};
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_TRUE(phases.contains(event["ph"])) << event;
    EXPECT_TRUE(event["name"].is_string()) << event;
    EXPECT_GE(event["pid"].get<int>(), 0);
    EXPECT_LE(event["pid"].get<int>(), 1);
    EXPECT_EQ((event["tid"].get<int>() - 1) / 2, event["pid"].get<int>()) << "of one rank only";
    EXPECT_GE(event["ts"].get<double>(), 0) << event;
    EXPECT_LE(ns(event["ts"]), 1000) << event;
    if (event["ph"] == "X") {
      EXPECT_GT(event["dur"].get<double>(), 0) << event;
      EXPECT_LE(ns(event["ts"]) + ns(event["dur"]), 1000) << event;
      EXPECT_TRUE(event.contains("cat")) << event;
    }
  }
}

TEST(Trace, NamesRanksAndThreads) {
  std::vector<std::string> names;
  for (const Json& event : events_of(trace_of(one_pass().merge()), "M")) {
    if (event["name"] != "process_sort_index") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("rank 0 @ node0 core 0", "compute", "communication",
                                 "rank 1 @ node1 core 2", "compute", "communication"));
}

// On a thread, an event lies within the one around it, or after the one before it.
TEST(Trace, NestsTheWaitInItsCall) {
  const Json trace = trace_of(one_pass().merge());
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> open;
  std::vector<Json> waits;
  for (const Json& event : events_of(trace, "X")) {
    auto& stack = open[{event["pid"], event["tid"]}];
    const std::int64_t begin = ns(event["ts"]), end = begin + ns(event["dur"]);
    while (!stack.empty() && stack.back().second <= begin) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_GE(begin, stack.back().first);
      EXPECT_LE(end, stack.back().second);
      EXPECT_EQ(event["name"], "wait");
    }
    if (event["name"] == "wait") {
      EXPECT_FALSE(stack.empty());
      waits.push_back(event);
    }
    stack.emplace_back(begin, end);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> times;
  for (const Json& event : waits) {
    times.emplace_back(ns(event["ts"]), ns(event["dur"]));
    EXPECT_EQ(event["cname"], "terrible");
    EXPECT_EQ(event["cat"], "wait");
  }
  EXPECT_THAT(times, UnorderedElementsAre(Pair(0, 100), Pair(300, 50), Pair(500, 100)));
}

TEST(Trace, DrawsArrowsFromWhomTheOthersWaitFor) {
  const Json trace = trace_of(one_pass().merge());
  std::map<std::uint64_t, std::pair<Json, Json>> flows;
  for (const Json& event : events_of(trace, "s")) flows[event["id"]].first = event;
  for (const Json& event : events_of(trace, "f")) flows[event["id"]].second = event;
  // Rank 1 waited for the plan and for rank 0's attention, rank 0 for rank 1's embedding. Nobody
  // waited for the answers.
  ASSERT_EQ(flows.size(), 3U);
  for (const auto& [id, flow] : flows) {
    ASSERT_FALSE(flow.first.is_null()) << id;
    ASSERT_FALSE(flow.second.is_null()) << id;
    EXPECT_NE(flow.first["pid"], flow.second["pid"]);
    EXPECT_EQ(flow.first["name"], flow.second["name"]);
    EXPECT_LE(flow.first["ts"].get<double>(), flow.second["ts"].get<double>());
  }
  // The sum after the attention: rank 0 comes last, at 600; rank 1 leaves at 660.
  const auto attention = std::find_if(flows.begin(), flows.end(), [](const auto& flow) {
    return ns(flow.second.first["ts"]) == 600;
  });
  ASSERT_NE(attention, flows.end());
  EXPECT_EQ(attention->second.first["pid"], 0);
  EXPECT_EQ(attention->second.second["pid"], 1);
  EXPECT_EQ(ns(attention->second.second["ts"]), 659);
}

TEST(Trace, HasTheArgumentsOfKineto) {
  for (const Json& event : events_of(trace_of(one_pass().merge()), "X")) {
    if (event["cat"] != "comm" || event["pid"] != 1) continue;
    const Json& args = event["args"];
    for (const char* key : {"Collective name", "Group size", "In msg nelems", "Out msg nelems",
                            "dtype", "Rank", "Process Group Name", "seq", "Comms Id", "algo",
                            "layer", "step", "wire_tx", "wait_us", "transfer_us"}) {
      EXPECT_TRUE(args.contains(key)) << key;
    }
    if (event["name"] != "allreduce attn_out[0]") continue;
    EXPECT_EQ(args["Collective name"], "allreduce");
    EXPECT_EQ(args["In msg nelems"], 6);
    EXPECT_EQ(args["dtype"], "Float");
    EXPECT_EQ(args["layer"], 0);
    EXPECT_EQ(args["algo"], "direct");
    EXPECT_EQ(args["wire_tx"], 24);
    EXPECT_DOUBLE_EQ(args["wait_us"].get<double>(), 0.1);
    EXPECT_DOUBLE_EQ(args["transfer_us"].get<double>(), 0.06);
  }
}

TEST(Trace, NamesTheComputation) {
  std::vector<std::string> names;
  for (const Json& event : events_of(trace_of(one_pass().merge()), "X")) {
    if (event["tid"] == 1 && event["pid"] == 0) names.push_back(event["name"]);
  }
  EXPECT_THAT(names, ElementsAre("sample", "embed", "attention[0]", "lm_head", "sample"));
}

}  // namespace
}  // namespace shardlm
