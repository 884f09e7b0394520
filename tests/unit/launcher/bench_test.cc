// The options of bench, and what its results say of their seconds.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/backend_options.h"
#include "launcher/bench_environment.h"
#include "launcher/bench_options.h"
#include "launcher/bench_report.h"
#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = BenchTest::Kind;

BenchOptions bench(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--shape", "gpt2"});
  return parse_as<BenchOptions>(more);
}

std::string bench_error(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--shape", "gpt2"});
  return usage_error(more);
}

TEST(BenchOptions, DefaultsAreTheDocumentedOnes) {
  const BenchOptions o = bench({});
  EXPECT_EQ(o.shape, "gpt2");
  EXPECT_THAT(o.prompt, ElementsAre(128));
  EXPECT_THAT(o.generate, ElementsAre(64));
  EXPECT_THAT(o.batch, ElementsAre(1));
  EXPECT_THAT(o.dtypes, ElementsAre(DTypeChoice::f32));
  EXPECT_THAT(o.threads, ElementsAre(0));
  EXPECT_EQ(o.repetitions, 5);
  EXPECT_EQ(o.most, 200);
  EXPECT_EQ(o.max_seconds, 10);
  EXPECT_EQ(o.ci_width, 0.02);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(bench_engines(o).size(), 1U);
  EXPECT_EQ(bench_engines(o)[0].communication.allreduce, "auto");
  EXPECT_EQ(o.format, BenchFormat::table);
}

TEST(BenchOptions, ListsAreRead) {
  const BenchOptions o = bench({"--prompt", "128,512", "--generate=0", "--batch", "1,16", "--dtype",
                                "f32,bf16,f16", "--threads", "2,1", "--format", "jsonl"});
  EXPECT_THAT(o.prompt, ElementsAre(128, 512));
  EXPECT_THAT(o.generate, ElementsAre(0));
  EXPECT_THAT(o.batch, ElementsAre(1, 16));
  EXPECT_THAT(o.dtypes, ElementsAre(DTypeChoice::f32, DTypeChoice::bf16, DTypeChoice::f16));
  EXPECT_THAT(o.threads, ElementsAre(2, 1));
  EXPECT_EQ(o.format, BenchFormat::jsonl);
}

std::vector<std::string> allreduces(const BenchOptions& o) {
  std::vector<std::string> names;
  for (const EngineOptions& engine : bench_engines(o))
    names.push_back(dtype_name(precision_of(engine.dtype, engine.kv_dtype).weights) + " " +
                    engine.communication.allreduce);
  return names;
}

TEST(BenchOptions, AllReducesAreCrossed) {
  EXPECT_THAT(allreduces(bench({"--allreduce", "auto;decode=ring,direct;mpi"})),
              ElementsAre("f32 auto", "f32 decode=ring,direct", "f32 mpi"));
  EXPECT_THAT(allreduces(bench({"--allreduce", "ring", "--allreduce=star", "--dtype", "f32,bf16"})),
              ElementsAre("f32 ring", "f32 star", "bf16 ring", "bf16 star"));
  const std::string file = write_file("a.yaml", "bench:\n  allreduce: [auto, 'ring;star']\n");
  EXPECT_THAT(allreduces(bench({"--config", file})),
              ElementsAre("f32 auto", "f32 ring", "f32 star"));
  EXPECT_THAT(allreduces(bench({"--config", file, "--allreduce", "mpi"})), ElementsAre("f32 mpi"));
  EXPECT_THAT(bench_error({"--allreduce", "auto;rang"}), HasSubstr("rang"));
  EXPECT_THAT(bench_error({"--allreduce", "auto;"}), HasSubstr("--allreduce"));
  EXPECT_THAT(bench_error({"--allreduce", "auto;ring:int8", "--reduction", "exact"}),
              HasSubstr("--reduction exact"));
}

TEST(BenchOptions, ListsStandInFilesToo) {
  const std::string file = write_file("b.yaml",
                                      "threads: 2\nbench:\n  shape: gpt2-xl,n_layer=2\n"
                                      "  prompt: [16, 32]\n  generate: 8\n  dtype: [f32, bf16]\n");
  const auto o = parse_as<BenchOptions>({"bench", "--config", file, "--batch", "3"});
  EXPECT_EQ(o.shape, "gpt2-xl,n_layer=2");
  EXPECT_THAT(o.prompt, ElementsAre(16, 32));
  EXPECT_THAT(o.generate, ElementsAre(8));
  EXPECT_THAT(o.dtypes, ElementsAre(DTypeChoice::f32, DTypeChoice::bf16));
  EXPECT_THAT(o.threads, ElementsAre(2));
  EXPECT_THAT(o.batch, ElementsAre(3));
}

TEST(BenchOptions, AShapeOverridesTheModelOfAFile) {
  const std::string file = write_file("m.yaml", "model: m\n");
  const auto o = parse_as<BenchOptions>({"bench", "--config", file, "--shape", "gpt2"});
  EXPECT_EQ(o.shape, "gpt2");
  EXPECT_EQ(o.engine.model, "");
}

TEST(BenchOptions, RefusesJunk) {
  EXPECT_THAT(bench_error({"--prompt", "1,x"}), HasSubstr("--prompt: expected an integer"));
  EXPECT_THAT(bench_error({"--prompt", "1,,2"}), HasSubstr("commas"));
  EXPECT_THAT(bench_error({"--prompt", "1,"}), HasSubstr("commas"));
  EXPECT_THAT(bench_error({"--prompt", ""}), HasSubstr("commas"));
  EXPECT_THAT(bench_error({"--prompt", "-1"}), HasSubstr("from 0 to"));
  EXPECT_THAT(bench_error({"--batch", "0"}), HasSubstr("from 1 to"));
  EXPECT_THAT(bench_error({"--dtype", "f32,f33"}), HasSubstr("\"f33\""));
  EXPECT_THAT(bench_error({"--threads", "1,two"}), HasSubstr("\"two\""));
  EXPECT_THAT(bench_error({"--repetitions", "0"}), HasSubstr("from 1 to"));
  EXPECT_THAT(bench_error({"--prompt", "0,0", "--generate", "0"}),
              HasSubstr("something to measure"));
  EXPECT_THAT(bench_error({"--ci-width", "2"}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(bench_error({"--max-seconds", "-1"}), HasSubstr("--max-seconds"));
  EXPECT_THAT(bench_error({"--json", "--format", "csv"}), HasSubstr("--json and another --format"));
  EXPECT_THAT(bench_error({"--model", "m"}), HasSubstr("--model: cannot stand beside --shape"));
  EXPECT_THAT(bench_error({"--backend", "cuda", "--comm", "shm"}), HasSubstr("--comm shm"));
  EXPECT_THAT(usage_error({"bench"}), HasSubstr("--model DIR or --shape SHAPE"));
  EXPECT_THAT(usage_error({"bench", "--shape", "gpt5"}), HasSubstr("\"gpt5\""));
}

BenchContext context() {
  BenchContext c;
  c.environment = {{"version", "1.2"}, {"cpu", "a \"fast\", one"}};
  c.source = "gpt2,n_layer=1";
  c.config.n_layer = 1;
  c.config.n_embd = 10;
  c.config.n_head = 2;
  c.config.n_inner = 40;
  c.config.n_positions = 100;
  c.config.vocab_size = 50;
  c.ranks = 2;
  return c;
}

BenchResult decode() {
  BenchResult r;
  r.test = {Kind::decode, 10, 4};
  r.dtype = r.kv_dtype = "f32";
  r.weight_bytes = 3'000'000;
  r.read_gb_per_s = 10.0;
  r.samples.seconds = {0.02, 0.01, 0.04};  // the median step: 2 ms
  return r;
}

TEST(BenchReport, DerivesWhatItSays) {
  const BenchResult r = decode();
  EXPECT_DOUBLE_EQ(tokens_per_s(r).median, 2000);
  EXPECT_DOUBLE_EQ(tokens_per_s(r).least, 1000);
  EXPECT_DOUBLE_EQ(tokens_per_s(r).most, 4000);
  EXPECT_DOUBLE_EQ(*ms_per_step(r), 2);
  EXPECT_FALSE(ttft_ms(r));
  EXPECT_DOUBLE_EQ(*weight_gb_per_s(r), 1.5);
  EXPECT_DOUBLE_EQ(*share_of_read(r), 0.15);

  BenchResult p = r;
  p.test = {Kind::prefill, 10, 4};
  EXPECT_DOUBLE_EQ(*ttft_ms(p), 20);
  EXPECT_FALSE(ms_per_step(p));
  EXPECT_FALSE(weight_gb_per_s(p));
  EXPECT_FALSE(share_of_read(p));
}

std::vector<std::string> lines_of(BenchFormat format) {
  std::ostringstream out;
  const auto report = make_bench_report(format, out);
  report->begin(context());
  report->add(context(), decode());
  report->add(context(), decode());
  report->end(context());
  std::vector<std::string> lines;
  std::istringstream text(out.str());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(BenchReport, SaysHowSureItIs) {
  BenchResult r = decode();
  EXPECT_FALSE(tokens_per_s(r).low);  // below 6 there is no interval
  r.samples.seconds = {0.02, 0.02, 0.01, 0.04, 0.02, 0.02};
  EXPECT_DOUBLE_EQ(*tokens_per_s(r).low, 1000);
  EXPECT_DOUBLE_EQ(*tokens_per_s(r).high, 4000);
  r.samples.joules = 24.0;  // of 6 repetitions of 40 tokens
  EXPECT_DOUBLE_EQ(*joules_per_token(r), 0.1);
}

TEST(BenchReport, PercentilesOnlyOfEnoughGaps) {
  BenchResult r = decode();
  for (const auto& [n, p50, p95] :
       {std::tuple{39, false, false}, {40, true, false}, {400, true, true}}) {
    r.samples.gaps_s.assign(static_cast<std::size_t>(n), 0.002);
    std::ostringstream out;
    const auto report = make_bench_report(BenchFormat::jsonl, out);
    report->add(context(), r);
    const auto line = nlohmann::json::parse(out.str());
    EXPECT_EQ(line["itl_ms"]["n"], n);
    EXPECT_EQ(!line["itl_ms"]["p50"].is_null(), p50);
    EXPECT_EQ(!line["itl_ms"]["p95"].is_null(), p95);
    EXPECT_TRUE(line["itl_ms"]["p99"].is_null());
    EXPECT_EQ(line["itl_samples_ms"].size(), static_cast<std::size_t>(n));
    EXPECT_TRUE(line["step_ms"].is_null());  // nothing was recorded
  }
}

TEST(BenchReport, KeepsAtMostSoManyGaps) {
  BenchResult r = decode();
  r.samples.gaps_s.assign(10000, 0.002);
  std::ostringstream out;
  make_bench_report(BenchFormat::jsonl, out)->add(context(), r);
  const auto n = nlohmann::json::parse(out.str())["itl_samples_ms"].size();
  EXPECT_TRUE(n > 2000 && n <= 4096) << n;
}

TEST(BenchReport, JsonHasAllInOneObject) {
  const auto lines = lines_of(BenchFormat::json);
  ASSERT_EQ(lines.size(), 1U);
  const auto object = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(object["environment"]["cpu"], "a \"fast\", one");
  EXPECT_EQ(object["model"]["n_layer"], 1);
  ASSERT_EQ(object["tests"].size(), 2U);
  EXPECT_EQ(object["tests"][0]["test"], "tg10");
  EXPECT_EQ(object["tests"][0]["seconds"], nlohmann::json({0.02, 0.01, 0.04}));
  EXPECT_TRUE(object["tests"][0]["ttft_ms"].is_null());
}

TEST(BenchReport, JsonLinesStandForThemselves) {
  const auto lines = lines_of(BenchFormat::jsonl);
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["environment"]["version"], "1.2");
    EXPECT_EQ(object["model"]["vocab_size"], 50);
    EXPECT_EQ(object["test"], "tg10");
  }
}

TEST(BenchReport, CsvHasAValueForEachColumn) {
  const auto lines = lines_of(BenchFormat::csv);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], testing::StartsWith("test,kind,tokens,batch,dtype,"));
  for (const std::string& line : lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','),
              std::count(lines[0].begin(), lines[0].end(), ','));
  }
}

TEST(BenchReport, TheTableIsMarkdown) {
  std::size_t width = 0;
  int rows = 0;
  for (const std::string& line : lines_of(BenchFormat::table)) {
    if (!line.starts_with("|")) continue;
    if (rows++ == 0) width = line.size();
    EXPECT_EQ(line.size(), width) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 20);
  }
  EXPECT_EQ(rows, 4);  // names, rule, two results: one headline for both
}

TEST(BenchEnvironment, NamesTheProcessor) {
  const std::string file =
      write_file("cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
  const auto folder = std::filesystem::path(file).parent_path();
  std::filesystem::create_directories(folder / "proc");
  std::filesystem::rename(file, folder / "proc/cpuinfo");
  EXPECT_EQ(cpu_name(folder), "Some CPU @ 2 GHz");
  EXPECT_EQ(cpu_name(folder / "none"), "unknown");
}

}  // namespace
}  // namespace shardlm
