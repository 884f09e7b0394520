#include "backend/cpu/logit_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/simd.h"

namespace shardlm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::size_t kSizes[] = {0, 1, 15, 16, 17, 1733, 2047, 2048};

std::vector<float> random_logits(std::size_t n, double scale) {
  std::mt19937 random(static_cast<std::uint32_t>(n));
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

LogitMax load(const std::vector<float>& logits, LogitPiece& piece) {
  return load_logits(logits.data(), std::vector<std::uint8_t>(logits.size(), 1).data(),
                     logits.size(), piece);
}

/// Calls test() once for each instruction set of this machine.
template <class Test>
void on_every_target(const Test& test) {
  for (const std::string& target : cpu_simd_targets()) {
    SCOPED_TRACE(target);
    const ForcedSimdTarget forced(target);
    test();
  }
}

TEST(LogitMath, LoadsWhatIsAllowedAndSeesWhatIsNotFinite) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      std::vector<float> logits = random_logits(n, 3);
      std::vector<std::uint8_t> allowed(n, 1);
      for (std::size_t i = 0; i < n; i += 5) allowed[i] = 0;
      for (std::size_t i = 0; i < n; i += 10) logits[i] = i % 20 == 0 ? std::nanf("") : kInf;
      const auto piece = std::make_unique<LogitPiece>();
      const LogitMax loaded = load_logits(logits.data(), allowed.data(), n, *piece);
      float max = -kInf;
      for (std::size_t i = 0; i < piece->padded(); ++i) {
        const float expected = i < n && allowed[i] != 0 ? logits[i] : -kInf;
        ASSERT_EQ((*piece)[i], expected) << i << " of " << n;
        max = std::max(max, expected);
      }
      EXPECT_EQ(loaded.max, max) << n;
      EXPECT_EQ(max_logit(*piece), max) << n;
      EXPECT_TRUE(loaded.finite) << n;
      for (const float bad : {kInf, -kInf, std::nanf("")}) {
        if (n < 2) continue;
        std::vector<float> spoilt = logits;
        spoilt[n % 5 == 1 ? n - 2 : n - 1] = bad;  // an allowed one of the last group
        EXPECT_FALSE(load_logits(spoilt.data(), allowed.data(), n, *piece).finite) << n;
      }
    }
  });
}

TEST(LogitMath, SumsOfExponentialsAreThoseOfLongDoubles) {
  on_every_target([] {
    for (const std::size_t n : kSizes) {
      for (const double temperature : {0.7, 1.0, 1e30, 1e-3}) {
        const std::vector<float> logits = random_logits(n, 5);
        const auto piece = std::make_unique<LogitPiece>();
        const float max = load(logits, *piece).max;
        const std::array<float, kLogitBounds> limits{-kInf, 0, n > 3 ? logits[3] : 1.0F, kInf};
        long double sum = 0;
        std::array<long double, kLogitBounds> above{};
        for (const float x : logits) {
          const long double less = static_cast<long double>(x) - static_cast<long double>(max);
          const long double weight = std::exp(less / static_cast<long double>(temperature));
          sum += weight;
          for (std::size_t j = 0; j < kLogitBounds; ++j) above[j] += x > limits[j] ? weight : 0;
        }
        const auto expect_near = [&](double found, long double truth) {
          EXPECT_NEAR(found, static_cast<double>(truth), 1e-14 * static_cast<double>(truth))
              << n << " " << temperature;
        };
        if (n > 0) expect_near(sum_exp(*piece, max, 1 / temperature), sum);
        if (n == 0) continue;
        const BoundSums found = sum_exp_above(*piece, max, 1 / temperature, limits);
        for (std::size_t j = 0; j < kLogitBounds; ++j) expect_near(found[j], above[j]);
      }
    }
  });
}

TEST(LogitMath, FindsTheColumnsAboveALimit) {
  on_every_target([] {
    const std::vector<float> logits = random_logits(1733, 1);
    const auto piece = std::make_unique<LogitPiece>();
    const auto found = std::make_unique<LogitIndices>();
    load(logits, *piece);
    for (const float limit : {-kInf, 0.0F, logits[7], 3.0F, kInf}) {
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 256; i < 1733; ++i) {
        if (logits[i] > limit) expected.push_back(i);
      }
      const std::size_t n = find_above(*piece, 256, piece->padded(), limit, *found);
      EXPECT_EQ(std::vector(found->begin(), found->begin() + static_cast<std::ptrdiff_t>(n)),
                expected)
          << limit;
    }
  });
}

// A runner may be found needlessly, within the documented margin, but never be missed.
TEST(LogitMath, FindsEveryRunnerThatHasNotLost) {
  const NoiseKey keys[] = {{}, {0xfedcba9876543210, 0x1122334455667788, 0xffffffff}, {7, 1, 12}};
  constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max() - 2048;
  on_every_target([&] {
    for (const std::size_t n : {1U, 16U, 1733U, 2048U}) {
      for (const std::int32_t first : {0, 1, 50257, kLast, kLast - 1}) {
        for (const double temperature : {0.8, 1e10, 0.01}) {
          LogitRace race{keys[n % 3], first, 0, temperature, 0};
          const std::vector<float> logits = random_logits(n, 2);
          const auto piece = std::make_unique<LogitPiece>();
          const auto found = std::make_unique<LogitIndices>();
          race.max = load(logits, *piece).max;
          const std::size_t odd = static_cast<std::size_t>(first % 2);
          const std::size_t end = (n + odd + kLogitGroup - 1) / kLogitGroup * kLogitGroup;
          for (const double limit : {0.0, 0.01, 0.9, 1e3, 1e40}) {
            race.limit = limit;
            const std::size_t count = find_runners(*piece, 0, end, race, *found);
            std::vector<bool> is_found(n, false);
            for (std::size_t k = 0; k < count; ++k) {
              const std::size_t i = (*found)[k] - odd;
              if ((*found)[k] >= odd && i < n) is_found[i] = true;
            }
            for (std::size_t i = 0; i < n; ++i) {
              const double u = uniform(race.key, first + static_cast<std::int32_t>(i));
              const double less = static_cast<double>(logits[i]) - static_cast<double>(race.max);
              const double weight = std::exp(less / temperature);
              if (-std::log(u) <= limit * weight) {
                ASSERT_TRUE(is_found[i]) << i;
              }
              if (1 - u > limit * std::max(weight, 2e-38) * 1.0003 + 0x1p-24) {
                ASSERT_FALSE(is_found[i]) << i;
              }
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace shardlm
