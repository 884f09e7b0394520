#include "bench/all_reduce_contest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "comm/sum_in_order.h"

namespace shardlm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Site kSite{SiteKind::attn_out, 0};

/// Runs a reducer on messages of any length.
class ReducerRun {
 public:
  ReducerRun(std::shared_ptr<AllReducer> reducer, std::uint64_t& calls, bool in_place)
      : reducer_(std::move(reducer)), calls_(calls), in_place_(in_place) {}

  std::span<float> addend(std::size_t n) {
    if (in_place_) {
      const auto given = reducer_->addend({Op::all_reduce, kSite, calls_ + 1}, 1,
                                          static_cast<std::int64_t>(n), DType::f32);
      if (given) return {given->row(0), n};
    }
    private_.resize(n);
    return private_;
  }

  void all_reduce(std::span<float> addend, std::span<float> sum) {
    const std::size_t at_once = std::min(addend.size(), reducer_->most_bytes() / sizeof(float));
    for (std::size_t at = 0; at < addend.size(); at += at_once) {
      const std::size_t count = std::min(at_once, addend.size() - at);
      const Tensor part = Tensor::borrow(addend.data() + at, 1, static_cast<std::int64_t>(count));
      const std::span<const Tensor> addends =
          reducer_->reduce({Op::all_reduce, kSite, ++calls_}, part);
      pieces_.clear();
      for (const Tensor& t : addends) pieces_.push_back(t.address(0));
      sum_in_order(pieces_, SumType::f32, count, reinterpret_cast<std::byte*>(sum.data() + at));
      reducer_->release();
    }
  }

 private:
  std::shared_ptr<AllReducer> reducer_;
  std::uint64_t& calls_;
  bool in_place_;
  std::vector<float> private_;
  std::vector<const std::byte*> pieces_;
};

// Whole numbers, of which every sum of a few hundred ranks' is exact in float32 (and, up to 8
// ranks, each is in bfloat16). Each sample has its own, so that stale data is wrong data.
float addend_value(std::size_t i, int rank, std::size_t sample) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 5 + sample) % 32);
}

class Contest {
 public:
  Contest(std::size_t n, int rank, int ranks, StartLine& start, const ContestOptions& options)
      : rank_(rank),
        ranks_(ranks),
        start_(start),
        sum_(n),
        walk_(options.walk_bytes / sizeof(float)) {}

  /// The time in ns; wrong: the sum is not what it should be.
  double sample(const Contestant& contestant, std::size_t number, bool& wrong) {
    const std::span<float> addend = contestant.addend(sum_.size());
    for (std::size_t i = 0; i < addend.size(); ++i) addend[i] = addend_value(i, rank_, number);
    walked_ = std::accumulate(walk_.begin(), walk_.end(), walked_);
    start_.wait();
    const Clock::time_point begin = Clock::now();
    contestant.all_reduce(addend, sum_);
    const Clock::time_point end = Clock::now();
    wrong = !right(number);
    return std::chrono::duration<double, std::nano>(end - begin).count();
  }

 private:
  bool right(std::size_t number) const {
    bool right = true;
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      float expected = 0;
      for (int r = 0; r < ranks_; ++r) expected += addend_value(i, r, number);
      right = right && sum_[i] == expected;
    }
    return right;
  }

  int rank_, ranks_;
  StartLine& start_;
  std::vector<float> sum_;
  std::vector<float> walk_;
  float walked_ = 0;
};

}  // namespace

Contestant reducer_contestant(std::string name, std::shared_ptr<AllReducer> reducer,
                              std::uint64_t& calls, bool in_place) {
  const auto run = std::make_shared<ReducerRun>(std::move(reducer), calls, in_place);
  return {std::move(name), [run](std::size_t n) { return run->addend(n); },
          [run](std::span<float> addend, std::span<float> sum) { run->all_reduce(addend, sum); }};
}

std::vector<Samples> run_contest(std::span<const Contestant> contestants, std::size_t n, int rank,
                                 int ranks, StartLine& start, const ContestOptions& options) {
  Contest contest(n, rank, ranks, start, options);
  std::vector<Samples> all(contestants.size());
  std::vector<std::size_t> order(contestants.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(options.seed + n);  // the same order on all ranks
  const int warm_up = std::max(20, options.repetitions / 20);
  std::size_t number = 0;
  for (int i = -warm_up; i < options.repetitions; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t c : order) {
      bool wrong = false;
      const double ns = contest.sample(contestants[c], ++number, wrong);
      all[c].wrong += wrong ? 1 : 0;
      if (i >= 0) all[c].ns.push_back(ns);
    }
  }
  return all;
}

Summary summarise(std::vector<double> times) {
  std::ranges::sort(times);
  const auto count = static_cast<double>(times.size());
  const auto at = [&times, count](double place) {
    return times[static_cast<std::size_t>(std::clamp(place, 0.0, count - 1))];
  };
  const double half_width = 0.98 * std::sqrt(count);  // of order statistics: no normality assumed
  return {times.front(),    at(count / 2), at(count / 2 - half_width), at(count / 2 + half_width),
          at(0.99 * count), times.size()};
}

}  // namespace shardlm
