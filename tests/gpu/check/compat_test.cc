// The stand-ins for libraries: the same texts as with the real ones.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace shardlm {
namespace {

TEST(CompatFormat, WritesWhatFmtWrites) {
  EXPECT_EQ(fmt::format(""), "");
  EXPECT_EQ(fmt::format("{} of [{}, {}]", "embed", std::uint64_t{3} << 40, -7),
            "embed of [3298534883328, -7]");
  EXPECT_EQ(fmt::format("{}{}", std::string("a"), std::string_view("b")), "ab");
  EXPECT_EQ(fmt::format("{:02x}{:02x}{:x}", static_cast<unsigned char>(10),
                        static_cast<unsigned char>(255), 300),
            "0aff12c");
  EXPECT_EQ(fmt::format("{} {}", static_cast<unsigned char>(65), 'A'), "65 A");
  EXPECT_EQ(fmt::format("{:g} {:g} {}", 60.0, 0.5, 0.1), "60 0.5 0.1");
  EXPECT_EQ(fmt::format("{} {} {}", 1.0, 1e30, 0.1F), "1 1e+30 0.1");
  EXPECT_EQ(fmt::format("{{{}}} {}", 1, true), "{1} true");
  EXPECT_EQ(fmt::format("[{}]", fmt::join(std::vector<int>{1, 2, 3}, ", ")), "[1, 2, 3]");
  EXPECT_EQ(fmt::format("[{}]", fmt::join(std::vector<int>{}, ", ")), "[]");
}

TEST(CompatFormat, KnowsItsLimits) {
  static_assert(fmt::detail::valid("{} {:g} {:04x}", 3));
  static_assert(!fmt::detail::valid("{}", 2));
  static_assert(!fmt::detail::valid("{:>5}", 1));
  static_assert(!fmt::detail::valid("{0}", 1));
  static_assert(!fmt::detail::valid("{:04g}", 1));
  static_assert(!fmt::detail::valid("{:", 1));
  static_assert(!fmt::detail::valid("}", 0));
}

TEST(CompatHostBackend, SumsAddendsInOrder) {
  const auto host = make_cpu_backend(1);
  const auto matrix = [&](const std::vector<float>& values) {
    const Tensor tensor = host->allocate(2, 2);
    host->upload(values, tensor);
    return tensor;
  };
  const std::vector<Tensor> addends = {matrix({1e8F, 1, 2, 3}), matrix({1, 1, 1, 1}),
                                       matrix({-1e8F, 0, 0, 0})};
  Tensor x = matrix({10, 10, 10, 10});
  host->update_residual(addends, {.residual = &x});
  std::vector<float> sums(4);
  host->download(x, sums);
  // 1e8 + 1 is 1e8 in float32: another order would give 11.
  EXPECT_EQ(sums, (std::vector<float>{10, 12, 13, 14}));
  EXPECT_THROW(host->activate(Activation::relu, x), Error);
}

}  // namespace
}  // namespace shardlm
