#include "study/collective_time.h"

#include <gtest/gtest.h>

#include "study/calibration.h"
#include "study/cost_model.h"
#include "study/link_presets.h"

namespace shardlm {
namespace {

LinkClass line(double alpha, double beta, double o) {
  LinkClass link;
  link.segments = {{0, 1U << 30, alpha, beta}};
  link.per_message_s = o;
  return link;
}

// With one segment the rounds are the formulas of docs/communication.md.
TEST(CollectiveTime, OfOneSegmentIsTheFormula) {
  const LinkCost cost{.alpha_s = 7e-6,
                      .beta_s_per_byte = 0.4e-9,
                      .gamma_s_per_byte = 0.1e-9,
                      .per_message_s = 2e-6,
                      .source = ""};
  const std::vector<GammaClass> gamma = {{1U << 30, 0.1e-9, "L1"}};
  const LinkClass link = line(7e-6, 0.4e-9, 2e-6);
  for (const Algorithm a : all_algorithms()) {
    for (int ranks = 1; ranks <= 40; ++ranks) {
      for (const double bytes : {64.0, 3072.0, 393216.0}) {
        const auto rounds = rounds_of(a, ranks, bytes);
        const auto terms = cost_terms(a, ranks, bytes);
        ASSERT_EQ(rounds.has_value(), terms.has_value()) << name(a);
        if (!rounds) continue;
        EXPECT_NEAR(rounds_s(*rounds, link, gamma) / std::max(1e-12, terms->seconds(cost)),
                    ranks == 1 ? 0 : 1, 1e-9)
            << name(a) << " " << ranks;
        EXPECT_NEAR(rounds_count(*rounds), terms->rounds, 1e-9) << name(a) << " " << ranks;
      }
    }
  }
}

TEST(CollectiveTime, TakesTheSegmentOfTheMessageThatIsSent) {
  LinkClass link = line(1e-6, 0, 0);
  link.segments = {{0, 1000, 1e-6, 0}, {1000, 4000, 10e-6, 0}, {4000, 8000, 100e-6, 0}};
  // 4 ranks, 8000 bytes: the ring sends quarters, recursive doubling all of it, twice.
  EXPECT_NEAR(rounds_s(*rounds_of(Algorithm::ring, 4, 8000), link, {}), 6 * 10e-6, 1e-12);
  EXPECT_NEAR(rounds_s(*rounds_of(Algorithm::recdbl, 4, 8000), link, {}), 2 * 100e-6, 1e-12);
  EXPECT_NEAR(rounds_s(*rounds_of(Algorithm::rabenseifner, 4, 8000), link, {}),
              2 * 10e-6 + 2 * 10e-6, 1e-12);
  // Beyond what was measured the last one counts.
  EXPECT_NEAR(rounds_s(*rounds_of(Algorithm::recdbl, 2, 1e6), link, {}), 100e-6, 1e-12);
}

TEST(CollectiveTime, CountsAMeasuredFirstMessageOnce) {
  LinkClass link = line(5e-6, 0, 2e-6);
  const auto rounds = rounds_of(Algorithm::direct, 4, 8);
  EXPECT_NEAR(rounds_s(*rounds, link, {}), 5e-6 + 3 * 2e-6, 1e-12);
  link.alpha_holds_one_message = true;
  EXPECT_NEAR(rounds_s(*rounds, link, {}), 5e-6 + 2 * 2e-6, 1e-12);
}

TEST(CollectiveTime, TakesGammaBySize) {
  const std::vector<GammaClass> gamma = {{1000, 1e-9, "L1"}, {100000, 2e-9, "RAM"}};
  EXPECT_EQ(gamma_s_per_byte(gamma, 1000), 1e-9);
  EXPECT_EQ(gamma_s_per_byte(gamma, 1001), 2e-9);
  EXPECT_EQ(gamma_s_per_byte(gamma, 1e9), 2e-9);
  EXPECT_EQ(gamma_s_per_byte({}, 5), 0);
}

// comm_study 2.1: "Values of the model, microseconds", computed there, rounded there.
struct StudyRow {
  const char* link;
  double bytes;
  int ranks;
  double direct, recdbl, rabenseifner, ring, star;
};
TEST(CollectiveTime, GivesTheStudysTables) {
  constexpr double kSmall = 3072, kLarge = 393216;
  const StudyRow rows[] = {{"10gbe", kSmall, 2, 31, 28, 53, 53, 61},
                           {"10gbe", kSmall, 4, 41, 55, 104, 154, 83},
                           {"10gbe", kSmall, 8, 63, 82, 154, 354, 126},
                           {"10gbe", kLarge, 2, 343, 340, 365, 365, 685},
                           {"10gbe", kLarge, 4, 978, 679, 572, 622, 1955},
                           {"10gbe", kLarge, 8, 2248, 1019, 701, 901, 4496},
                           {"115,1,3", kSmall, 2, 143, 140, 255, 255, 285},
                           {"115,1,3", kSmall, 4, 198, 279, 497, 727, 396},
                           {"115,1,3", kSmall, 8, 308, 419, 733, 1653, 616},
                           {"115,1,3", kLarge, 8, 22156, 9782, 6195, 7115, 44312},
                           {"ib-hdr", kSmall, 2, 1.9, 1.6, 3.1, 3.1, 3.9},
                           {"ib-hdr", kSmall, 4, 2.8, 3.3, 6.2, 9.2, 5.6},
                           {"ib-hdr", kSmall, 8, 4.6, 4.9, 9.2, 21, 9.1},
                           {"ib-hdr", kLarge, 8, 128, 58, 40, 52, 255}};
  for (const StudyRow& row : rows) {
    const Calibration c = calibration_of_link(row.link);
    const auto expect = [&](Algorithm a, double us) {
      const auto s =
          predicted_all_reduce_s(c, a, row.ranks, row.ranks, static_cast<std::size_t>(row.bytes));
      ASSERT_TRUE(s);
      const double rounding = us < 10 ? 0.07 : 1;
      EXPECT_NEAR(*s * 1e6, us, rounding) << row.link << " " << row.ranks << " " << name(a);
    };
    expect(Algorithm::direct, row.direct);
    expect(Algorithm::recdbl, row.recdbl);
    expect(Algorithm::rabenseifner, row.rabenseifner);
    expect(Algorithm::ring, row.ring);
    expect(Algorithm::star, row.star);
  }
}

}  // namespace
}  // namespace shardlm
