#include "tests/support/reducer_checks.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace shardlm {
namespace {

// The addend of `rank` at element i of call c.
template <class T>
T addend_value(int rank, std::size_t i, std::uint64_t call) {
  const auto small = static_cast<T>((i * 5 + call) % 97) - 48;
  const T scale = std::is_same_v<T, float> ? 1 : static_cast<T>(std::int64_t{1} << 50);
  return static_cast<T>(rank + 1) * small * scale + static_cast<T>(rank);
}

template <class T>
T sum_value(int ranks, std::size_t i, std::uint64_t call) {
  // The sum over r of (r + 1) v + r.
  const T pairs = static_cast<T>(ranks) * static_cast<T>(ranks + 1) / 2;
  return pairs * (addend_value<T>(0, i, call)) + pairs - static_cast<T>(ranks);
}

template <class T>
class Addend {
 public:
  Addend(AllReducer& reducer, const ReducerRank& rank, std::int64_t rows, std::int64_t cols,
         AddendPlace place) {
    constexpr DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::i64;
    const bool offered =
        place == AddendPlace::offered || (place == AddendPlace::mixed && rank.rank % 2 == 0);
    std::optional<Tensor> given;
    if (offered) {
      const Call next{Op::all_reduce, {SiteKind::attn_out, 3}, rank.calls + 1};
      given = reducer.addend(next, rows, cols, dtype);
    }
    if (given) {
      tensor_ = *given;
      return;
    }
    const std::int64_t width = place == AddendPlace::apart ? cols + 3 : cols;
    memory_.resize(static_cast<std::size_t>(rows * width) + 1);  // an address even for none
    tensor_ = Tensor::borrow(reinterpret_cast<std::byte*>(memory_.data()), rows, width, dtype)
                  .columns(width - cols, width);
  }

  const Tensor& tensor() const { return tensor_; }

  template <class Value>
  void fill(Value&& value) {
    for_each(tensor_, [&value](T& element, std::size_t i) { element = value(i); });
  }

  template <class Visit>
  static void for_each(const Tensor& tensor, Visit&& visit) {
    std::size_t i = 0;
    for (std::int64_t t = 0; t < tensor.rows(); ++t) {
      T* const row = reinterpret_cast<T*>(tensor.address(t));
      for (std::int64_t j = 0; j < tensor.cols(); ++j) visit(row[j], i++);
    }
  }

 private:
  std::vector<T> memory_;
  Tensor tensor_;
};

// What the caller of reduce() does: the sum of the tensors in their order.
template <class T>
std::vector<T> reduced(AllReducer& reducer, ReducerRank& rank, const Tensor& addend) {
  std::vector<T> sum(static_cast<std::size_t>(addend.elements()));
  bool first = true;
  for (const Tensor& part : reducer.reduce(rank.next_sum(), addend)) {
    EXPECT_EQ(part.rows(), addend.rows());
    EXPECT_EQ(part.cols(), addend.cols());
    EXPECT_EQ(part.dtype(), addend.dtype());
    Addend<T>::for_each(part, [&](const T& element, std::size_t i) {
      sum[i] = first ? element : static_cast<T>(sum[i] + element);
    });
    first = false;
  }
  EXPECT_FALSE(first) << "no addends";
  reducer.release();
  return sum;
}

template <class T>
void check_sums(AllReducer& reducer, ReducerRank& rank, std::int64_t rows, std::int64_t cols,
                AddendPlace place) {
  Addend<T> addend(reducer, rank, rows, cols, place);
  const std::uint64_t call = rank.calls + 1;
  addend.fill([&](std::size_t i) { return addend_value<T>(rank.rank, i, call); });
  const std::vector<T> sum = reduced<T>(reducer, rank, addend.tensor());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(sum[i], sum_value<T>(rank.size, i, call))
        << rows << " x " << cols << " at " << i << ", rank " << rank.rank << " of " << rank.size;
  }
}

}  // namespace

void check_reducer_sums(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                        std::int64_t cols, DType dtype, AddendPlace place) {
  if (dtype == DType::f32) {
    check_sums<float>(reducer, rank, rows, cols, place);
  } else {
    check_sums<std::int64_t>(reducer, rank, rows, cols, place);
  }
}

namespace {

std::vector<float> random_addend(int rank, std::uint64_t call, std::size_t n) {
  std::mt19937_64 random(call * 1000 + static_cast<std::uint64_t>(rank));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(n);
  for (float& x : values) x = uniform(random);
  return values;
}

// The reducer's sum of random addends; `expected`: that of a loop in T in rank order.
template <class T>
std::vector<float> sum_of_random(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                                 std::int64_t cols, AddendPlace place, std::vector<T>& expected) {
  const std::uint64_t call = rank.calls + 1;
  const auto n = static_cast<std::size_t>(rows * cols);
  expected.assign(n, 0);
  Addend<float> addend(reducer, rank, rows, cols, place);
  for (int r = 0; r < rank.size; ++r) {
    const std::vector<float> theirs = random_addend(r, call, n);
    if (r == rank.rank) addend.fill([&theirs](std::size_t i) { return theirs[i]; });
    for (std::size_t i = 0; i < n; ++i) {
      expected[i] = r == 0 ? static_cast<T>(theirs[i]) : expected[i] + static_cast<T>(theirs[i]);
    }
  }
  return reduced<float>(reducer, rank, addend.tensor());
}

}  // namespace

void check_reducer_order(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                         std::int64_t cols) {
  std::vector<float> expected;
  const std::vector<float> sum =
      sum_of_random(reducer, rank, rows, cols, AddendPlace::own, expected);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sum[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << rows << " x " << cols << " at " << i << ", rank " << rank.rank << " of " << rank.size;
  }
}

std::vector<float> check_reducer_rounding(AllReducer& reducer, ReducerRank& rank, std::int64_t rows,
                                          std::int64_t cols, double tolerance) {
  std::vector<double> expected;
  std::vector<float> sum = sum_of_random(reducer, rank, rows, cols, AddendPlace::mixed, expected);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(sum[i], expected[i], tolerance)
        << rows << " x " << cols << " at " << i << ", rank " << rank.rank << " of " << rank.size;
  }
  return sum;
}

}  // namespace shardlm
