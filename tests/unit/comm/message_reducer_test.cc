#include "comm/message_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "tests/support/comm_checks.h"
#include "tests/support/thread_messages.h"
#include "tests/unit/comm/message_cases.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

constexpr Site kSite{SiteKind::mlp_out, 1};

// One rank with one reducer.
struct ReducingRank {
  ReducingRank(Messages& of, Algorithm algorithm, WireFormat wire)
      : messages(of), reducer(make_message_reducer(of, *backend, algorithm, wire)) {}

  std::span<const Tensor> reduce(const Tensor& addend) {
    return reducer->reduce({Op::all_reduce, kSite, ++calls}, addend);
  }

  Messages& messages;
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<AllReducer> reducer;
  std::uint64_t calls = 0;
};

// A tensor's elements, whatever their type.
Bytes contents(const Tensor& t) {
  const std::size_t row = static_cast<std::size_t>(t.cols()) * bits(t.dtype()) / 8;
  Bytes bytes(row * static_cast<std::size_t>(t.rows()));
  for (std::int64_t r = 0; r < t.rows() && row > 0; ++r) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(r) * row, t.address(r), row);
  }
  return bytes;
}

Tensor borrow(Bytes& bytes, std::int64_t rows, std::int64_t cols, DType dtype) {
  return Tensor::borrow(bytes.data(), rows, cols, dtype);
}

class Reducers : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Reducers, testing::Values(1, 2, 3, 5));

struct Shape {
  std::int64_t rows, cols;
};
constexpr Shape kShapes[] = {{0, 4}, {1, 1}, {3, 11}, {2, 384}};

void check_sums(Messages& messages, Algorithm algorithm, WireFormat wire, DType dtype) {
  ReducingRank rank(messages, algorithm, wire);
  const WireCodec& codec = wire_codec(dtype == DType::f32 ? SumType::f32 : SumType::fixed64, wire);
  const int ranks = messages.size();
  for (const Shape& shape : kShapes) {
    const auto n = static_cast<std::size_t>(shape.rows * shape.cols);
    Bytes mine = exact_values(codec, n, messages.rank() + 1);
    const Bytes before = mine;
    const auto sum = rank.reduce(borrow(mine, shape.rows, shape.cols, dtype));
    EXPECT_TRUE(mine == before);  // the caller's own memory is left alone
    if (algorithm == Algorithm::direct && codec.plain()) {
      ASSERT_EQ(sum.size(), static_cast<std::size_t>(ranks));
      for (int r = 0; r < ranks; ++r) {
        EXPECT_TRUE(contents(sum[static_cast<std::size_t>(r)]) == exact_values(codec, n, r + 1));
      }
    } else {
      ASSERT_EQ(sum.size(), 1U);
      EXPECT_TRUE(contents(sum[0]) == exact_values(codec, n, ranks * (ranks + 1) / 2))
          << name(algorithm) << " " << name(wire);
    }
    EXPECT_EQ(sum[0].rows(), shape.rows);
    EXPECT_EQ(sum[0].cols(), shape.cols);
    EXPECT_EQ(sum[0].dtype(), dtype);
    rank.reducer->release();
  }
}

TEST_P(Reducers, SumsOfFloats) {
  run_message_ranks(GetParam(), [](int, Messages& messages) {
    for (const Algorithm algorithm : kByMessages) {
      for (const WireFormat wire : all_wire_formats()) {
        check_sums(messages, algorithm, wire, DType::f32);
      }
    }
  });
}

TEST_P(Reducers, SumsOfFixedPoint) {
  run_message_ranks(GetParam(), [](int, Messages& messages) {
    for (const Algorithm algorithm : kByMessages) {
      check_sums(messages, algorithm, WireFormat::f32, DType::i64);
    }
  });
}

// Rank r writes r + 1 where it is told to, all at once or rows at a time.
TEST_P(Reducers, AddendsAreTakenWhereTheyWereOffered) {
  run_message_ranks(GetParam(), [](int r, Messages& messages) {
    const float total = static_cast<float>(messages.size() * (messages.size() + 1)) / 2;
    for (const Algorithm algorithm : kByMessages) {
      ReducingRank rank(messages, algorithm, WireFormat::f32);
      for (const std::int64_t rows_at_once : {6, 4, 1}) {
        const auto addend =
            rank.reducer->addend({Op::all_reduce, kSite, rank.calls + 1}, 6, 50, DType::f32);
        ASSERT_TRUE(addend);
        std::fill_n(addend->row(0), 300, static_cast<float>(r + 1));
        for (std::int64_t row = 0; row < 6; row += rows_at_once) {
          const Tensor part = addend->row_range(row, std::min<std::int64_t>(row + rows_at_once, 6));
          const auto sum = rank.reduce(part);
          const auto mine = algorithm == Algorithm::direct ? static_cast<std::size_t>(r) : 0;
          EXPECT_EQ(sum[mine].address(0), part.address(0)) << name(algorithm);  // nothing copied
          float found = 0;
          for (const Tensor& t : sum) found += t.row(part.rows() - 1)[49];
          EXPECT_EQ(found, total) << name(algorithm);
          rank.reducer->release();
        }
      }
    }
  });
}

TEST(MessageReducer, RowsMayStandApart) {
  run_message_ranks(2, [](int, Messages& messages) {
    for (const DType dtype : {DType::f32, DType::i64}) {
      ReducingRank rank(messages, Algorithm::ring, WireFormat::f32);
      const WireCodec& codec =
          wire_codec(dtype == DType::f32 ? SumType::f32 : SumType::fixed64, WireFormat::f32);
      Bytes wide = exact_values(codec, 3 * 10, messages.rank() + 1);
      const Tensor addend = borrow(wide, 3, 10, dtype).columns(2, 7);
      const auto sum = rank.reduce(addend);
      Bytes want = exact_values(codec, 3 * 10, 3);
      EXPECT_TRUE(contents(sum[0]) == contents(borrow(want, 3, 10, dtype).columns(2, 7)));
    }
  });
}

TEST(MessageReducer, CountsTheBytesOfItsMessages) {
  run_message_ranks(3, [](int r, Messages& messages) {
    ReducingRank rank(messages, Algorithm::tree, WireFormat::bf16);
    Bytes mine = bytes_of(random_values(100, r));
    rank.reduce(borrow(mine, 1, 100, DType::f32));
    EXPECT_EQ(rank.reducer->sent_bytes(), r == 0 ? 400U : 200U);
  });
}

TEST(MessageReducer, WhatItIsNotFor) {
  run_message_ranks(1, [](int, Messages& messages) {
    const auto backend = make_cpu_backend(1);
    EXPECT_THAT(error_of([&] {
                  make_message_reducer(messages, *backend, Algorithm::mpi, WireFormat::f32);
                }),
                HasSubstr("expected an algorithm by messages, found mpi"));
    ReducingRank rank(messages, Algorithm::ring, WireFormat::int8);
    Bytes fixed(8);
    EXPECT_THAT(error_of([&] { rank.reduce(borrow(fixed, 1, 1, DType::i64)); }),
                HasSubstr("the wire format of an exact sum"));
    EXPECT_THAT(error_of([&] { rank.reduce(borrow(fixed, 1, 2, DType::i32)); }),
                HasSubstr("the dtype of an addend"));
  });
}

}  // namespace
}  // namespace shardlm
