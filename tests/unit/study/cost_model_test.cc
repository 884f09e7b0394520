#include "study/cost_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardlm {
namespace {

// The table of 10 GbE and of 100 us links in comm_study 2.1, in microseconds; computed there.
TEST(CostModel, GivesTheStudysTimes) {
  const LinkCost ten_gbe{
      .alpha_s = 25e-6, .beta_s_per_byte = 0.8e-9, .per_message_s = 3e-6, .source = ""};
  const auto us = [&](Algorithm a, int ranks, double bytes) {
    return cost_terms(a, ranks, bytes)->seconds(ten_gbe) * 1e6;
  };
  const double n = 3072;
  // 25 + 3 (P - 1) + 0.8e-3 (P - 1) n, rounded to a microsecond there.
  EXPECT_NEAR(us(Algorithm::direct, 4, n), 41, 0.6);
  EXPECT_NEAR(us(Algorithm::direct, 8, n), 63, 0.6);
  EXPECT_NEAR(us(Algorithm::recdbl, 2, n), 28, 0.6);
  EXPECT_NEAR(us(Algorithm::recdbl, 8, n), 82, 0.6);
  EXPECT_NEAR(us(Algorithm::rabenseifner, 4, n), 104, 0.6);
  EXPECT_NEAR(us(Algorithm::ring, 8, n), 354, 0.7);
  EXPECT_NEAR(us(Algorithm::star, 4, n), 83, 1);
}

TEST(CostModel, OfOneRankIsNothing) {
  for (const Algorithm a : all_algorithms()) {
    EXPECT_EQ(cost_terms(a, 1, 3072)->rounds, 0);
    EXPECT_EQ(total_sent_bytes(a, 1, 3072), 0U);
  }
}

TEST(CostModel, CountsTheBytesOfAllRanks) {
  // By hand for 4 ranks and 12 bytes.
  EXPECT_EQ(total_sent_bytes(Algorithm::shm_oneshot, 4, 12), 48U);
  EXPECT_EQ(total_sent_bytes(Algorithm::shm_twoshot, 4, 12), 60U);   // 4 x (12 + 3)
  EXPECT_EQ(total_sent_bytes(Algorithm::direct, 4, 12), 144U);       // 4 x 3 x 12
  EXPECT_EQ(total_sent_bytes(Algorithm::recdbl, 4, 12), 96U);        // 4 x 2 x 12
  EXPECT_EQ(total_sent_bytes(Algorithm::rabenseifner, 4, 12), 72U);  // 4 x (6 + 3 + 3 + 6)
  EXPECT_EQ(total_sent_bytes(Algorithm::ring, 4, 12), 72U);          // 4 x 6 x 3
  EXPECT_EQ(total_sent_bytes(Algorithm::star, 4, 12), 72U);          // 3 x 12 and 3 x 12
  EXPECT_EQ(total_sent_bytes(Algorithm::tree, 4, 12), 72U);
  // 6 ranks: 2 hand over to 2 of the other 4, and get the sum back.
  EXPECT_EQ(total_sent_bytes(Algorithm::recdbl, 6, 12), 96U + 48);
  EXPECT_EQ(total_sent_bytes(Algorithm::rabenseifner, 6, 12), 72U + 48);
  EXPECT_FALSE(total_sent_bytes(Algorithm::mpi, 4, 12));
  EXPECT_FALSE(total_sent_bytes(Algorithm::two_level, 4, 12));
  EXPECT_FALSE(cost_terms(Algorithm::mpi, 4, 12));
}

TEST(CostModel, ExpectsTheTrafficOfGpt2) {
  ModelConfig config;
  config.n_layer = 12;
  config.n_embd = 768;
  const ExpectedTraffic one = expected_traffic(config, 1), prompt = expected_traffic(config, 128);
  EXPECT_EQ(one.all_reduces, 25);
  EXPECT_EQ(one.bytes_each, 3072U);
  EXPECT_EQ(one.bytes, 76'800U);
  EXPECT_EQ(prompt.bytes_each, 393'216U);
}

TEST(CostModel, FitsWhatItWasMadeOf) {
  const LinkCost made{
      .alpha_s = 2e-6, .beta_s_per_byte = 3e-10, .gamma_s_per_byte = 3e-10, .source = ""};
  std::vector<TimedSum> sums;
  for (const Algorithm a : {Algorithm::direct, Algorithm::ring}) {
    for (const double bytes : {512.0, 3072.0, 65536.0})
      sums.push_back({a, bytes, cost_terms(a, 3, bytes)->seconds(made)});
  }
  const auto link = fit_link(sums, 3);
  ASSERT_TRUE(link);
  EXPECT_NEAR(link->alpha_s, 2e-6, 1e-12);
  EXPECT_NEAR(link->beta_s_per_byte, 3e-10, 1e-16);
  EXPECT_FALSE(fit_link(std::span(sums).first(1), 3));
  const std::vector<TimedSum> one_size(5, sums[0]);
  EXPECT_FALSE(fit_link(one_size, 3));
}

}  // namespace
}  // namespace shardlm
