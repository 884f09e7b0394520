// The kernels of AMX as machine code, which runs where AMX is and is emulated instruction by
// instruction elsewhere (amx_trap.h).
#include <gtest/gtest.h>

#include <optional>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/matmul.h"
#include "tests/unit/backend/amx_testing.h"
#include "tests/unit/backend/amx_trap.h"

namespace shardlm {
namespace {

constexpr CpuFeatures kAmx{.avx512_vnni = true, .amx_bf16 = true, .amx_int8 = true};
constexpr CpuFeatures kNoAmx{.avx512_vnni = true};

/// AMX as the machine has it, or caught and emulated.
class AmxMachine {
 public:
  AmxMachine() {
    if (!real()) trap_.emplace();
    forced_.emplace(kAmx, kAmx);
  }
  static bool real() {
    const CpuFeatures machine = detected_cpu_features();
    return machine.amx_bf16 && machine.amx_int8;
  }
  static bool possible() {
    return (real() || AmxTrap::available()) && cpu_simd_targets().front() == "AVX3";
  }

 private:
  std::optional<AmxTrap> trap_;
  std::optional<ForcedCpuFeatures> forced_;
};
#define SKIP_WITHOUT_AMX() \
  if (!AmxMachine::possible()) GTEST_SKIP() << "neither AMX nor what is needed to emulate it"

HostMatrix by_matmul(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                     int threads) {
  ThreadPool pool(threads);
  Matmul matmul(pool);
  HostMatrix in = x, init = bias, out(x.rows, w.out());
  const Tensor bias_tensor = Tensor::borrow(init.data.data(), 1, w.out());
  matmul.run(Tensor::borrow(in.data.data(), x.rows, x.cols), w, &bias_tensor, std::nullopt,
             Tensor::borrow(out.data.data(), x.rows, w.out()));
  return out;
}

TEST(AmxMachineCode, MultipliesAsTheEmulatedKernelsDo) {
  SKIP_WITHOUT_AMX();
  const AmxMachine machine;
  for (const auto [rows, in, out] :
       {Shape{16, 32, 64}, Shape{33, 1, 1}, Shape{47, 65, 65}, Shape{64, 70, 33}}) {
    const HostMatrix x = random_floats(rows, in, 1), w = random_floats(in, out, 2);
    const HostMatrix bias = random_floats(1, out, 3);
    const auto instructions = [](const auto& product) { multiply_panel_amx(product); };
    const PackedMatrix bf16 = packed(w, DType::bf16);
    const HostMatrix found = multiply_bf16(x, bf16, bias, instructions);
    expect_products(x, w, bias, found);
    // Whether a processor adds in the order of its manual is not ours to demand.
    if (!AmxMachine::real()) {
      EXPECT_TRUE(same_bits(found.data, emulated_bf16(x, bf16, bias).data))
          << rows << " rows, " << in << " x " << out;
    }
    for (const DType dtype : {DType::q8, DType::q4}) {
      const PackedMatrix bytes = packed(w, dtype);
      EXPECT_TRUE(same_bits(multiply_bytes(x, bytes, bias, instructions).data,
                            multiply_bytes(x, bytes, bias, amx::multiply_int8<EmulatedTiles>).data))
          << name(dtype) << ", " << rows << " rows, " << in << " x " << out;
    }
  }
}

TEST(AmxMachineCode, MatmulUsesItForManyRowsWhateverTheThreads) {
  SKIP_WITHOUT_AMX();
  const HostMatrix x = random_floats(205, 45, 1), w = random_floats(45, 100, 2);
  const HostMatrix bias = random_floats(1, 100, 3);
  const PackedMatrix bf16 = packed(w, DType::bf16), q8 = packed(w, DType::q8);
  HostMatrix whole(x.rows, w.cols);
  {
    const AmxMachine machine;
    whole = multiply_bf16(x, bf16, bias, [](const AmxProduct& p) { multiply_panel_amx(p); });
  }
  for (const int threads : {1, 3}) {
    for (const std::int64_t rows : {1, 31, 32, 205}) {
      const HostMatrix some = some_rows(x, 0, rows);
      HostMatrix few(rows, w.cols), bytes(rows, w.cols);
      {
        const ForcedCpuFeatures forced(kNoAmx);
        few = by_matmul(some, bf16, bias, threads);
        bytes = by_matmul(some, q8, bias, threads);
      }
      const AmxMachine machine;
      const HostMatrix expected = rows < kAmxRows ? few : some_rows(whole, 0, rows);
      EXPECT_TRUE(same_bits(by_matmul(some, bf16, bias, threads).data, expected.data))
          << rows << " rows, " << threads << " threads";
      EXPECT_TRUE(same_bits(by_matmul(some, q8, bias, threads).data, bytes.data))
          << rows << " rows, " << threads << " threads";
    }
  }
}

TEST(AmxMachineCode, ForcedOffOrWithALesserInstructionSetNoTileIsTouched) {
  SKIP_WITHOUT_AMX();
  const HostMatrix x = random_floats(40, 33, 1), w = random_floats(33, 64, 2), bias(1, 64);
  const AmxTrap trap;
  const long before = AmxTrap::instructions();
  for (const DType dtype : {DType::bf16, DType::q8, DType::q4}) {
    const PackedMatrix matrix = packed(w, dtype);
    {
      const ForcedCpuFeatures forced(kNoAmx, kAmx);
      by_matmul(x, matrix, bias, 1);
    }
    const ForcedSimdTarget lesser("AVX2");
    const ForcedCpuFeatures forced(kAmx, kAmx);
    by_matmul(x, matrix, bias, 1);
  }
  EXPECT_EQ(AmxTrap::instructions(), before);
}

}  // namespace
}  // namespace shardlm
