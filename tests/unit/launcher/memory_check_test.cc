#include "launcher/memory_check.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "launcher/bytes_text.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig model() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 48;
  c.n_embd = 1600;
  c.n_head = 25;
  c.n_inner = 6400;
  c.n_positions = 1024;
  c.vocab_size = 50257;
  return c;
}

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

MemoryQuestion question(const ModelConfig& config, int ranks, std::vector<int> sharers) {
  return {.config = config,
          .ranks = ranks,
          .sharers = std::move(sharers),
          .precision = {},
          .sizes = {.kv_tokens = 1024, .rows = 512, .logit_rows = 1}};
}

std::string problem(const MemoryQuestion& q, std::uint64_t free_bytes) {
  try {
    check_memory(q, {.free_bytes = free_bytes, .total_bytes = 8 * kGiB}, "GPU 0 (H200)");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resources);
    return e.what();
  }
  return {};
}

TEST(MemoryCheck, PassesExactlyWhenTheSumFits) {
  const ModelConfig config = model();
  const MemoryQuestion q = question(config, 2, {0});
  const auto need = static_cast<std::uint64_t>(need_on_gpu(q).total());
  EXPECT_EQ(problem(q, need), "");
  EXPECT_THAT(problem(q, need - 1), HasSubstr("GPU 0 (H200): the model does not fit"));
}

TEST(MemoryCheck, SaysPartsFreeBytesAndWhatWouldFit) {
  const ModelConfig config = model();
  // 1.56 billion float32 weights: 5.8 GiB on one rank.
  EXPECT_THAT(problem(question(config, 1, {0}), 4 * kGiB),
              AllOf(HasSubstr("weights 5.8"), HasSubstr("keys and values 600 MiB"),
                    HasSubstr("workspace"), HasSubstr("found 4.00 GiB free of 8.00 GiB"),
                    HasSubstr("would fit: --dtype bf16, or 2 ranks")));
}

TEST(MemoryCheck, RanksThatFitIsTheLeastNumber) {
  const ModelConfig config = model();
  const MemoryQuestion q = question(config, 1, {0});
  const std::uint64_t free_bytes = kGiB;
  const int ranks = ranks_that_fit(q, free_bytes);
  ASSERT_GT(ranks, 2);
  EXPECT_EQ(problem(question(config, ranks, {0}), free_bytes), "");
  EXPECT_NE(problem(question(config, ranks - 1, {0}), free_bytes), "");
  EXPECT_EQ(ranks_that_fit(q, 1 << 20), 0);
  EXPECT_THAT(problem(q, 1 << 20), HasSubstr("GPUs with more memory"));
}

TEST(MemoryCheck, RanksOnOneGpuCountTogether) {
  const ModelConfig config = model();
  const auto one = static_cast<std::uint64_t>(need_on_gpu(question(config, 3, {0})).total());
  EXPECT_THAT(problem(question(config, 3, {0, 2}), one),
              HasSubstr("the parts of 2 ranks do not fit"));
  EXPECT_EQ(problem(question(config, 3, {0, 2}), 2 * one), "");
}

TEST(MemoryCheck, SmallerTypesAreOfferedOnlyIfTheyHelp) {
  const ModelConfig config = model();
  MemoryQuestion q = question(config, 1, {0});
  q.precision = {DType::bf16, DType::bf16, DType::f32};
  EXPECT_THAT(memory_remedy(q, 3 * kGiB + kGiB / 2), HasSubstr("--kv-dtype auto"));
  q.precision.kv = DType::bf16;
  EXPECT_THAT(memory_remedy(q, kGiB), Not(HasSubstr("dtype")));
}

TEST(BytesText, HasThreeDigits) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(12 * 1024), "12.0 KiB");
  EXPECT_EQ(bytes_text(999 * kGiB), "999 GiB");
  EXPECT_EQ(bytes_text(1024 * kGiB - 1), "1.00 TiB");  // not "1024 GiB"
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace shardlm
