#include "comm/message_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_messages.h"
#include "tests/unit/comm/message_cases.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

class MessageRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MessageRanks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

int sum_of_factors(int members) { return members * (members + 1) / 2; }

void check_exact_sums(Messages& messages, std::span<const std::size_t> sizes) {
  SummingRank rank(messages);
  const int members = rank.team().size();
  for (const Algorithm algorithm : kByMessages) {
    for (const WireCodec* codec : all_codecs()) {
      for (const std::size_t n : sizes) {
        const Bytes sum = rank.sum(algorithm, *codec, exact_values(*codec, n, messages.rank() + 1));
        EXPECT_TRUE(sum == exact_values(*codec, n, sum_of_factors(members)))
            << name(algorithm) << ", " << codec_text(*codec) << ", " << n;
      }
    }
  }
}

TEST_P(MessageRanks, ExactSumsAtAnySize) {
  run_message_ranks(GetParam(),
                    [](int, Messages& messages) { check_exact_sums(messages, kSizes); });
}

// No message is copied before it is read: the sender's memory must be left alone until then.
TEST_P(MessageRanks, ExactSumsWhereMessagesAreReadLate) {
  ThreadMessageOptions options;
  options.eager_bytes = 0;
  run_message_ranks(
      GetParam(),
      [](int, Messages& messages) {
        check_exact_sums(messages, std::array<std::size_t, 3>{0, 7, 768});
      },
      options);
}

// Results of all ranks, [rank].
template <class F>
std::vector<Bytes> on_all(int size, F&& body) {
  std::vector<Bytes> results(static_cast<std::size_t>(size));
  run_message_ranks(size, [&](int r, Messages& messages) {
    SummingRank rank(messages);
    results[static_cast<std::size_t>(r)] = body(r, rank);
  });
  return results;
}

std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// What becomes of values in a message.
std::vector<float> through(const WireCodec& codec, std::vector<float> x) {
  Bytes wire(codec.wire_bytes(x.size()));
  codec.encode(reinterpret_cast<const std::byte*>(x.data()), x.size(), wire.data());
  codec.decode(wire.data(), x.size(), reinterpret_cast<std::byte*>(x.data()));
  return x;
}

// a0 + a1 + … with each sum rounded to float; the addends rounded before, from the `first` one on.
std::vector<float> in_rank_order(const WireCodec& codec, int ranks, std::size_t n, int first) {
  std::vector<float> sum = random_values(n, 0);
  if (first == 0) sum = through(codec, sum);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<float> addend = through(codec, random_values(n, r));
    for (std::size_t i = 0; i < n; ++i) sum[i] += addend[i];
  }
  return sum;
}

TEST_P(MessageRanks, DirectAndStarSumInRankOrder) {
  const int ranks = GetParam();
  if (ranks == 1) return;
  for (const WireFormat wire : all_wire_formats()) {
    const WireCodec& codec = wire_codec(SumType::f32, wire);
    for (const std::size_t n : {std::size_t{33}, std::size_t{768}}) {
      const auto of = [&](Algorithm algorithm) {
        return on_all(ranks, [&](int r, SummingRank& rank) {
          return rank.sum(algorithm, codec, bytes_of(random_values(n, r)));
        });
      };
      const Bytes direct = bytes_of(in_rank_order(codec, ranks, n, 0));
      const Bytes star = bytes_of(through(codec, in_rank_order(codec, ranks, n, 1)));
      for (const Bytes& sum : of(Algorithm::direct)) EXPECT_TRUE(sum == direct) << name(wire);
      for (const Bytes& sum : of(Algorithm::star)) EXPECT_TRUE(sum == star) << name(wire);
    }
  }
}

// Rounding to the format loses at most this share of the largest value of a block.
double unit_of(WireFormat wire) {
  switch (wire) {
    case WireFormat::f32:
      return 0;
    case WireFormat::bf16:
      return 0x1p-8;
    case WireFormat::f16:
      return 0x1p-11;
    case WireFormat::int8:
      return 0.5 / 127;
  }
  return 0;
}

// How often what an addend adds to the sum is rounded on its way, at most.
int roundings(Algorithm algorithm, int ranks) {
  const int levels = std::bit_width(static_cast<unsigned>(ranks - 1));  // log2, rounded up
  switch (algorithm) {
    case Algorithm::direct:
      return 1;
    case Algorithm::star:
      return 2;
    case Algorithm::ring:
      return ranks;
    default:
      return levels + 2;  // up or across, before and after
  }
}

TEST_P(MessageRanks, RandomSumsHaveEqualBitsEverywhereAndSmallErrors) {
  const int ranks = GetParam();
  constexpr std::size_t n = 1001;
  std::vector<double> truth(n);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> addend = random_values(n, r);
    for (std::size_t i = 0; i < n; ++i) truth[i] += addend[i];
  }
  for (const Algorithm algorithm : kByMessages) {
    for (const WireFormat wire : all_wire_formats()) {
      const auto sums = on_all(ranks, [&](int r, SummingRank& rank) {
        return rank.sum(algorithm, wire_codec(SumType::f32, wire), bytes_of(random_values(n, r)));
      });
      for (const Bytes& sum : sums) EXPECT_TRUE(sum == sums[0]) << name(algorithm) << name(wire);
      // No partial sum is above `ranks`. A few per cent: rounded sums may be larger than true ones.
      const double bound =
          1.05 * ranks * (roundings(algorithm, ranks) * unit_of(wire) + ranks * 0x1p-24);
      const std::vector<float> sum = floats_of(sums[0]);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(sum[i], truth[i], bound) << name(algorithm) << " " << name(wire) << " " << i;
      }
    }
  }
}

TEST_P(MessageRanks, SentBytesAreAsForetold) {
  run_message_ranks(GetParam(), [](int r, Messages& messages) {
    SummingRank rank(messages);
    for (const Algorithm algorithm : kByMessages) {
      for (const WireCodec* codec : all_codecs()) {
        for (const std::size_t n : kSizes) {
          const std::uint64_t before = messages.sent_bytes();
          rank.sum(algorithm, *codec, exact_values(*codec, n, 1));
          EXPECT_EQ(messages.sent_bytes() - before,
                    sent_bytes_by(algorithm, *codec, n, r, messages.size()))
              << name(algorithm) << ", " << codec_text(*codec) << ", " << n;
        }
      }
    }
  });
}

TEST(MessageSums, SentBytesByTheFormulasOfTheLiterature) {
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  constexpr std::size_t n = 840;  // divisible by all of 1 … 8
  constexpr std::uint64_t w = 4 * n;
  for (int p = 1; p <= 8; ++p) {
    const auto ranks = static_cast<std::uint64_t>(p);
    std::uint64_t in_star = 0, in_tree = 0;
    for (int r = 0; r < p; ++r) {
      const auto of = [&](Algorithm algorithm) { return sent_bytes_by(algorithm, codec, n, r, p); };
      EXPECT_EQ(of(Algorithm::direct), w * (ranks - 1));
      EXPECT_EQ(of(Algorithm::ring), 2 * w * (ranks - 1) / ranks);
      if (p > 1) {
        EXPECT_EQ(of(Algorithm::star), r == 0 ? w * (ranks - 1) : w);
      }
      in_star += of(Algorithm::star);
      in_tree += of(Algorithm::tree);
      if (!std::has_single_bit(ranks)) continue;
      const auto rounds = static_cast<std::uint64_t>(std::countr_zero(ranks));
      EXPECT_EQ(of(Algorithm::recdbl), w * rounds);
      EXPECT_EQ(of(Algorithm::rabenseifner), 2 * w * (ranks - 1) / ranks);
      EXPECT_LE(of(Algorithm::tree), w * std::max<std::uint64_t>(rounds, 1));
    }
    // Each rank's addend goes up once, and the sum comes down to it once.
    EXPECT_EQ(in_star, 2 * w * (ranks - 1));
    EXPECT_EQ(in_tree, 2 * w * (ranks - 1));
  }
}

TEST(MessageSums, SlicesAreWholeBlocksAndCoverAll) {
  for (const std::size_t block : {std::size_t{1}, std::size_t{32}}) {
    for (const std::size_t n : kSizes) {
      for (int members = 1; members <= 8; ++members) {
        std::size_t at = 0, least = n, most = 0;
        for (int m = 0; m < members; ++m) {
          const Slice slice = slice_of(n, block, m, members);
          EXPECT_EQ(slice.begin, at);
          EXPECT_TRUE(slice.begin % block == 0 || slice.size() == 0);
          at = slice.end;
          least = std::min(least, slice.size());
          most = std::max(most, slice.size());
        }
        EXPECT_EQ(at, n);
        EXPECT_LE(most, least + 2 * block - 1) << n << " in " << members;  // the last may be short
        if (block == 1) {
          EXPECT_LE(most, least + 1);
        }
      }
    }
  }
}

Bytes part(const Bytes& held, const Slice& slice, std::size_t size) {
  const auto begin = held.begin();
  return {begin + static_cast<std::ptrdiff_t>(slice.begin * size),
          begin + static_cast<std::ptrdiff_t>(slice.end * size)};
}

struct Halves {
  void (*reduce_scatter)(const MessageSum&);
  void (*all_gather)(const MessageSum&);
};

void check_halves(Messages& messages, const Halves& halves) {
  SummingRank rank(messages);
  const int members = rank.team().size(), me = rank.team().me;
  for (const WireCodec* codec : all_codecs()) {
    const std::size_t size = held_bytes(codec->held());
    for (const std::size_t n : kSizes) {
      const Slice mine = slice_of(n, codec->block(), me, members);
      const Bytes sum = rank.run(halves.reduce_scatter, *codec, exact_values(*codec, n, me + 1));
      const Bytes want = exact_values(*codec, n, sum_of_factors(members));
      EXPECT_TRUE(part(sum, mine, size) == part(want, mine, size))
          << codec_text(*codec) << ", " << n;
      // Each member knows its own slice, and nothing else.
      Bytes held(n * size);
      std::ranges::copy(part(want, mine, size),
                        held.begin() + static_cast<std::ptrdiff_t>(mine.begin * size));
      EXPECT_TRUE(rank.run(halves.all_gather, *codec, held) == want)
          << codec_text(*codec) << ", " << n;
    }
  }
}

TEST_P(MessageRanks, ReduceScatterAndAllGatherAlone) {
  run_message_ranks(GetParam(), [](int, Messages& messages) {
    check_halves(messages, {reduce_scatter_direct, all_gather_direct});
  });
  run_message_ranks(GetParam(), [](int, Messages& messages) {
    check_halves(messages, {reduce_scatter_ring, all_gather_ring});
  });
}

TEST_P(MessageRanks, TheDirectReduceScatterSumsInRankOrder) {
  constexpr std::size_t n = 100;
  const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
  const int ranks = GetParam();
  const auto sums = on_all(ranks, [&](int r, SummingRank& rank) {
    return rank.run(reduce_scatter_direct, codec, bytes_of(random_values(n, r)));
  });
  const std::vector<float> want = in_rank_order(codec, ranks, n, 0);
  for (int r = 0; r < ranks; ++r) {
    const std::vector<float> sum = floats_of(sums[static_cast<std::size_t>(r)]);
    const Slice slice = slice_of(n, 1, r, ranks);
    for (std::size_t i = slice.begin; i < slice.end; ++i) EXPECT_EQ(sum[i], want[i]);
  }
}

TEST_P(MessageRanks, ExchangedAddendsAreWhereTheyAreLookedFor) {
  run_message_ranks(GetParam(), [](int r, Messages& messages) {
    SummingRank rank(messages);
    for (const std::size_t n : kSizes) {
      const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
      const Bytes mine = bytes_of(random_values(n, r));
      const auto exchange = [&](const MessageSum& sum) {
        exchange_addends(sum);
        for (int peer = 0; peer < sum.team.size(); ++peer) {
          const std::byte* at =
              peer == r ? sum.held
                        : sum.scratch.received.data() + static_cast<std::size_t>(peer) * 4 * n;
          const Bytes want = bytes_of(random_values(n, peer));
          EXPECT_TRUE(std::equal(want.begin(), want.end(), at)) << peer << " of " << n;
        }
      };
      rank.run(exchange, codec, mine);
    }
  });
}

// Two teams of one group at the same time, in orders of their own.
TEST(MessageSums, TeamsOfSomeRanks) {
  const std::vector<std::vector<int>> teams = {{6, 1, 4}, {0, 7, 2, 3, 5}};
  run_message_ranks(8, [&](int r, Messages& messages) {
    const auto& members = std::ranges::count(teams[0], r) > 0 ? teams[0] : teams[1];
    SummingRank rank(messages, members);
    EXPECT_EQ(members[static_cast<std::size_t>(rank.team().me)], r);
    const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
    int factors = 0;
    for (const int member : members) factors += member + 1;
    for (const Algorithm algorithm : kByMessages) {
      EXPECT_TRUE(rank.sum(algorithm, codec, exact_values(codec, 50, r + 1)) ==
                  exact_values(codec, 50, factors))
          << name(algorithm);
    }
    // The order is the team's.
    std::vector<float> want = random_values(50, members[0]);
    for (std::size_t m = 1; m < members.size(); ++m) {
      const std::vector<float> addend = random_values(50, members[m]);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += addend[i];
    }
    const Bytes mine = bytes_of(random_values(50, r));
    EXPECT_TRUE(rank.sum(Algorithm::direct, codec, mine) == bytes_of(want));
    EXPECT_TRUE(rank.sum(Algorithm::star, codec, mine) == bytes_of(want));
  });
}

TEST(MessageSums, ManyCallsOfOneScratchDoNotGrowIt) {
  run_message_ranks(5, [](int r, Messages& messages) {
    SummingRank rank(messages);
    for (int round = 0; round < 2; ++round) {
      for (const Algorithm algorithm : kByMessages) {
        for (const WireCodec* codec : all_codecs()) {
          std::size_t before = 0, after = 0;
          const auto sum = [&](const MessageSum& s) {
            before = s.scratch.image.capacity() + s.scratch.received.capacity();
            sum_by(algorithm, s);
            after = s.scratch.image.capacity() + s.scratch.received.capacity();
          };
          rank.run(sum, *codec, exact_values(*codec, 100, r));
          if (round > 0) {
            EXPECT_EQ(before, after) << name(algorithm);
          }
        }
      }
    }
  });
}

TEST(MessageSums, AnAlgorithmOfSharedMemoryIsNoneByMessages) {
  run_message_ranks(1, [](int, Messages& messages) {
    SummingRank rank(messages);
    const WireCodec& codec = wire_codec(SumType::f32, WireFormat::f32);
    EXPECT_THAT(error_of([&] { rank.sum(Algorithm::shm_oneshot, codec, {}); }),
                HasSubstr("an algorithm by messages"));
  });
}

}  // namespace
}  // namespace shardlm
