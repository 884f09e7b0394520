// Findings as a function of what the ranks report, and how they are written.
#include "launcher/doctor_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "launcher/doctor_messages.h"
#include "tests/unit/launcher/fake_gpus.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Ranks as they should be: cores of their own, memory, /dev/shm, one GPU each if there are any.
DoctorReport healthy(const std::vector<RankGpus>& gpus, const EngineOptions& options = {}) {
  DoctorReport report;
  int core = 0;
  for (const RankGpus& rank : gpus) {
    RankFacts facts;
    facts.gpus = rank;
    facts.machine.pid = 100 + core;
    facts.machine.cores = {core, core + 1};
    facts.machine.memory_bytes = facts.machine.memory_available_bytes = 64 * kGiB;
    facts.machine.page_bytes = 4096;
    facts.machine.shm_free_bytes = 8 * kGiB;
    facts.threads = 2;
    facts.mpi = "Open MPI v4.1.4";
    facts.device_memory = DeviceMemory{.free_bytes = 100 * kGiB, .total_bytes = 128 * kGiB};
    core += 2;
    report.ranks.push_back(facts);
  }
  try {
    report.decision = decide_backend(options, gpus);
  } catch (const BackendRefusal& refusal) {
    report.refusal = refusal;
  }
  return report;
}

std::vector<RankGpus> without_cuda(int ranks) {
  std::vector<RankGpus> all = fake_host("a", ranks, 0);
  for (RankGpus& rank : all) {
    rank.survey = {};
    rank.survey.none_because = "this program was built without CUDA";
  }
  return all;
}

auto finding(const std::string& what, const std::string& remedy, ExitCode code = ExitCode::ok) {
  return AllOf(Field(&Finding::what, HasSubstr(what)), Field(&Finding::remedy, HasSubstr(remedy)),
               Field(&Finding::code, code));
}

TEST(Doctor, FindsNothingWhereNothingIsWrong) {
  EXPECT_THAT(find_problems(healthy(without_cuda(4))), IsEmpty());
  EXPECT_THAT(find_problems(healthy(fake_host("a", 4, 4))), IsEmpty());
  EXPECT_THAT(find_problems(healthy(joined(fake_host("a", 2, 2), fake_host("b", 2, 2)))),
              IsEmpty());
}

TEST(Doctor, MoreRanksThanCores) {
  DoctorReport report = healthy(without_cuda(3));
  for (RankFacts& facts : report.ranks) facts.machine.cores = {0, 1};
  EXPECT_THAT(find_problems(report),
              ElementsAre(finding("3 ranks on a, which gives them 2 cores", "at most 2")));
}

TEST(Doctor, RanksBoundToOneCore) {
  DoctorReport report = healthy(without_cuda(3));
  report.ranks[0].machine.cores = report.ranks[2].machine.cores = {4};
  report.ranks[1].machine.cores = {5, 6, 7};
  EXPECT_THAT(find_problems(report),
              ElementsAre(finding("ranks 0, 2 on a are bound to the same 1 core (4)", "--map-by")));
}

TEST(Doctor, MoreThreadsThanCores) {
  DoctorReport report = healthy(without_cuda(2));
  for (RankFacts& facts : report.ranks) {
    facts.machine.cores = {0, 1, 2, 3};
    facts.threads = 3;
  }
  EXPECT_THAT(find_problems(report),
              ElementsAre(finding("start 6 threads on 4 cores (0-3)", "--threads 2")));
}

TEST(Doctor, UnknownCoresAreNoFinding) {
  DoctorReport report = healthy(without_cuda(2));
  for (RankFacts& facts : report.ranks) facts.machine.cores.clear();
  EXPECT_THAT(find_problems(report), IsEmpty());
}

TEST(Doctor, BuiltWithCudaButNoneSeen) {
  std::vector<RankGpus> all = fake_host("a", 2, 0);
  EXPECT_THAT(find_problems(healthy(all)),
              ElementsAre(finding("built with CUDA, but ranks 0-1 on a: no CUDA device is present",
                                  "CUDA_VISIBLE_DEVICES")));
  for (RankGpus& rank : all) rank.survey.none_because = "no NVIDIA driver";
  EXPECT_THAT(find_problems(healthy(all)),
              ElementsAre(finding("no NVIDIA driver", "install NVIDIA's driver")));
}

TEST(Doctor, AJobThatWouldBeRefusedEndsWithItsCode) {
  const auto found = find_problems(healthy(fake_host("a", 3, 2)));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0],
              finding("fewer GPUs than ranks on a", "--allow-shared-gpu", ExitCode::resources));
  EXPECT_EQ(exit_code(found), ExitCode::resources);
  EngineOptions options;
  options.comm = CommChoice::staged;
  const auto misfit = find_problems(healthy(without_cuda(1), options));
  EXPECT_THAT(misfit, ElementsAre(finding("--comm staged", "--backend cuda", ExitCode::usage)));
  EXPECT_EQ(exit_code(misfit), ExitCode::usage);
}

TEST(Doctor, SharedGpus) {
  EngineOptions options;
  options.allow_shared_gpu = true;
  const auto found = find_problems(healthy(fake_host("a", 3, 2), options));
  EXPECT_THAT(found, ElementsAre(finding("ranks 0, 2 share a GPU on a", "one rank a GPU")));
  EXPECT_EQ(exit_code(found), ExitCode::ok);
}

TEST(Doctor, NoPeerAccess) {
  std::vector<RankGpus> all = fake_host("a", 3, 3);
  for (RankGpus& rank : all) rank.survey.devices[2].peers = {1};
  EXPECT_THAT(find_problems(healthy(all)), IsEmpty());  // 0 and 1 can still map 2, but 2 not 0
  for (RankGpus& rank : all) rank.survey.devices[0].peers = {1};
  EXPECT_THAT(find_problems(healthy(all)),
              ElementsAre(finding("no P2P between the GPUs of ranks 0-2 on a", "topo -m")));
}

TEST(Doctor, GpusOfSeveralKinds) {
  std::vector<RankGpus> all = fake_host("a", 2, 2);
  for (RankGpus& rank : all) rank.survey.devices[1].name = "NVIDIA A100";
  EXPECT_THAT(find_problems(healthy(all)),
              ElementsAre(finding("different GPUs: NVIDIA A100, NVIDIA H200", "one kind")));
}

TEST(Doctor, AGpuThatCannotBeAsked) {
  DoctorReport report = healthy(fake_host("a", 2, 2));
  report.ranks[1].device_problem = "CUDA says busy";
  report.ranks[1].device_memory.reset();
  const auto found = find_problems(report);
  EXPECT_THAT(found, ElementsAre(finding("the GPU of rank 1 on a cannot be used: CUDA says busy",
                                         "nvidia-smi", ExitCode::resources)));
}

TEST(Doctor, LittleLockableMemoryMattersBetweenHosts) {
  for (const bool several : {false, true}) {
    DoctorReport report = healthy(several ? joined(fake_host("a", 1, 1), fake_host("b", 1, 1))
                                          : fake_host("a", 2, 2));
    for (RankFacts& facts : report.ranks) facts.machine.memlock_bytes = 65536;
    const auto found = find_problems(report);
    if (several) {
      EXPECT_THAT(found, Contains(finding("on b may lock 64.0 KiB", "ulimit -l")));
    } else {
      EXPECT_THAT(found, IsEmpty());
    }
  }
}

TEST(Doctor, SmallSharedMemory) {
  DoctorReport report = healthy(without_cuda(2));
  for (RankFacts& facts : report.ranks) facts.machine.shm_free_bytes = 1000;
  EXPECT_THAT(find_problems(report),
              ElementsAre(finding("/dev/shm of a has 1000 bytes free", "--comm mpi")));
  report.ranks.pop_back();  // one rank shares nothing
  EXPECT_THAT(find_problems(report), IsEmpty());
}

TEST(Doctor, DifferentMpiLibraries) {
  DoctorReport report = healthy(joined(without_cuda(1), fake_host("b", 1, 0)));
  report.ranks[1].mpi = "MPICH 4.0";
  EXPECT_THAT(find_problems(report),
              Contains(finding("a has Open MPI v4.1.4, and b has MPICH 4.0", "one MPI library")));
}

ModelNeed large_model(int ranks) {
  ModelNeed need;
  need.model = "models/large";
  need.config.family = "gpt2";
  need.config.n_layer = 48;
  need.config.n_embd = 1600;
  need.config.n_head = 25;
  need.config.n_inner = 6400;
  need.config.n_positions = 1024;
  need.config.vocab_size = 50257;
  need.sizes = {.kv_tokens = 1024, .rows = 512, .logit_rows = 1};
  for (const RankShare& share : shard_plan(need.config, ranks, need.precision)) {
    need.ranks.push_back(memory_need(need.config, share, need.precision, need.sizes));
  }
  return need;
}

TEST(Doctor, AModelThatDoesNotFitEndsTheJob) {
  DoctorReport report = healthy(fake_host("a", 2, 2));
  report.model = large_model(2);
  EXPECT_THAT(find_problems(report), IsEmpty());
  report.ranks[1].device_memory->free_bytes = 2 * kGiB;
  const auto found = find_problems(report);
  EXPECT_THAT(found, ElementsAre(finding("models/large does not fit: rank 1 on a need",
                                         "--dtype bf16", ExitCode::resources)));
  EXPECT_THAT(found[0].what, HasSubstr("2.00 GiB are free"));
}

TEST(Doctor, RanksOfAHostShareItsMemory) {
  DoctorReport report = healthy(without_cuda(2));
  report.model = large_model(2);
  for (RankFacts& facts : report.ranks) facts.machine.memory_limit_bytes = 5 * kGiB;
  // One half fits, both do not.
  EXPECT_THAT(find_problems(report),
              ElementsAre(finding("ranks 0-1 on a need", "more hosts", ExitCode::resources)));
}

TEST(Doctor, JsonSaysWhatTheReportSays) {
  DoctorReport report = healthy(fake_host("a", 2, 2));
  report.model = large_model(2);
  report.ranks[0].machine.memlock_bytes = 4096;
  const auto found = std::vector<Finding>{{"what", "remedy", ExitCode::resources}};
  const auto json = nlohmann::json::parse(report_json(report, found));
  EXPECT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["device"], 1);
  EXPECT_EQ(json["ranks"][1]["gpus"][0]["peers"], nlohmann::json({1}));
  EXPECT_EQ(json["ranks"][0]["memlock_bytes"], 4096);
  EXPECT_TRUE(json["ranks"][1]["memlock_bytes"].is_null());
  EXPECT_EQ(json["backend"], "cuda");
  EXPECT_EQ(json["model"]["per_rank"][0]["usable_bytes"], 100 * kGiB);
  EXPECT_EQ(json["findings"][0]["ends_a_job"], true);
  DoctorReport refused = healthy(fake_host("a", 2, 1));
  EXPECT_TRUE(nlohmann::json::parse(report_json(refused, {}))["backend"].is_null());
}

TEST(Doctor, TextIsATableWithFindings) {
  DoctorReport report = healthy(fake_host("a", 2, 2));
  report.model = large_model(2);
  const std::string text = report_text(report, {});
  EXPECT_THAT(text, AllOf(HasSubstr("backend: cuda, 2 GPUs on 1 host (NVIDIA H200)"),
                          HasSubstr("1 (0000:11:00.0)"), HasSubstr("models/large: f32"),
                          HasSubstr("findings: none")));
  const std::string bad = report_text(report, {{"it burns", "water", ExitCode::resources}});
  EXPECT_THAT(bad, HasSubstr("- ends a job: it burns\n  remedy: water\n"));
}

TEST(Doctor, MessagesComeBackAsTheyWent) {
  RankFacts facts = healthy(fake_host("a", 1, 1)).ranks[0];
  facts.machine.numa_nodes = {0, 1};
  facts.machine.huge_pages = "never";
  facts.machine.memory_limit_bytes = 5;
  facts.device_problem = "none";
  std::vector<std::byte> bytes;
  write(facts, bytes);
  const RankFacts back = read_rank_facts(bytes);
  EXPECT_EQ(back.machine.pid, facts.machine.pid);
  EXPECT_EQ(back.machine.cores, facts.machine.cores);
  EXPECT_EQ(back.machine.numa_nodes, facts.machine.numa_nodes);
  EXPECT_EQ(back.machine.memory_bytes, facts.machine.memory_bytes);
  EXPECT_EQ(back.machine.memory_available_bytes, facts.machine.memory_available_bytes);
  EXPECT_EQ(back.machine.memory_limit_bytes, 5U);
  EXPECT_EQ(back.machine.page_bytes, 4096U);
  EXPECT_EQ(back.machine.huge_pages, "never");
  EXPECT_EQ(back.machine.shm_free_bytes, 8 * kGiB);
  EXPECT_FALSE(back.machine.memlock_bytes);
  EXPECT_EQ(back.threads, 2);
  EXPECT_EQ(back.mpi, "Open MPI v4.1.4");
  EXPECT_EQ(back.device_memory->free_bytes, 100 * kGiB);
  EXPECT_EQ(back.device_problem, "none");
}

}  // namespace
}  // namespace shardlm
