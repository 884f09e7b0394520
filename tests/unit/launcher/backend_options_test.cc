// Which options fit which back end, as the command line refuses them.
#include "launcher/backend_options.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(BackendOptions, AreRead) {
  const EngineOptions o = generate({"--backend", "cuda", "--dtype", "bf16", "--kv-dtype", "f16",
                                    "--comm", "nccl", "--no-graphs", "--allow-shared-gpu"})
                              .engine;
  EXPECT_EQ(o.backend, BackendChoice::cuda);
  EXPECT_EQ(o.dtype, DTypeChoice::bf16);
  EXPECT_EQ(o.kv_dtype, KvDTypeChoice::f16);
  EXPECT_EQ(o.comm, CommChoice::nccl);
  EXPECT_EQ(o.graphs, false);
  EXPECT_TRUE(o.allow_shared_gpu);
  EXPECT_EQ(generate({"--graphs"}).engine.graphs, true);
  EXPECT_EQ(generate({"--graphs=false"}).engine.graphs, false);
  for (const char* comm : {"auto", "nccl", "ipc", "staged", "shm", "mpi"}) {
    EXPECT_EQ(comm_name(generate({"--comm", comm}).engine.comm), comm);
  }
}

TEST(BackendOptions, TypesOfKeysAndValuesFollowTheWeightsUnlessGiven) {
  const auto precision = [](DTypeChoice dtype, KvDTypeChoice kv) {
    return precision_of(dtype, kv);
  };
  EXPECT_EQ(precision(DTypeChoice::f32, KvDTypeChoice::automatic), Precision{});
  EXPECT_EQ(precision(DTypeChoice::bf16, KvDTypeChoice::automatic),
            (Precision{DType::bf16, DType::bf16, DType::bf16}));
  EXPECT_EQ(precision(DTypeChoice::f16, KvDTypeChoice::f32),
            (Precision{DType::f16, DType::f16, DType::f32}));
  EXPECT_EQ(precision(DTypeChoice::f32, KvDTypeChoice::bf16),
            (Precision{DType::f32, DType::f32, DType::bf16}));
  EXPECT_EQ(precision(DTypeChoice::int8, KvDTypeChoice::automatic),
            (Precision{DType::q8, DType::f32, DType::f16}));
  EXPECT_EQ(precision(DTypeChoice::int4, KvDTypeChoice::int8),
            (Precision{DType::q4, DType::f32, DType::i8}));
  EXPECT_EQ(on_cpu(precision(DTypeChoice::bf16, KvDTypeChoice::automatic)),
            (Precision{DType::bf16, DType::f32, DType::bf16}));
  EXPECT_EQ(precision_text({DType::q4, DType::f32, DType::i8}), "int4, keys and values int8");
  EXPECT_EQ(precision_text({DType::bf16, DType::bf16, DType::bf16}), "bf16");
  EXPECT_EQ(precision_text({DType::bf16, DType::bf16, DType::f16}), "bf16, keys and values f16");
}

TEST(BackendOptions, WhatDoesNotFitIsOneErrorWithAll) {
  EXPECT_THAT(generate_error({"--backend", "cpu", "--dtype", "bf16", "--comm", "nccl"}),
              AllOf(HasSubstr("CPU back end"), HasSubstr("--comm nccl"), Not(HasSubstr("--dtype")),
                    HasSubstr("--backend cuda")));
  EXPECT_THAT(generate_error({"--backend", "cuda", "--dtype", "int4", "--kv-dtype", "int8"}),
              AllOf(HasSubstr("CUDA back end"), HasSubstr("--dtype int4 (it computes in f32"),
                    HasSubstr(" and --kv-dtype int8"), HasSubstr("--backend cpu")));
  for (const char* comm : {"nccl", "ipc", "staged"}) {
    EXPECT_THAT(generate_error({"--backend", "cpu", "--comm", comm}), HasSubstr(comm));
  }
  for (const char* comm : {"shm", "mpi"}) {
    EXPECT_THAT(generate_error({"--backend", "cuda", "--comm", comm}),
                AllOf(HasSubstr(comm), HasSubstr("it sums on the host"), HasSubstr("staged")));
  }
}

TEST(BackendOptions, EveryEngineCommandIsHeldToThem) {
  const std::vector<std::string> bad = {"--backend", "cuda", "--dtype", "int8"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), bad.begin(), bad.end());
    return words;
  };
  for (const auto& words : {with({"score", "--model", "m", "--prompt-ids", "1"}),
                            with({"dump", "--model", "m", "--prompt-ids", "1", "--stats"}),
                            with({"doctor"}), with({"doctor", "--model", "m"})}) {
    EXPECT_THAT(usage_error(words), HasSubstr("--dtype int8"));
  }
}

TEST(BackendOptions, OfAutoMoreIsKnownLater) {
  EXPECT_EQ(generate({"--dtype", "bf16", "--comm", "nccl"}).engine.dtype, DTypeChoice::bf16);
  EXPECT_EQ(generate({"--backend", "cpu", "--dtype", "f32", "--kv-dtype", "f32"}).engine.backend,
            BackendChoice::cpu);
}

TEST(BackendOptions, WhatHasNoEffectGetsALine) {
  EngineOptions o;
  EXPECT_THAT(notes_without_effect(o, BackendKind::cpu), IsEmpty());
  o.graphs = false;
  o.allow_shared_gpu = true;
  EXPECT_THAT(notes_without_effect(o, BackendKind::cpu),
              ElementsAre(HasSubstr("--no-graphs has no effect"), HasSubstr("--allow-shared-gpu")));
  EXPECT_THAT(notes_without_effect(o, BackendKind::cuda), IsEmpty());
}

TEST(BackendOptions, DoctorsAndPlansOwn) {
  const auto doctor = parse_as<DoctorOptions>(
      {"doctor", "--model", "m", "--kv-tokens", "4096", "--threads", "3", "--dtype", "bf16"});
  EXPECT_EQ(doctor.engine.model, "m");
  EXPECT_EQ(doctor.kv_tokens, 4096);
  EXPECT_EQ(doctor.engine.threads, 3);
  EXPECT_EQ(doctor.engine.dtype, DTypeChoice::bf16);
  EXPECT_EQ(parse_as<DoctorOptions>({"doctor"}).engine.model, "");
  EXPECT_THAT(usage_error({"doctor", "--kv-tokens", "5"}), HasSubstr("without --model"));
  EXPECT_THAT(usage_error({"doctor", "--ranks", "5"}), HasSubstr("option of plan"));
  const auto plan = parse_as<PlanOptions>(
      {"plan", "--model", "m", "--ranks", "2", "--dtype", "f16", "--kv-dtype", "f32"});
  EXPECT_EQ(plan.dtype, DTypeChoice::f16);
  EXPECT_EQ(plan.kv_dtype, KvDTypeChoice::f32);
}

}  // namespace
}  // namespace shardlm
