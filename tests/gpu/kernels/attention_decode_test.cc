#include "tests/gpu/kernels/attention_case.h"

namespace shardlm::cuda {
namespace {

using Layout = DeviceMatrix::Layout;
const std::vector<DType> kTypes{DType::f32, DType::f16, DType::bf16};

class AppendKv : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(AppendKv);
class Decode : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(Decode);

/// Appends the step's rows, then attends; the result's rows as float32.
std::vector<float> decode(const TestStream& stream, const AttentionCase& c, int n_splits,
                          std::optional<std::int64_t> max_tokens = std::nullopt) {
  const auto d = c.on_device();
  const std::int64_t room = max_tokens.value_or(c.max_tokens());
  const DeviceArray<float> scratch(attention_scratch_floats(c.n_rows(), d.cache, room));
  append_kv(stream, d.k.view(), d.v.view(), d.batch, d.cache);
  attention_decode(stream, d.q.view(), d.batch, d.cache, c.scale(), n_splits, room, scratch.data(),
                   d.out.view());
  stream.finish();
  return d.out.values();
}

void check_decode(const TestStream& stream, const AttentionCase& c, int n_splits = 2) {
  EXPECT_TRUE(all_near(decode(stream, c, n_splits), c.expected(), c.tolerance(),
                       rounding(c.shape().activations)));
}

TEST_P(AppendKv, PutsEachTokenIntoItsBlock) {
  for (const DType activations : kTypes) {
    for (const DType kv : kTypes) {
      for (const std::int64_t head_dim : {1, 6, 8, 16}) {
        const AttentionCase c(
            {.activations = activations,
             .kv = kv,
             .n_head = 3,
             .head_dim = head_dim,
             .block_tokens = 4},
            {{.n_rows = 5, .start = 2, .padding = 1}, {.start = 3}, {.start = 4}});
        const auto d = c.on_device();
        append_kv(stream, d.k.view(), d.v.view(), d.batch, d.cache);
        stream.finish();
        c.expect_appended(d);
      }
    }
  }
}

TEST_P(AppendKv, StridedRowsAndOtherBlockSizes) {
  for (const std::int64_t block_tokens : {1, 5, 16}) {
    for (const Layout layout : {Layout{.gap = 8}, Layout{.gap = 16, .offset = 8}, Layout{3, 1}}) {
      const AttentionCase c({.activations = DType::f16,
                             .kv = DType::f16,
                             .n_head = 2,
                             .head_dim = 24,
                             .block_tokens = block_tokens,
                             .layout = layout},
                            {{.n_rows = 17}, {.n_rows = 1, .start = 15, .padding = 2}});
      const auto d = c.on_device();
      append_kv(stream, d.k.view(), d.v.view(), d.batch, d.cache);
      stream.finish();
      c.expect_appended(d);
    }
  }
}

TEST_P(Decode, LengthsAroundBlocksAndRuns) {
  for (const DType dtype : kTypes) {
    check_decode(stream,
                 AttentionCase({.activations = dtype, .kv = dtype}, {{.start = 0},
                                                                     {.start = 30},
                                                                     {.start = 31, .padding = 1},
                                                                     {.start = 32},
                                                                     {.start = 99},
                                                                     {.start = 127},
                                                                     {.start = 128}}));
  }
}

TEST_P(Decode, EveryPairOfTypes) {
  for (const DType activations : kTypes) {
    for (const DType kv : kTypes) {
      check_decode(stream, AttentionCase({.activations = activations, .kv = kv, .block_tokens = 5},
                                         {{.start = 11}, {.start = 4}}));
    }
  }
}

TEST_P(Decode, HeadDimsOfEverySize) {
  for (const DType kv : kTypes) {
    for (const std::int64_t head_dim : {1, 3, 8, 20, 64, 80, 129, 256}) {
      check_decode(stream,
                   AttentionCase({.kv = kv, .n_head = 1, .head_dim = head_dim, .block_tokens = 16},
                                 {{.start = 40}, {.padding = 1}}));
    }
  }
}

TEST_P(Decode, StridedRows) {
  for (const DType dtype : kTypes) {
    for (const Layout layout : {Layout{8, 8}, Layout{.gap = 3, .offset = 1}}) {
      check_decode(stream, AttentionCase({.activations = dtype, .kv = dtype, .layout = layout},
                                         {{.start = 9}, {.start = 33}}));
    }
  }
}

TEST_P(Decode, SeveralRowsOfASequence) {
  check_decode(stream, AttentionCase({.head_dim = 12},
                                     {{.n_rows = 3, .start = 29}, {.n_rows = 2, .padding = 2}}));
}

TEST_P(Decode, LargeScores) {
  const AttentionCase c({.range = 40}, {{.start = 50}, {.start = 130}});  // up to 6400
  check_decode(stream, c);
}

TEST_P(Decode, BitsDependOnTheSequenceAlone) {
  const CaseShape shape{.activations = DType::bf16, .kv = DType::bf16, .n_head = 1};
  const CaseSequence one{.start = 300, .seed = 9};
  const AttentionCase alone(shape, {one});
  const AttentionCase among(shape,
                            {{.start = 500}, {.n_rows = 2, .padding = 1}, one, {.start = 3}});
  const auto want = decode(stream, alone, 1);
  EXPECT_EQ(decode(stream, alone, 2), want);
  EXPECT_EQ(decode(stream, alone, 3), want);
  for (const int n_splits : {1, 4}) {
    EXPECT_EQ(rows_of(decode(stream, among, n_splits), among.first_row(2), 1, among.cols()), want);
  }
  EXPECT_TRUE(all_near(want, alone.expected(), alone.tolerance(), rounding(DType::bf16)));
}

TEST_P(Decode, SlotsWithoutRows) {
  check_decode(stream,
               AttentionCase({}, {{.n_rows = 0, .padding = 1}, {.start = 5}, {.n_rows = 0}}));
  check_decode(stream, AttentionCase({}, {{.n_rows = 0, .padding = 2}}));  // padding only
}

TEST_P(Decode, MoreKeysThanRoomIsNotANumber) {
  const AttentionCase c({}, {{.start = 200}, {.start = 100}});
  const auto got = decode(stream, c, 2, 128);
  const auto want = c.expected();
  for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(got[i]));
  EXPECT_TRUE(all_near(std::span(got).subspan(32), std::span(want).subspan(32), c.tolerance()));
}

TEST_P(Decode, NoHeadsOrNoRows) {
  const AttentionCase no_heads({.n_head = 0}, {{.start = 5}}), no_rows({}, {});
  EXPECT_TRUE(decode(stream, no_heads, 1).empty());
  EXPECT_TRUE(decode(stream, no_rows, 1).empty());
}

TEST_P(Decode, RefusesWhatItCannotDo) {
  const AttentionCase large({.n_head = 1, .head_dim = 257}, {{}}), c({}, {{}});
  EXPECT_THROW(decode(stream, large, 1), std::exception);
  EXPECT_THROW(decode(stream, c, 0), std::exception);
}

TEST(DecodeSplits, FillTheDeviceButNoMoreThanThereAreRuns) {
  EXPECT_EQ(decode_splits(1, 12, 132, 1024), 8);
  EXPECT_EQ(decode_splits(1, 12, 132, 100), 1);
  EXPECT_EQ(decode_splits(1, 12, 132, 100000), 44);
  EXPECT_EQ(decode_splits(64, 12, 132, 100000), 1);
  EXPECT_EQ(decode_splits(0, 0, 132, 0), 1);
}

}  // namespace
}  // namespace shardlm::cuda
