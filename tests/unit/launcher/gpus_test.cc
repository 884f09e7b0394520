// The choice of back end and GPUs as a function of what the ranks find.
#include "launcher/gpus.h"

#include <gmock/gmock.h>

#include "launcher/gpu_messages.h"
#include "tests/unit/launcher/fake_gpus.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EngineOptions options_of(BackendChoice backend, CommChoice comm = CommChoice::automatic,
                         bool allow_shared = false) {
  EngineOptions options;
  options.backend = backend;
  options.comm = comm;
  options.allow_shared_gpu = allow_shared;
  return options;
}

BackendDecision decided(const std::vector<RankGpus>& all,
                        const EngineOptions& options = options_of(BackendChoice::automatic)) {
  return decide_backend(options, all);
}

// The refusal's text; the exit code must be the given one.
std::string refusal(const std::vector<RankGpus>& all, const EngineOptions& options,
                    ExitCode code = ExitCode::resources) {
  try {
    decide_backend(options, all);
  } catch (const BackendRefusal& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_FALSE(e.problem().remedy.empty()) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

const EngineOptions kAuto = options_of(BackendChoice::automatic);
const EngineOptions kCuda = options_of(BackendChoice::cuda);

TEST(Gpus, RankKOfAHostTakesItsKthGpu) {
  const auto d = decided(fake_host("a", 4, 4));
  EXPECT_EQ(d.kind, BackendKind::cuda);
  EXPECT_THAT(d.devices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(d.gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(d.shared_gpu);
  EXPECT_TRUE(d.one_node);
  EXPECT_TRUE(d.peer_access);
  EXPECT_EQ(decision_line(d, "ipc"),
            "backend: cuda, 4 GPUs on 1 host (NVIDIA H200); all-reduce: ipc");
  EXPECT_EQ(shared_gpu_line(d), "");
  EXPECT_THAT(d.sharers(2), ElementsAre(2));
}

TEST(Gpus, TwoHostsAreNotOneNodeAndNotPeers) {
  const auto d = decided(joined(fake_host("a", 2, 8), fake_host("b", 2, 2)));
  EXPECT_THAT(d.devices, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(d.gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(d.one_node);
  EXPECT_FALSE(d.peer_access);
  EXPECT_EQ(d.summary, "4 GPUs on 2 hosts (NVIDIA H200)");
}

TEST(Gpus, OneVisibleDeviceEachIsTheLaunchersChoice) {
  // CUDA_VISIBLE_DEVICES of its own for each rank: all call theirs 0.
  const auto d = decided({fake_rank("a", 0, {3}), fake_rank("a", 1, {1}), fake_rank("a", 2, {0})});
  EXPECT_THAT(d.devices, ElementsAre(0, 0, 0));
  EXPECT_THAT(d.gpus, ElementsAre(0, 1, 2));
  EXPECT_FALSE(d.shared_gpu);
  EXPECT_FALSE(d.peer_access);  // none sees another's device, so none can map its memory
}

TEST(Gpus, ADeviceThatALowerRankHasIsPassedOver) {
  // Each rank sees the GPUs in another order; rank 1's second is rank 0's first.
  const auto d = decided({fake_rank("a", 0, {0, 1}), fake_rank("a", 1, {1, 0})});
  EXPECT_THAT(d.devices, ElementsAre(0, 0));
  EXPECT_THAT(d.gpus, ElementsAre(0, 1));
}

TEST(Gpus, CudasNumberIsTakenNotThePlaceInTheList) {
  std::vector<RankGpus> all = fake_host("a", 1, 1);
  all[0].survey.devices[0].index = 5;
  EXPECT_EQ(decided(all).placement(0).device, 5);
}

TEST(Gpus, WithoutUuidsTheBusIdAndTheHostTell) {
  std::vector<RankGpus> all = joined(fake_host("a", 1, 1), fake_host("b", 1, 1));
  for (RankGpus& rank : all) rank.survey.devices[0].uuid.clear();
  EXPECT_THAT(decided(all).gpus, ElementsAre(0, 1));  // one bus id on two hosts
  all[1].host = "a";
  all[1].node_rank = 1;
  refusal(all, kAuto);
}

TEST(Gpus, ContainersOfOneMachineShareItsGpus) {
  // Two host names, no shared memory, but the same uuid.
  std::vector<RankGpus> all = joined(fake_host("a", 1, 1), fake_host("b", 1, 1));
  all[1].survey.devices[0].uuid = all[0].survey.devices[0].uuid;
  EXPECT_THAT(refusal(all, kAuto), AllOf(HasSubstr("ranks 0-1"), HasSubstr("0000:10:00.0")));
}

TEST(Gpus, AutoTakesTheCpuUnlessEveryRankHasAGpu) {
  const auto d = decided(joined(fake_host("nodeA", 1, 2), fake_host("nodeB", 2, 0)));
  EXPECT_EQ(d.kind, BackendKind::cpu);
  EXPECT_EQ(decision_line(d, ""), "backend: cpu (ranks 1-2 on nodeB: no CUDA device is present)");
  EXPECT_THAT(d.devices, IsEmpty());
  // If no rank has one, names say nothing more.
  EXPECT_EQ(decision_line(decided(fake_host("a", 2, 0)), ""),
            "backend: cpu (no CUDA device is present)");
}

TEST(Gpus, TheCpuByNameAsksNobody) {
  const auto d = decided(fake_host("a", 2, 2), options_of(BackendChoice::cpu));
  EXPECT_EQ(d.kind, BackendKind::cpu);
  EXPECT_EQ(decision_line(d, ""), "backend: cpu");
}

TEST(Gpus, CudaByNameNamesEveryRankWithoutAGpu) {
  std::vector<RankGpus> all = joined(fake_host("nodeA", 2, 2), fake_host("nodeB", 2, 0));
  all[2].survey.none_because = "no NVIDIA driver";
  EXPECT_THAT(refusal(all, kCuda),
              AllOf(HasSubstr("--backend cuda"), HasSubstr("rank 2 on nodeB: no NVIDIA driver"),
                    HasSubstr("rank 3 on nodeB: no CUDA device"), HasSubstr("shardlm doctor"),
                    Not(HasSubstr("nodeA"))));
  all[2].survey.built_in = false;
  EXPECT_THAT(refusal(all, kCuda), HasSubstr("built with CUDA on every host"));
}

TEST(Gpus, FewerGpusThanRanksIsRefusedWithHostAndBusIds) {
  const auto all = joined(fake_host("nodeA", 2, 2), fake_host("nodeB", 3, 2));
  for (const EngineOptions& options : {kAuto, kCuda}) {
    EXPECT_THAT(refusal(all, options),
                AllOf(HasSubstr("nodeB"), HasSubstr("3 GPUs for ranks 2-4"),
                      HasSubstr("2 (0000:10:00.0, 0000:11:00.0)"), HasSubstr("at most 2 ranks"),
                      HasSubstr("--allow-shared-gpu"), HasSubstr("--backend cpu"),
                      Not(HasSubstr("nodeA"))));
  }
  EXPECT_THAT(refusal(fake_host("a", 2, 1), kAuto), HasSubstr("at most 1 rank there"));
}

TEST(Gpus, RanksThatAreShownTheSameGpuAreRefused) {
  // The host has two, but both ranks were given the first.
  const std::vector<RankGpus> all = {fake_rank("a", 0, {0}), fake_rank("a", 1, {0}),
                                     fake_rank("a", 2, {1, 2})};
  EXPECT_THAT(refusal(all, kAuto), AllOf(HasSubstr("ranks 0-1 on a"), HasSubstr("0000:10:00.0"),
                                         HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(Gpus, SharingGoesRoundRobinAndIsLabelled) {
  const auto d = decided(fake_host("a", 5, 2),
                         options_of(BackendChoice::automatic, CommChoice::automatic, true));
  EXPECT_THAT(d.devices, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_TRUE(d.shared_gpu);
  EXPECT_TRUE(d.peer_access);
  EXPECT_TRUE(d.placement(4).shared_gpu);
  EXPECT_THAT(d.sharers(2), ElementsAre(0, 2, 4));
  EXPECT_THAT(d.sharers(3), ElementsAre(1, 3));
  EXPECT_EQ(d.summary, "5 ranks share 2 GPUs on 1 host (NVIDIA H200)");
  EXPECT_THAT(shared_gpu_line(d), HasSubstr("5 ranks share 2 GPUs"));
}

TEST(Gpus, PermissionToShareIsNoSharing) {
  const auto d =
      decided(fake_host("a", 2, 2), options_of(BackendChoice::cuda, CommChoice::nccl, true));
  EXPECT_FALSE(d.shared_gpu);
  EXPECT_EQ(shared_gpu_line(d), "");
}

TEST(Gpus, NcclCannotShare) {
  const auto all = fake_host("a", 2, 1);
  EXPECT_THAT(
      refusal(all, options_of(BackendChoice::cuda, CommChoice::nccl, true), ExitCode::usage),
      AllOf(HasSubstr("--comm nccl"), HasSubstr("ipc or staged")));
  for (const CommChoice comm : {CommChoice::ipc, CommChoice::staged}) {
    EXPECT_TRUE(decided(all, options_of(BackendChoice::cuda, comm, true)).shared_gpu);
  }
}

TEST(Gpus, DriversAndLibrariesMustBeTheSame) {
  std::vector<RankGpus> all = joined(fake_host("nodeA", 2, 2), fake_host("nodeB", 1, 1));
  all[2].survey.versions = "driver 12.4, runtime 13.0, NCCL 2.28.9";
  EXPECT_THAT(refusal(all, kAuto),
              AllOf(HasSubstr("driver 13.0, runtime 13.0, NCCL 2.28.9 as on nodeA"),
                    HasSubstr("rank 2 on nodeB: driver 12.4"), HasSubstr("same container")));
  // On the CPU nobody needs them.
  EXPECT_EQ(decided(all, options_of(BackendChoice::cpu)).kind, BackendKind::cpu);
}

TEST(Gpus, OneMissingPeerIsNoPeerAccess) {
  std::vector<RankGpus> all = fake_host("a", 3, 3);
  for (RankGpus& rank : all) rank.survey.devices[2].peers = {0};  // 2 cannot map 1
  EXPECT_TRUE(can_map(all[0], 0, all[2], 2));
  EXPECT_FALSE(can_map(all[2], 2, all[1], 1));
  EXPECT_FALSE(decided(all).peer_access);
  EXPECT_TRUE(decided({all[0], all[1]}).peer_access);
}

TEST(Gpus, OptionsMustFitWhatAutoTook) {
  EngineOptions options = kAuto;
  options.dtype = DTypeChoice::int8;
  EXPECT_EQ(decided(fake_host("a", 1, 0), options).kind, BackendKind::cpu);
  EXPECT_THAT(refusal(fake_host("a", 1, 1), options, ExitCode::usage),
              AllOf(HasSubstr("--dtype int8"), HasSubstr("--backend cpu")));
  options = options_of(BackendChoice::automatic, CommChoice::staged);
  EXPECT_THAT(refusal(fake_host("a", 1, 0), options, ExitCode::usage),
              AllOf(HasSubstr("--comm staged"), HasSubstr("no CUDA device is present")));
  options = options_of(BackendChoice::automatic, CommChoice::shared_memory);
  EXPECT_EQ(decided(fake_host("a", 1, 0), options).kind, BackendKind::cpu);
  EXPECT_THAT(refusal(fake_host("a", 1, 1), options, ExitCode::usage),
              AllOf(HasSubstr("--comm shm"), HasSubstr("staged")));
}

TEST(Gpus, DifferentKindsAreCounted) {
  std::vector<RankGpus> all = fake_host("a", 3, 3);
  for (RankGpus& rank : all) rank.survey.devices[1].name = "NVIDIA A100";
  EXPECT_EQ(decided(all).summary, "3 GPUs on 1 host (1 NVIDIA A100, 2 NVIDIA H200)");
}

TEST(Gpus, MessagesComeBackAsTheyWent) {
  RankGpus rank = fake_rank("höst", 3, {0, 5});
  rank.survey.devices[1].memory_gb_s = 4800.5;
  std::vector<std::byte> bytes;
  write(rank, bytes);
  const RankGpus back = read_rank_gpus(bytes);
  EXPECT_EQ(back.host, "höst");
  EXPECT_EQ(back.node_rank, 3);
  EXPECT_TRUE(back.survey.built_in);
  EXPECT_EQ(back.survey.versions, rank.survey.versions);
  ASSERT_EQ(back.survey.devices.size(), 2U);
  const GpuDevice& device = back.survey.devices[1];
  EXPECT_EQ(device.uuid, "höst-05");
  EXPECT_EQ(device.bus_id, "0000:15:00.0");
  EXPECT_EQ(device.name, "NVIDIA H200");
  EXPECT_EQ(device.n_sm, 132);
  EXPECT_EQ(device.compute_major, 9);
  EXPECT_EQ(device.total_bytes, std::uint64_t{1} << 37);
  EXPECT_EQ(device.memory_gb_s, 4800.5);
  EXPECT_THAT(device.peers, ElementsAre(0));

  const auto d =
      decided(fake_host("a", 3, 2), options_of(BackendChoice::cuda, CommChoice::ipc, true));
  write(d, bytes);
  const BackendDecision same = read_decision(bytes);
  EXPECT_EQ(same.kind, d.kind);
  EXPECT_EQ(same.summary, d.summary);
  EXPECT_EQ(same.devices, d.devices);
  EXPECT_EQ(same.gpus, d.gpus);
  EXPECT_TRUE(same.one_node && same.peer_access && same.shared_gpu);
}

}  // namespace
}  // namespace shardlm
