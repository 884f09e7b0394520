#include "comm/algorithm_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Site kAttn{SiteKind::attn_out, 3}, kMlp{SiteKind::mlp_out, 0}, kEmbed{SiteKind::embed};

std::string chosen(const AlgorithmTable& table, Site site, Phase phase, std::size_t bytes) {
  const auto rule = table.find(site, phase, bytes);
  return rule ? choice_text(table.rules()[*rule].choice) : "none";
}

std::string refusal(std::string_view text) {
  try {
    parse_algorithm_table(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

TEST(AlgorithmTable, OneNameIsForEverything) {
  const AlgorithmTable table = parse_algorithm_table("ring");
  EXPECT_EQ(chosen(table, kEmbed, Phase::prefill, 1U << 30), "ring");
  EXPECT_EQ(chosen(table, kMlp, Phase::decode, 0), "ring");
}

TEST(AlgorithmTable, TheFirstRuleThatFitsCounts) {
  const AlgorithmTable table = parse_algorithm_table(
      "attn_out.decode=recdbl, prefill<=65536=direct:bf16, mlp_out=star, shm-twoshot:int8");
  EXPECT_EQ(chosen(table, kAttn, Phase::decode, 3072), "recdbl");
  EXPECT_EQ(chosen(table, kAttn, Phase::prefill, 65536), "direct:bf16");
  EXPECT_EQ(chosen(table, kAttn, Phase::prefill, 65537), "shm-twoshot:int8");
  EXPECT_EQ(chosen(table, kMlp, Phase::prefill, 65537), "star");
  EXPECT_EQ(chosen(table, kEmbed, Phase::decode, 1), "shm-twoshot:int8");
}

TEST(AlgorithmTable, SizesAloneMakeARule) {
  const AlgorithmTable table = parse_algorithm_table("<=4096=direct,tree");
  EXPECT_EQ(chosen(table, kAttn, Phase::decode, 4096), "direct");
  EXPECT_EQ(chosen(table, kAttn, Phase::decode, 4097), "tree");
}

TEST(AlgorithmTable, WithoutARestSomeCallsHaveNone) {
  const AlgorithmTable table = parse_algorithm_table("decode=ring");
  EXPECT_EQ(chosen(table, kAttn, Phase::prefill, 1), "none");
  EXPECT_EQ(chosen(table.before(parse_algorithm_table("star")), kAttn, Phase::prefill, 1), "star");
}

TEST(AlgorithmTable, LoadingCountsAsPrefill) {
  EXPECT_EQ(chosen(parse_algorithm_table("prefill=ring,star"), kAttn, Phase::load, 1), "ring");
}

TEST(AlgorithmTable, ItsTextIsReadAsItWasWritten) {
  for (const char* text :
       {"ring", "attn_out.decode<=4096=shm-twoshot:int8,embed=star,prefill=two-level/ring:bf16,mpi",
        "<=12=tree:f16,two-level/recdbl"}) {
    EXPECT_EQ(parse_algorithm_table(text).text(), text);
  }
}

TEST(AlgorithmTable, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal("rign"), AllOf(HasSubstr("rabenseifner"), HasSubstr("'rign'")));
  EXPECT_THAT(refusal(""), HasSubstr("''"));
  EXPECT_THAT(refusal("ring,"), HasSubstr("''"));
  EXPECT_THAT(refusal("ring:f8"), AllOf(HasSubstr("bf16"), HasSubstr("'f8'")));
  EXPECT_THAT(refusal("ring/star"), HasSubstr("two-level"));
  EXPECT_THAT(refusal("two-level/mpi"), HasSubstr("between nodes"));
  EXPECT_THAT(refusal("two-level/shm-oneshot"), HasSubstr("between nodes"));
  EXPECT_THAT(refusal("mpi:bf16"), HasSubstr("MPI library"));
  EXPECT_THAT(refusal("shm-oneshot:int8"), HasSubstr("shm-twoshot"));
  EXPECT_THAT(refusal("lm_head=ring"), HasSubstr("'lm_head'"));
  EXPECT_THAT(refusal("decode.attn_out=ring"), HasSubstr("'attn_out'"));
  EXPECT_THAT(refusal("attn_out.decode.x=ring"), HasSubstr("'decode.x'"));
  EXPECT_THAT(refusal("=ring"), HasSubstr("''"));
  EXPECT_THAT(refusal("decode<=1k=ring"), HasSubstr("'1k'"));
  EXPECT_THAT(refusal("decode<=-1=ring"), HasSubstr("'-1'"));
  EXPECT_THAT(refusal("decode<=99999999999999999999=ring"), HasSubstr("bytes"));
  EXPECT_THAT(refusal("decode<=4096"), HasSubstr("ALGORITHM"));
}

TEST(AlgorithmTable, TheDefaultsFitEveryCall) {
  for (const GroupShape& shape :
       {GroupShape{1, 1, 1}, {2, 1, 2}, {5, 1, 5}, {2, 2, 1}, {3, 3, 1}, {4, 2, 2}, {6, 3, 3}}) {
    const AlgorithmTable table = default_table(shape);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3072}, std::size_t{1} << 40})
      EXPECT_TRUE(table.find(kAttn, Phase::decode, bytes)) << shape.ranks;
    for (const AllReduceRule& rule : table.rules()) {
      EXPECT_EQ(rule.choice.wire, WireFormat::f32) << "nothing is rounded unasked";
      if (shape.nodes > 1) {
        EXPECT_FALSE(needs_one_node(rule.choice.algorithm));
      }
    }
  }
}

TEST(Exactness, SaysWhatASumKeeps) {
  EXPECT_EQ(exactness(Algorithm::shm_twoshot, WireFormat::f32, false), Exactness::exact);
  EXPECT_EQ(exactness(Algorithm::ring, WireFormat::f32, false), Exactness::reordered);
  EXPECT_EQ(exactness(Algorithm::ring, WireFormat::f32, true), Exactness::exact);
  EXPECT_EQ(exactness(Algorithm::direct, WireFormat::bf16, false), Exactness::approximate);
}

TEST(Algorithms, EachNameIsParsed) {
  for (const Algorithm a : all_algorithms()) EXPECT_EQ(parse_algorithm(name(a)), a);
  for (const WireFormat w : all_wire_formats()) EXPECT_EQ(parse_wire_format(name(w)), w);
  EXPECT_EQ(parse_algorithm("RING"), std::nullopt);
}

}  // namespace
}  // namespace shardlm
