#include "backend/cpu/amx_support.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_features.h"
#include "base/error.h"
#include "tests/unit/backend/amx_trap.h"

namespace shardlm {
namespace {

AmxSupport all() { return {.bf16 = true, .int8 = true}; }
AmxSupport none() { return {}; }
bool yes() { return true; }
bool no() { return false; }
AmxSupport not_asked() {
  ADD_FAILURE() << "not to be asked";
  return {};
}
bool not_asked_either() { return not_asked().bf16; }

TEST(AmxSupport, IsWhatTheMachineTheSystemAndTheTrialAllow) {
  const AmxSupport use =
      decide_amx({.wish = nullptr, .machine = all, .permission = yes, .trial = all});
  EXPECT_TRUE(use.bf16 && use.int8);
  EXPECT_EQ(use.reason, "");
}

TEST(AmxSupport, AMachineWithoutItIsAskedNothing) {
  const AmxSupport use = decide_amx(
      {.wish = "auto", .machine = none, .permission = not_asked_either, .trial = not_asked});
  EXPECT_FALSE(use.bf16 || use.int8);
  EXPECT_EQ(use.reason, "");
}

TEST(AmxSupport, OffAsksNothingEither) {
  const AmxSupport use = decide_amx(
      {.wish = "off", .machine = all, .permission = not_asked_either, .trial = not_asked});
  EXPECT_FALSE(use.bf16 || use.int8);
  EXPECT_EQ(use.reason, "");
}

TEST(AmxSupport, WithoutPermissionNoTileIsTouched) {
  const AmxSupport use =
      decide_amx({.wish = nullptr, .machine = all, .permission = no, .trial = not_asked});
  EXPECT_FALSE(use.bf16 || use.int8);
  EXPECT_EQ(use.reason, "the system does not let this process use it");
}

TEST(AmxSupport, AFailedTrialIsBelieved) {
  const auto bytes_only = [] { return AmxSupport{.bf16 = false, .int8 = true}; };
  const AmxSupport half =
      decide_amx({.wish = nullptr, .machine = all, .permission = yes, .trial = bytes_only});
  EXPECT_TRUE(!half.bf16 && half.int8);
  EXPECT_EQ(half.reason, "products of bfloat16 fail a trial");
  const AmxSupport use =
      decide_amx({.wish = nullptr, .machine = all, .permission = yes, .trial = none});
  EXPECT_FALSE(use.bf16 || use.int8);
  EXPECT_EQ(use.reason, "products of bfloat16 fail a trial, products of bytes fail a trial");
  const AmxSupport lacks =
      decide_amx({.wish = nullptr, .machine = bytes_only, .permission = yes, .trial = all});
  EXPECT_TRUE(!lacks.bf16 && lacks.int8);
  EXPECT_EQ(lacks.reason, "");
}

TEST(AmxSupport, AnotherWishIsAnError) {
  try {
    decide_amx({.wish = "on", .machine = all, .permission = yes, .trial = all});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "environment variable SHARDLM_AMX: expected off or auto, found \"on\"");
  }
}

TEST(AmxTrial, PassesWithTheInstructionsOrTheirEmulation) {
  const CpuFeatures machine = detected_cpu_features();
  if (machine.amx_bf16 && machine.amx_int8) {
    EXPECT_TRUE(amx_bf16_is_right());
    EXPECT_TRUE(amx_int8_is_right());
    return;
  }
  if (!AmxTrap::available()) GTEST_SKIP() << "neither AMX nor x86-64 Linux";
  const AmxTrap trap;
  EXPECT_TRUE(amx_bf16_is_right(false));
  EXPECT_TRUE(amx_int8_is_right(false));
}

TEST(AmxTrial, WrongOrderOfOperandsIsFound) {
  if (amx_support().bf16) GTEST_SKIP() << "the instructions are there and not emulated";
  if (!AmxTrap::available()) GTEST_SKIP() << "not x86-64 Linux";
  const AmxTrap trap(/*swaps=*/true);
  EXPECT_FALSE(amx_bf16_is_right(false));
}

TEST(AmxTrial, AMissingInstructionIsAFailureNotTheEnd) {
  if (amx_support().bf16) GTEST_SKIP() << "the instructions are there";
  if (!AmxTrap::available()) GTEST_SKIP() << "not x86-64 Linux";
  EXPECT_FALSE(amx_bf16_is_right());
  EXPECT_FALSE(amx_int8_is_right());
  EXPECT_FALSE(amx_int8_is_right());  // and again
}

TEST(AmxSupport, TheBackEndSaysWhatItUses) {
  const CpuFeatures all_of_them{
      .avx512_vnni = true, .avx512_bf16 = true, .amx_bf16 = true, .amx_int8 = true};
  const std::string target = cpu_simd_target(), suffix = target == "AVX3" ? "+VNNI+AMX" : "";
  const auto backend = make_cpu_backend(1);
  {
    const ForcedCpuFeatures forced(all_of_them, all_of_them);
    EXPECT_EQ(backend->describe(), "cpu " + target + suffix + " 1 thread");
  }
  const ForcedCpuFeatures forced({});
  EXPECT_EQ(backend->describe(), "cpu " + target + " 1 thread");
}

}  // namespace
}  // namespace shardlm
