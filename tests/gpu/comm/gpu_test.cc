// comm/gpu.h: what this process finds, and which transports are refused.
#include "comm/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/self_communicator.h"
#include "tests/gpu/comm/environment.h"
#include "tests/gpu/comm/gpu_ranks.h"
#include "tests/support/comm_checks.h"

namespace shardlm::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

TEST(Survey, DescribesEachDevice) {
  const WithEnvironment gpus("SHARDLM_FAKE_GPUS", "3");
  const GpuSurvey survey = survey_gpus();
  EXPECT_TRUE(survey.built_in);
  EXPECT_EQ(survey.none_because, "");
  EXPECT_THAT(survey.versions, MatchesRegex("driver 1[0-9]\\.[0-9], runtime 1[0-9]\\.[0-9], "
                                            "cuBLASLt 1[0-9]\\.[0-9]+, NCCL 2\\.[0-9]+\\.[0-9]+"));
  ASSERT_EQ(survey.devices.size(), 3U);
  const GpuDevice& device = survey.devices[1];
  EXPECT_EQ(device.index, 1);
  EXPECT_NE(device.name, "");
  EXPECT_THAT(device.bus_id, HasSubstr(":"));
  EXPECT_EQ(device.uuid.size(), 32U);
  EXPECT_NE(device.uuid, survey.devices[0].uuid);
  EXPECT_NE(device.bus_id, survey.devices[0].bus_id);
  EXPECT_EQ(device.compute_major, 9);
  EXPECT_EQ(device.n_sm, 4);
  EXPECT_GT(device.total_bytes, 0U);
  EXPECT_EQ(device.free_bytes, 0U) << "is not asked for: that would take memory of the device";
  EXPECT_NEAR(device.memory_gb_s, 2 * 2.619e9 * 5120 / 8 / 1e9, 1e-6);
  EXPECT_THAT(device.peers, ElementsAre(0, 2));
}

TEST(Survey, KnowsWhoCannotReachWhom) {
  const WithEnvironment gpus("SHARDLM_FAKE_GPUS", "2"), p2p("SHARDLM_FAKE_GPU_P2P", "0");
  for (const GpuDevice& device : survey_gpus().devices) EXPECT_THAT(device.peers, IsEmpty());
}

TEST(Survey, SaysWhyThereIsNone) {
  const auto reason = [](const char* gpus) {
    const WithEnvironment environment("SHARDLM_FAKE_GPUS", gpus);
    const GpuSurvey survey = survey_gpus();
    EXPECT_THAT(survey.devices, IsEmpty());
    return survey.none_because;
  };
  EXPECT_EQ(reason("0"), "no CUDA device is present");
  EXPECT_EQ(reason("driver"), "no NVIDIA driver, or one older than the program");
  const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT", "cudaGetDeviceCount:1:3");
  EXPECT_THAT(survey_gpus().none_because, HasSubstr("CUDA says initialization error"));
}

TEST(Survey, LeavesOutWhatADeviceDoesNotTell) {
  const WithEnvironment gpus("SHARDLM_FAKE_GPUS", "1");
  const WithEnvironment fault("SHARDLM_FAKE_GPU_FAULT",
                              "cudaGetDeviceProperties:1:1,cudaDeviceGetPCIBusId:1:1,"
                              "cudaDeviceGetAttribute:1:1");
  const GpuSurvey survey = survey_gpus();
  ASSERT_EQ(survey.devices.size(), 1U);
  EXPECT_EQ(survey.devices[0].name, "");
  EXPECT_EQ(survey.devices[0].bus_id, "");
  EXPECT_EQ(survey.devices[0].memory_gb_s, 0);
}

// A host communicator of which only rank and size are asked.
class Ranks final : public Communicator {
 public:
  explicit Ranks(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  std::string describe() const override { return "hosts"; }
  void all_reduce(Site, const Tensor&, const ResidualUpdate&) override {}
  void broadcast(Site, std::vector<std::byte>&, int) override {}
  void gather(Site, std::span<const std::byte>, std::vector<std::vector<std::byte>>&,
              int) override {}
  void barrier(Site) override {}

 private:
  int size_;
};

std::string refusal(const std::string& name, int size, const GpuPlacement& placement) {
  CudaBackend backend({});
  try {
    make_gpu_communicator(std::make_unique<Ranks>(size), backend, name, placement, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return {};
}

TEST(GpuCommunicator, RefusesWhatCannotWorkHere) {
  EXPECT_THAT(refusal("ipc", 2, {.one_node = false, .peer_access = true}),
              AllOf(HasSubstr("communicator ipc"), HasSubstr("ranks on several nodes"),
                    HasSubstr("use nccl or staged")));
  EXPECT_THAT(refusal("ipc", 2, {.one_node = true, .peer_access = false}),
              HasSubstr("GPUs that cannot map each other's memory"));
  EXPECT_THAT(refusal("ipc", 17, {.one_node = true, .peer_access = true}),
              HasSubstr("17 ranks, and ipc takes 16"));
  EXPECT_THAT(refusal("nccl", 2, {.peer_access = true, .shared_gpu = true}),
              AllOf(HasSubstr("communicator nccl"), HasSubstr("ranks that share a GPU"),
                    HasSubstr("use ipc or staged")));
  EXPECT_THAT(refusal("gossip", 2, {}),
              AllOf(HasSubstr("auto, nccl, ipc or staged"), HasSubstr("'gossip'")));
}

TEST(GpuCommunicator, NeedsTheCudaBackEnd) {
  const auto cpu = make_cpu_backend(1);
  EXPECT_THAT(
      error_of([&] { make_gpu_communicator(std::make_unique<Ranks>(2), *cpu, "auto", {}, {}); }),
      HasSubstr("needs the CUDA back end"));
}

TEST(GpuCommunicator, OneRankByAnyName) {
  for (const auto& [name, description] :
       std::vector<std::pair<std::string, std::string>>{{"auto", "1 rank, no communication"},
                                                        {"ipc", "ipc, 1 rank"},
                                                        {"nccl", "nccl 2."},
                                                        {"staged", "staged through the hosts"}}) {
    const auto cpu = make_cpu_backend(1);
    const auto backend = make_gpu_backend({.device = 0});
    const auto comm =
        make_gpu_communicator(std::make_unique<SelfCommunicator>(*cpu), *backend, name,
                              {.one_node = true, .peer_access = true}, {60, 60});
    EXPECT_THAT(comm->describe(), HasSubstr(description));
    check_exact_sums(*comm, *backend, 3, 5);
    check_rank_order(*comm, *backend, 2, 40, 1);
    check_messages(*comm, 20, 0);
  }
}

}  // namespace
}  // namespace shardlm::cuda
