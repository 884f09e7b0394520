// The parts of gpu_check that need no device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "base/error.h"
#include "tools/gpu_check/arguments.h"
#include "tools/gpu_check/figures.h"
#include "tools/gpu_check/findings.h"
#include "tools/gpu_check/golden_pack.h"
#include "tools/gpu_check/peaks.h"
#include "tools/gpu_check/pseudo_weights.h"

namespace shardlm::gpu_check {
namespace {

// ---- the golden pack ----

class Pack : public testing::Test {
 protected:
  Pack() {
    std::ifstream file(SHARDLM_GOLDEN_PACK, std::ios::binary);
    bytes_ = {std::istreambuf_iterator<char>(file), {}};
    path_ = std::filesystem::temp_directory_path() /
            ("pack_test." + std::to_string(getpid()) + ".pack");
  }
  ~Pack() override { std::filesystem::remove(path_); }

  /// Reads a file of these bytes and their checksum; "" or the Error's text.
  std::string read(const std::string& body) const {
    std::uint32_t crc = ~0U;
    for (const char c : body) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
    crc = ~crc;
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file << body;
    file.write(reinterpret_cast<const char*>(&crc), sizeof crc);
    file.close();
    return read_file();
  }
  std::string read_file() const {
    try {
      const GoldenPack pack(path_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
  }
  std::string body() const { return bytes_.substr(0, bytes_.size() - 4); }

  std::string bytes_;
  std::string path_;
};

TEST_F(Pack, HoldsTheGoldenCases) {
  const GoldenPack pack(SHARDLM_GOLDEN_PACK);
  ASSERT_EQ(pack.cases().size(), 4U);
  const GoldenCase& base = pack.cases().front();
  EXPECT_EQ(base.name, "base");
  EXPECT_EQ(base.config.n_inner, 80);
  EXPECT_EQ(base.config.activation, Activation::gelu_tanh);
  EXPECT_TRUE(base.config.tie_word_embeddings);
  EXPECT_EQ(base.greedy.at(0).prompt, std::vector<std::int32_t>{91});
  EXPECT_EQ(base.greedy.at(0).ids.front(), 70);
  EXPECT_FLOAT_EQ(pack.cases()[1].config.layer_norm_epsilon, 1e-3F);
  GoldenWeights weights(base);
  EXPECT_EQ(weights.linear("h.1.mlp.c_fc.weight", 20, 80).tensor.elements(), 1600);
  EXPECT_THROW(weights.linear("h.1.mlp.c_fc.weight", 80, 20), Error);
  EXPECT_THROW(weights.tensor("h.2.ln_1.weight", {20}), Error);
}

TEST_F(Pack, RefusesOtherFiles) {
  EXPECT_NE(read_file().find("cannot read"), std::string::npos);
  EXPECT_EQ(read(body()), "");
  EXPECT_NE(read("").find("first bytes"), std::string::npos);
  EXPECT_NE(read(body() + "x").find("after the last case"), std::string::npos);
  std::string other = body();
  other[0] = 'x';
  EXPECT_NE(read(other).find("first bytes"), std::string::npos);
  std::ofstream(path_, std::ios::binary) << bytes_.substr(0, 5000);
  EXPECT_NE(read_file().find("checksum"), std::string::npos);
}

TEST_F(Pack, EndsNowhereUnnoticed) {
  for (std::size_t n = 0; n < body().size(); n = n < 300 ? n + 1 : n + 9973) {
    EXPECT_NE(read(body().substr(0, n)), "") << n << " bytes";
  }
}

// Any bytes either give cases whose sizes fit, or are refused: sanitizers watch.
TEST_F(Pack, TakesAnyBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::string bytes = body().substr(0, 60000);
    for (int j = 0; j < 4; ++j) {
      const std::size_t at = random() % (i % 2 == 0 ? 400 : bytes.size());
      bytes[at] = static_cast<char>(random());
    }
    EXPECT_NE(read(bytes), "");  // cut, whatever the bytes
    bytes = body();
    bytes[random() % 400] = static_cast<char>(random());
    read(bytes);
  }
}

// ---- comparisons and figures ----

TEST(Findings, SeeWhatIsTooFarOff) {
  const std::vector<double> want = {1, -2};
  const auto failed = [&](const std::vector<float>& got, double absolute, double relative) {
    Findings findings;
    findings.near("op", got, want, absolute, relative);
    EXPECT_EQ(findings.checked(), 1U);
    EXPECT_EQ(findings.report(), findings.failed() == 0 ? 0 : 1);
    return findings.failed() == 1;
  };
  EXPECT_FALSE(failed({1, -2}, 0, 0));
  EXPECT_FALSE(failed({1.25F, -2.25F}, 0.25, 0));
  EXPECT_TRUE(failed({1.25F, -2.25F}, 0.2, 0));
  EXPECT_FALSE(failed({1.25F, -2.5F}, 0, 0.25));
  EXPECT_TRUE(failed({1.5F, -2.5F}, 0, 0.25));
  EXPECT_TRUE(failed({1, std::nanf("")}, 100, 100));
  EXPECT_TRUE(failed({std::nanf(""), -2}, 100, 100));
  EXPECT_TRUE(failed({1, std::numeric_limits<float>::infinity()}, 100, 0));
  EXPECT_TRUE(failed({1}, 100, 0));
}

TEST(Figures, AreJson) {
  Figures figures;
  figures.set("n", 3).set("x", 0.25).set("nan", std::nan("")).set("on", true);
  figures.set("text", "a \"b\"\\\n").set("inner", Figures().set("y", 1));
  figures.set("list", std::vector<Figures>{Figures(), Figures().set("z", 2)});
  EXPECT_EQ(figures.json(),
            "{\"n\":3,\"x\":0.25,\"nan\":null,\"on\":true,\"text\":\"a \\\"b\\\"\\\\\\u000a\","
            "\"inner\":{\"y\":1},\"list\":[{},{\"z\":2}]}");
  EXPECT_THROW(figures.save("/nowhere/at/all"), Error);
}

TEST(Peaks, AreThoseOfTheName) {
  const auto peaks = [](const char* name) {
    GpuDevice device;
    device.name = name;
    return peaks_of(device);
  };
  EXPECT_EQ(peaks("NVIDIA H200").half_tflop_s, 989);
  EXPECT_EQ(peaks("NVIDIA H100 PCIe").half_tflop_s, 756);
  EXPECT_EQ(peaks("NVIDIA A100-SXM4-80GB").f32_tflop_s, 19.5);
  EXPECT_EQ(peaks("NVIDIA L40S").half_tflop_s, 362);
  EXPECT_EQ(peaks("NVIDIA L4").half_tflop_s, 121);
  EXPECT_EQ(peaks("Another GPU").half_tflop_s, 0);
  EXPECT_EQ(figures_of(peaks("Another GPU")).json(),
            "{\"memory_gb_s\":\"unknown\",\"f32_tflop_s\":\"unknown\",\"half_tflop_s\":"
            "\"unknown\"}");
}

// ---- weights and arguments ----

TEST(PseudoWeights, HaveAnySizeAndNoFile) {
  constexpr std::int64_t kRows = 3000, kCols = 1600;  // 19 MB of float32: more than the period
  PseudoWeights weights(DType::f32, kRows * kCols);
  const HostMatrix matrix = weights.linear("h.0.attn.c_attn.weight", kRows, kCols);
  std::vector<float> all(static_cast<std::size_t>(kRows * kCols));
  matrix.tensor.read(0, all);
  double sum = 0, squares = 0;
  for (const double x : all) {
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(all.size());
  EXPECT_NEAR(sum / n, 0, 1e-4);
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 1e-4);
  EXPECT_NE(all[0], all[kCols]);

  PseudoWeights again(DType::f32, kRows * kCols);
  std::vector<float> row(kCols);
  again.linear("h.0.attn.c_attn.weight", kRows, kCols).tensor.read(7 * kCols, row);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + 7 * kCols));
  again.linear("h.1.attn.c_attn.weight", kRows, kCols).tensor.read(7 * kCols, row);
  EXPECT_FALSE(std::equal(row.begin(), row.end(), all.begin() + 7 * kCols));
  EXPECT_THROW(weights.tensor("wte.weight", {kRows * 10, kCols}), Error);
}

TEST(PseudoWeights, VectorsAreThoseOfAFreshModel) {
  PseudoWeights weights(DType::bf16, 100);
  std::vector<float> values(5);
  weights.tensor("h.0.ln_1.weight", {5}).read(0, values);
  EXPECT_EQ(values, std::vector<float>(5, 1));
  weights.tensor("h.0.ln_1.bias", {5}).read(0, values);
  EXPECT_EQ(values, std::vector<float>(5, 0));
  EXPECT_EQ(weights.tensor("wpe.weight", {10, 10}).dtype, DType::bf16);
}

Arguments arguments(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return Arguments(static_cast<int>(pointers.size()), pointers.data());
}

TEST(ArgumentsTest, AreReadAndRefused) {
  Arguments good = arguments({"gpu_check", "golden", "--ranks", "4", "--dtypes", "f32,bf16"});
  EXPECT_EQ(good.command(), "golden");
  EXPECT_THROW(good.finish(), Error);  // nobody has asked yet
  EXPECT_EQ(good.number("ranks", 1), 4);
  EXPECT_EQ(good.dtypes("dtypes", "f16"), (std::vector<DType>{DType::f32, DType::bf16}));
  EXPECT_EQ(good.switches("graphs", "off,on"), (std::vector<bool>{false, true}));
  EXPECT_NO_THROW(good.finish());
  EXPECT_THROW(arguments({"gpu_check"}), Error);
  EXPECT_THROW(arguments({"gpu_check", "golden", "ranks"}), Error);
  EXPECT_THROW(arguments({"gpu_check", "golden", "--ranks"}), Error);
  EXPECT_THROW(arguments({"gpu_check", "golden", "--ranks", "4x"}).number("ranks", 1), Error);
  EXPECT_THROW(arguments({"gpu_check", "golden", "--dtypes", "f8"}).dtypes("dtypes", ""), Error);
}

}  // namespace
}  // namespace shardlm::gpu_check
