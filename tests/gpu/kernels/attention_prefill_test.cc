#include "tests/gpu/kernels/attention_case.h"

namespace shardlm::cuda {
namespace {

using Layout = DeviceMatrix::Layout;
const std::vector<DType> kTypes{DType::f32, DType::f16, DType::bf16};

class Prefill : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(Prefill);

std::vector<float> prefill(const TestStream& stream, const AttentionCase& c) {
  const auto d = c.on_device();
  append_kv(stream, d.k.view(), d.v.view(), d.batch, d.cache);
  attention_prefill(stream, d.q.view(), d.batch, d.cache, c.scale(), d.out.view());
  stream.finish();
  return d.out.values();
}

/// Weights may have been rounded to the type of the cache where tensor cores can be used.
void check_prefill(const TestStream& stream, const AttentionCase& c) {
  const CaseShape& s = c.shape();
  const bool tensor_core = s.activations == s.kv && s.kv != DType::f32 && s.head_dim % 16 == 0;
  EXPECT_TRUE(all_near(prefill(stream, c), c.expected(),
                       c.tolerance(tensor_core ? std::optional(s.kv) : std::nullopt),
                       rounding(s.activations)));
}

TEST_P(Prefill, LengthsAroundBlocksAndTiles) {
  for (const DType dtype : kTypes) {
    check_prefill(stream,
                  AttentionCase({.activations = dtype, .kv = dtype}, {{.n_rows = 1},
                                                                      {.n_rows = 31},
                                                                      {.n_rows = 32, .padding = 3},
                                                                      {.n_rows = 33},
                                                                      {.n_rows = 100}}));
  }
}

TEST_P(Prefill, AfterAPrefix) {
  for (const DType dtype : kTypes) {
    check_prefill(stream, AttentionCase({.activations = dtype, .kv = dtype, .block_tokens = 16},
                                        {{.n_rows = 3, .start = 62},
                                         {.n_rows = 1, .start = 128},
                                         {.n_rows = 66, .start = 15}}));
  }
}

TEST_P(Prefill, HeadDimsOfEverySize) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t head_dim : {1, 3, 16, 48, 64, 80, 128}) {
      check_prefill(stream,
                    AttentionCase({.activations = dtype,
                                   .kv = dtype,
                                   .n_head = 1,
                                   .head_dim = head_dim,
                                   .block_tokens = 5},
                                  {{.n_rows = 3, .start = 33}, {.n_rows = 18, .padding = 1}}));
    }
  }
}

TEST_P(Prefill, LargeHeads) {
  for (const std::int64_t head_dim : {129, 192, 256}) {
    check_prefill(
        stream,
        AttentionCase(
            {.activations = DType::bf16, .kv = DType::f16, .n_head = 1, .head_dim = head_dim},
            {{.n_rows = 18, .start = 3}, {.n_rows = 2, .padding = 1}}));
  }
}

TEST_P(Prefill, EveryPairOfTypes) {
  for (const DType activations : kTypes) {
    for (const DType kv : kTypes) {
      check_prefill(stream, AttentionCase({.activations = activations, .kv = kv, .n_head = 1},
                                          {{.n_rows = 7, .start = 2}}));
    }
  }
}

TEST_P(Prefill, StridedRows) {
  for (const DType dtype : kTypes) {
    for (const Layout layout : {Layout{8, 8}, Layout{.gap = 3, .offset = 1}}) {
      check_prefill(stream, AttentionCase({.activations = dtype, .kv = dtype, .layout = layout},
                                          {{.n_rows = 5, .start = 1}, {.n_rows = 4}}));
    }
  }
}

TEST_P(Prefill, LargeScores) {
  for (const DType dtype : kTypes) {
    check_prefill(stream,
                  AttentionCase({.activations = dtype, .kv = dtype, .range = 8}, {{.n_rows = 40}}));
  }
}

TEST_P(Prefill, BitsDependOnTheSequenceAlone) {
  for (const DType dtype : kTypes) {
    const CaseShape shape{.activations = dtype, .kv = dtype, .n_head = 1};
    const AttentionCase whole(shape, {{.n_rows = 80, .seed = 9}});
    const auto want = prefill(stream, whole);
    const AttentionCase among(
        shape,
        {{.n_rows = 5, .start = 70}, {.n_rows = 80, .padding = 1, .seed = 9}, {.n_rows = 2}});
    EXPECT_EQ(rows_of(prefill(stream, among), among.first_row(1), 80, among.cols()), want);
    for (const std::int32_t cut : {1, 63, 70}) {  // in two steps
      const AttentionCase rest(shape, {{.n_rows = 80 - cut, .start = cut, .seed = 9}});
      EXPECT_EQ(prefill(stream, rest), rows_of(want, cut, 80 - cut, whole.cols()));
    }
  }
}

TEST_P(Prefill, PaddingOnly) {
  check_prefill(stream, AttentionCase({}, {{.n_rows = 0, .padding = 65}}));
  check_prefill(stream, AttentionCase({.activations = DType::f16, .kv = DType::f16},
                                      {{.n_rows = 0, .padding = 2}}));
}

TEST_P(Prefill, NoHeadsOrNoRows) {
  const AttentionCase no_heads({.n_head = 0}, {{.n_rows = 5}}), no_rows({}, {});
  EXPECT_TRUE(prefill(stream, no_heads).empty());
  EXPECT_TRUE(prefill(stream, no_rows).empty());
  EXPECT_THROW(prefill(stream, AttentionCase({.head_dim = 257}, {{}})), std::exception);
}

TEST(PrefillTiles, CoverEveryRowOnce) {
  const std::vector<SequenceSlot> slots{{.first_row = 1, .n_rows = 130},
                                        {.first_row = 0, .n_rows = 0},
                                        {.first_row = 135, .n_rows = 64}};
  std::vector<int> covered(205, -2);
  for (const PrefillTile& tile : prefill_tiles(slots, 205)) {
    EXPECT_GT(tile.n_rows, 0);
    EXPECT_LE(tile.n_rows, kPrefillRows);
    for (std::int32_t i = 0; i < tile.n_rows; ++i) {
      int& row = covered.at(static_cast<std::size_t>(tile.first_row + i));
      EXPECT_EQ(row, -2);
      row = tile.sequence;
    }
  }
  std::vector<int> want(205, -1);
  std::fill_n(want.begin() + 1, 130, 0);
  std::fill_n(want.begin() + 135, 64, 2);
  EXPECT_EQ(covered, want);
  EXPECT_TRUE(prefill_tiles({}, 0).empty());
  EXPECT_THROW(prefill_tiles({{{.first_row = 4, .n_rows = 2}, {.first_row = 5, .n_rows = 1}}}, 9),
               std::exception);
}

}  // namespace
}  // namespace shardlm::cuda
