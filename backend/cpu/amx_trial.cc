// The trial of amx_support.h: a wrong or missing instruction must cost speed, not results.
#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <csignal>
#include <memory>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/amx_support.h"

namespace shardlm {
namespace {

// Two tiles of rows and part of a third; two tiles of inputs and part of a third.
constexpr std::int64_t kRows = 35, kIn = 71, kOut = PanelLayout::kOutputs;

struct Trial {
  std::array<float, kRows * kIn> x;
  std::array<float, kIn * kOut> w;
  alignas(64) std::array<std::byte, 3 * PanelLayout::kInputs* kOut* 4> panel = {};
  std::array<float, kOut> init;
  std::array<float, kRows* kOut> out = {};

  /// Whole numbers from -most to most, most itself in every block of x's rows and w's columns.
  Trial(DType dtype, int most) {
    const auto number = [&](std::int64_t k, std::int64_t other) {
      if (k % PanelLayout::kInputs == other % 7) return static_cast<float>(most);
      return static_cast<float>((k * 37 + other * 101 + k * other * 11) % (2 * most + 1) - most);
    };
    for (std::int64_t k = 0; k < kIn; ++k) {
      for (std::int64_t r = 0; r < kRows; ++r) x[index(r * kIn + k)] = number(k, r);
      for (std::int64_t j = 0; j < kOut; ++j) w[index(k * kOut + j)] = number(k, j + 40);
    }
    for (std::int64_t j = 0; j < kOut; ++j) init[index(j)] = static_cast<float>(j - 20);
    pack(dtype);
  }

  /// Whether out is init + x w but for roundings of the scales.
  bool right() const {
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t j = 0; j < kOut; ++j) {
        double sum = double{init[index(j)]}, size = std::abs(sum);
        for (std::int64_t k = 0; k < kIn; ++k) {
          const double term = double{x[index(r * kIn + k)]} * double{w[index(k * kOut + j)]};
          sum += term;
          size += std::abs(term);
        }
        if (!(std::abs(double{out[index(r * kOut + j)]} - sum) <= 1e-6 * size)) return false;
      }
    }
    return true;
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  void pack(DType dtype) {
    constexpr std::int64_t kTile = PanelLayout::kInputs;
    const std::size_t step = PanelLayout{.dtype = dtype, .in = kIn}.tile_bytes();
    for (std::int64_t t = 0; t * kTile < kIn; ++t) {
      std::array<float, kTile* kOut> values = {};
      const std::int64_t inputs = std::min(kTile, kIn - t * kTile);
      std::copy_n(w.data() + t * kTile * kOut, inputs * kOut, values.begin());
      pack_tile(dtype, values.data(), inputs, panel.data() + index(t) * step);
    }
  }
};

sigjmp_buf*& landing() {
  static thread_local sigjmp_buf* place = nullptr;
  return place;
}

// Another thread's fault meanwhile is not ours: it happens again, and ends the process as ever.
void on_fault(int signal_number) {
  if (landing() != nullptr) siglongjmp(*landing(), 1);
  std::signal(signal_number, SIG_DFL);
}

/// False if `fn` ended in a fault. It must own nothing.
bool runs_without_fault(void (*fn)(void*), void* argument) {
  struct sigaction ours = {}, before_illegal = {}, before_memory = {};
  ours.sa_handler = on_fault;
  sigaction(SIGILL, &ours, &before_illegal);
  sigaction(SIGSEGV, &ours, &before_memory);
  sigjmp_buf place;
  volatile bool finished = false;
  if (sigsetjmp(place, 1) == 0) {
    landing() = &place;
    fn(argument);
    finished = true;
  }
  landing() = nullptr;
  sigaction(SIGSEGV, &before_memory, nullptr);
  sigaction(SIGILL, &before_illegal, nullptr);
  return finished;
}

template <class Product>
bool is_right(const Trial& trial, Product product, bool guarded) {
  const auto multiply = [](void* argument) {
    multiply_panel_amx(*static_cast<const Product*>(argument));
  };
  if (!guarded) {
    multiply(&product);
    return trial.right();
  }
  return runs_without_fault(multiply, &product) && trial.right();
}

}  // namespace

bool amx_bf16_is_right(bool guarded) {
  const auto trial = std::make_unique<Trial>(DType::bf16, 9);
  AmxRows rows;
  rows.resize(kRows, kIn);
  rows.fill(trial->x.data(), kIn, 0, rows.row_tiles());
  const AmxProduct product{.x = &rows,
                           .rows = kRows,
                           .panel = trial->panel.data(),
                           .init = trial->init.data(),
                           .out = trial->out.data(),
                           .out_stride = kOut};
  return is_right(*trial, product, guarded);
}

bool amx_int8_is_right(bool guarded) {
  const auto trial = std::make_unique<Trial>(DType::q8, 127);
  QuantisedRows rows;
  rows.resize(kRows, kIn);
  rows.fill(trial->x.data(), kIn, 0, kRows);
  const QuantisedProduct product{.x = &rows,
                                 .rows = kRows,
                                 .dtype = DType::q8,
                                 .panel = trial->panel.data(),
                                 .init = trial->init.data(),
                                 .out = trial->out.data(),
                                 .out_stride = kOut};
  return is_right(*trial, product, guarded);
}

}  // namespace shardlm
