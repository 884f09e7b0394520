// The kernels over emulated tiles; then as machine code, which runs where AMX is and is emulated
// instruction by instruction elsewhere (amx_trap.h).
#include "backend/cpu/amx_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/matmul.h"
#include "base/dtype.h"
#include "tests/unit/backend/amx_emulation.h"
#include "tests/unit/backend/amx_trap.h"
#include "tests/unit/backend/cpu_testing.h"

#define SHARDLM_AMX
#include "backend/cpu/amx_kernels-inl.h"

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

PackedMatrix packed(const HostMatrix& w, DType dtype) {
  ThreadPool threads(1);
  const auto read_row = [&](std::int64_t row, std::span<float> to) {
    std::ranges::copy(w.row(row), to.begin());
  };
  WeightArena arena;
  return PackedMatrix(
      {.in = w.rows, .out = w.cols, .rows_are_outputs = false, .read_row = read_row}, dtype, arena,
      threads);
}

HostMatrix some_rows(const HostMatrix& m, std::int64_t first, std::int64_t rows) {
  HostMatrix part(rows, m.cols);
  std::copy_n(m.data.begin() + first * m.cols, rows * m.cols, part.data.begin());
  return part;
}

/// As base/dtype.h rounds.
HostMatrix rounded(const HostMatrix& m) {
  HostMatrix result = m;
  std::vector<std::byte> stored(m.data.size() * 2);
  from_float32(DType::bf16, m.data, stored);
  to_float32(DType::bf16, stored, result.data);
  return result;
}

/// Bias of a panel, zeros behind the last output.
std::vector<float> panel_bias(const HostMatrix& bias, std::int64_t first) {
  std::vector<float> init(PanelLayout::kOutputs);
  std::copy_n(bias.data.begin() + first, std::min(PanelLayout::kOutputs, bias.cols - first),
              init.begin());
  return init;
}

/// The panels by `multiply(panel, first output, [rows][64])`.
template <class Multiply>
HostMatrix by_panels(std::int64_t rows, const PackedMatrix& w, const Multiply& multiply) {
  HostMatrix out(rows, w.out());
  for (std::int64_t p = 0; p < w.panels(); ++p) {
    const std::int64_t first = p * PanelLayout::kOutputs;
    std::vector<float> tile(static_cast<std::size_t>(rows * PanelLayout::kOutputs));
    multiply(p, first, tile.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(tile.data() + r * PanelLayout::kOutputs,
                  std::min(PanelLayout::kOutputs, w.out() - first), &out.at(r, first));
    }
  }
  return out;
}

template <class Kernel>
HostMatrix multiply_bf16(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                         const Kernel& kernel) {
  AmxRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, rows.row_tiles());
  return by_panels(x.rows, w, [&](std::int64_t p, std::int64_t first, float* out) {
    const std::vector<float> init = panel_bias(bias, first);
    kernel(AmxProduct{.x = &rows,
                      .rows = x.rows,
                      .panel = w.panel(p),
                      .init = init.data(),
                      .out = out,
                      .out_stride = PanelLayout::kOutputs,
                      .next_panel = w.panel(0)});
  });
}

HostMatrix emulated_bf16(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias) {
  return multiply_bf16(x, w, bias, amx::multiply_bf16<EmulatedTiles>);
}

template <class Kernel>
HostMatrix multiply_bytes(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                          const Kernel& kernel) {
  QuantisedRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, x.rows);
  return by_panels(x.rows, w, [&](std::int64_t p, std::int64_t first, float* out) {
    const std::vector<float> init = panel_bias(bias, first);
    kernel(QuantisedProduct{.x = &rows,
                            .rows = x.rows,
                            .dtype = w.dtype(),
                            .panel = w.panel(p),
                            .init = init.data(),
                            .out = out,
                            .out_stride = PanelLayout::kOutputs,
                            .next_panel = w.panel(0)});
  });
}

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

struct Shape {
  std::int64_t rows, in, out;
};

std::vector<Shape> odd_shapes() {
  std::vector<Shape> shapes;
  for (const std::int64_t in : {1, 31, 32, 33, 64, 65}) {
    for (const std::int64_t out : {1, 63, 64, 65}) shapes.push_back({33, in, out});
  }
  for (const std::int64_t rows : {16, 17, 31, 47, 128}) shapes.push_back({rows, 65, 65});
  shapes.push_back({17, 1733, 1});  // several slices
  shapes.push_back({40, 160, 200});
  return shapes;
}

void expect_products(const HostMatrix& x, const HostMatrix& w, const HostMatrix& bias,
                     const HostMatrix& found) {
  const HostMatrix exact_x = rounded(x), exact_w = rounded(w);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t j = 0; j < w.cols; ++j) {
      double sum = bias.at(0, j), size = std::abs(sum);
      for (std::int64_t k = 0; k < x.cols; ++k) {
        const double term = double{exact_x.at(t, k)} * double{exact_w.at(k, j)};
        sum += term;
        size += std::abs(term);
      }
      // Sixteen additions in a chain of a tile, one of the chains, one a tile, one of the bias.
      const double bound = (19 + static_cast<double>(x.cols) / 32) * kRounding * size;
      ASSERT_NEAR(found.at(t, j), sum, bound)
          << x.rows << " rows, " << x.cols << " x " << w.cols << " at " << t << ", " << j;
    }
  }
}

TEST(AmxRows, RoundsAsDtypeDoesAndFillsUpWithZeros) {
  HostMatrix x = random_floats(18, 45, 1);
  const float special[] = {0.0F,        -0.0F,       INFINITY,       -INFINITY,
                           1.00390625F, 1.01171875F, -1.00390625F,   0x1p-130F,
                           3.4e38F,     0x1.01p0F,   -0x1.fffffep9F, 0x1.0080002p0F};
  std::ranges::copy(special, x.data.begin() + 40);
  AmxRows rows;
  rows.resize(40, 100);  // larger first: what is left over must not show
  rows.fill(random_floats(40, 100, 2).data.data(), 100, 0, rows.row_tiles());
  rows.resize(18, 45);
  rows.fill(x.data.data(), 45, 1, 2);
  rows.fill(x.data.data(), 45, 0, 1);
  ASSERT_EQ(rows.row_tiles(), 2);
  ASSERT_EQ(rows.input_tiles(), 2);
  std::vector<std::uint16_t> expected(x.data.size());
  from_float32(DType::bf16, x.data, std::as_writable_bytes(std::span(expected)));
  for (std::int64_t r = 0; r < 32; ++r) {
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::uint16_t found = rows.tiles(r / 16)[(k / 32 * 16 + r % 16) * 32 + k % 32];
      const bool inside = r < 18 && k < 45;
      ASSERT_EQ(found, inside ? expected[static_cast<std::size_t>(r * 45 + k)] : 0)
          << r << " " << k;
    }
  }
  HostMatrix nan(1, 1);
  nan.at(0, 0) = std::numeric_limits<float>::quiet_NaN();
  rows.resize(1, 1);
  rows.fill(nan.data.data(), 1, 0, 1);
  EXPECT_GT(rows.tiles(0)[0] & 0x7FFF, 0x7F80);
}

TEST(AmxMatmul, Bf16IsTheProductOfRoundedNumbersAtOddShapes) {
  std::vector<Shape> shapes = odd_shapes();
  shapes.push_back({1, 33, 65});
  shapes.push_back({15, 70, 64});
  for (const auto [rows, in, out] : shapes) {
    const HostMatrix x = random_floats(rows, in, 1), w = random_floats(in, out, 2);
    const HostMatrix bias = random_floats(1, out, 3);
    expect_products(x, w, bias, emulated_bf16(x, packed(w, DType::bf16), bias));
  }
}

TEST(AmxMatmul, Bf16OfNoInputsIsTheBias) {
  const HostMatrix bias = random_floats(1, 70, 1);
  const HostMatrix found =
      emulated_bf16(HostMatrix(17, 0), packed(HostMatrix(0, 70), DType::bf16), bias);
  for (std::int64_t t = 0; t < 17; ++t) EXPECT_TRUE(same_bits(found.row(t), bias.row(0)));
}

TEST(AmxMatmul, ABf16RowDependsOnNoOther) {
  const HostMatrix x = random_floats(70, 100, 1), bias = random_floats(1, 96, 3);
  const PackedMatrix w = packed(random_floats(100, 96, 2), DType::bf16);
  const HostMatrix whole = emulated_bf16(x, w, bias);
  for (const std::int64_t first : {0, 1, 13, 16, 53}) {
    for (const std::int64_t rows : {1, 16, 17}) {
      const HostMatrix found = emulated_bf16(some_rows(x, first, rows), w, bias);
      ASSERT_TRUE(same_bits(found.data, some_rows(whole, first, rows).data))
          << rows << " rows from " << first;
    }
  }
}

TEST(AmxMatmul, SomeBf16ColumnsAndRowsAreThoseOfThePanel) {
  const HostMatrix x = random_floats(40, 70, 1), init = random_floats(1, 64, 3);
  const PackedMatrix w = packed(random_floats(70, 64, 2), DType::bf16);
  const HostMatrix whole = emulated_bf16(x, w, init);
  AmxRows rows;
  rows.resize(40, 70);
  rows.fill(x.data.data(), 70, 0, rows.row_tiles());
  HostMatrix parts(40, 64);
  for (const std::int64_t column : {0, 32}) {
    for (const std::int64_t row : {0, 16}) {
      amx::multiply_bf16<EmulatedTiles>({.x = &rows,
                                         .first_row = row,
                                         .rows = row == 0 ? 16 : 24,
                                         .panel = w.panel(0),
                                         .first_column = column,
                                         .columns = 32,
                                         .init = init.data.data() + column,
                                         .out = &parts.at(row, column),
                                         .out_stride = 64});
    }
  }
  EXPECT_TRUE(same_bits(parts.data, whole.data));
}

TEST(AmxMatmul, Bf16NoFiniteNumberReachesItsRowAndColumnOnly) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  HostMatrix x = random_floats(33, 33, 1), w = random_floats(33, 130, 2);
  x.at(3, 32) = nan;
  x.at(20, 0) = std::numeric_limits<float>::infinity();
  w.at(32, 5) = nan;
  // What lies behind the end of the first panel, whose last tile of inputs is not full.
  for (std::int64_t j = 64; j < 130; ++j) w.at(0, j) = nan;
  const HostMatrix found = emulated_bf16(x, packed(w, DType::bf16), HostMatrix(1, 130));
  for (std::int64_t t = 0; t < 33; ++t) {
    for (std::int64_t j = 0; j < 130; ++j) {
      const bool finite = t != 3 && t != 20 && j != 5 && j < 64;
      ASSERT_EQ(std::isfinite(found.at(t, j)), finite) << t << " " << j;
    }
  }
}

class AmxBytesTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(AmxBytesTest);

TEST_P(AmxBytesTest, HasTheBitsOfTheOtherKernelsAtOddShapes) {
  const ForcedCpuFeatures forced(kNoAmx);
  for (const DType dtype : {DType::q8, DType::q4}) {
    for (const auto [rows, in, out] : odd_shapes()) {
      const HostMatrix x = random_floats(rows, in, 1), bias = random_floats(1, out, 3);
      const PackedMatrix w = packed(random_floats(in, out, 2), dtype);
      const HostMatrix expected = multiply_bytes(x, w, bias, multiply_panel_quantised);
      const HostMatrix found = multiply_bytes(x, w, bias, amx::multiply_int8<EmulatedTiles>);
      ASSERT_TRUE(same_bits(found.data, expected.data))
          << name(dtype) << ", " << rows << " rows, " << in << " x " << out;
    }
  }
}

TEST_P(AmxBytesTest, SomeRowsAndColumnsAreThoseOfThePanel) {
  const ForcedCpuFeatures forced(kNoAmx);
  const HostMatrix x = random_floats(50, 1100, 1), init = random_floats(1, 64, 3);
  QuantisedRows rows;
  rows.resize(50, 1100);
  rows.fill(x.data.data(), 1100, 0, 50);
  for (const DType dtype : {DType::q8, DType::q4}) {
    const PackedMatrix w = packed(random_floats(1100, 64, 2), dtype);
    const HostMatrix whole = multiply_bytes(x, w, init, multiply_panel_quantised);
    HostMatrix parts(50, 64);
    for (const std::int64_t column : {0, 32}) {
      for (const std::int64_t row : {0, 17}) {
        amx::multiply_int8<EmulatedTiles>({.x = &rows,
                                           .first_row = row,
                                           .rows = row == 0 ? 17 : 33,
                                           .dtype = dtype,
                                           .panel = w.panel(0),
                                           .first_column = column,
                                           .columns = 32,
                                           .init = init.data.data() + column,
                                           .out = &parts.at(row, column),
                                           .out_stride = 64});
      }
    }
    EXPECT_TRUE(same_bits(parts.data, whole.data)) << name(dtype);
  }
}

TEST(AmxMachineCode, MultipliesAsTheEmulatedKernelsDo) {
  SKIP_WITHOUT_AMX();
  const AmxMachine machine;
  for (const auto [rows, in, out] :
       {Shape{16, 32, 64}, Shape{33, 1, 1}, Shape{47, 65, 65}, Shape{128, 70, 33}}) {
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
  const HostMatrix x = random_floats(390, 45, 1), w = random_floats(45, 150, 2);
  const HostMatrix bias = random_floats(1, 150, 3);
  const PackedMatrix bf16 = packed(w, DType::bf16), q8 = packed(w, DType::q8);
  HostMatrix whole(x.rows, w.cols);
  {
    const AmxMachine machine;
    whole = multiply_bf16(x, bf16, bias, [](const AmxProduct& p) { multiply_panel_amx(p); });
  }
  for (const int threads : {1, 3}) {
    for (const std::int64_t rows : {1, 31, 32, 33, 193, 390}) {
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
