#include "tests/support/comm_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::attn_out, 3};

Tensor on_device(Backend& backend, std::int64_t rows, std::int64_t cols,
                 const std::vector<float>& values) {
  const Tensor tensor = backend.allocate(rows, cols);
  backend.upload(values, tensor);
  return tensor;
}

std::vector<float> on_host(Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  backend.download(tensor, values);
  return values;
}

std::vector<float> random_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(n);
  for (float& v : values) v = uniform(generator);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

struct RandomCase {
  std::size_t n = 0;
  std::int64_t cols = 0;
  std::vector<std::vector<float>> addends;  // of each rank
  std::vector<float> bias, residual, norm_weight, norm_bias;

  RandomCase(int ranks, std::int64_t rows, std::int64_t n_cols, std::uint64_t seed)
      : n(static_cast<std::size_t>(rows * n_cols)), cols(n_cols) {
    const auto width = static_cast<std::size_t>(cols);
    for (int r = 0; r < ranks; ++r) {
      addends.push_back(random_values(n, seed * 1000 + static_cast<std::uint64_t>(r)));
    }
    bias = random_values(width, seed + 1);
    residual = random_values(n, seed + 2);
    norm_weight = random_values(width, seed + 3);
    norm_bias = random_values(width, seed + 4);
  }

  // residual + (((a0 + a1) + a2 …) + bias), each operation rounded to float.
  std::vector<float> updated() const {
    std::vector<float> x = residual;
    for (std::size_t i = 0; i < n; ++i) {
      float sum = addends[0][i];
      for (std::size_t r = 1; r < addends.size(); ++r) sum += addends[r][i];
      x[i] += sum + bias[i % bias.size()];
    }
    return x;
  }

  // LayerNorm of x in double.
  std::vector<double> normed(const std::vector<float>& x, double epsilon) const {
    std::vector<double> y(n);
    const auto width = static_cast<std::size_t>(cols);
    for (std::size_t first = 0; first < n; first += width) {
      double mean = 0, variance = 0;
      for (std::size_t j = 0; j < width; ++j) mean += x[first + j] / static_cast<double>(width);
      for (std::size_t j = 0; j < width; ++j) {
        variance += std::pow(x[first + j] - mean, 2) / static_cast<double>(width);
      }
      for (std::size_t j = 0; j < width; ++j) {
        y[first + j] =
            (x[first + j] - mean) / std::sqrt(variance + epsilon) * norm_weight[j] + norm_bias[j];
      }
    }
    return y;
  }
};

void expect_same_on_all_ranks(Communicator& comm, const std::vector<float>& mine) {
  std::vector<std::vector<std::byte>> all;
  comm.gather(kSite, std::as_bytes(std::span(mine)), all, 0);
  if (comm.rank() != 0) return;
  for (std::size_t r = 1; r < all.size(); ++r) EXPECT_TRUE(all[r] == all[0]) << "rank " << r;
}

// The message of a rank in gather: its length and bytes tell the rank.
std::vector<std::byte> message_of(int rank, std::size_t bytes) {
  std::vector<std::byte> message(bytes + static_cast<std::size_t>(rank) * 7);
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(rank) * 11);
  }
  return message;
}

}  // namespace

void check_exact_sums(Communicator& comm, Backend& backend, std::int64_t rows, std::int64_t cols) {
  const auto n = static_cast<std::size_t>(rows * cols);
  std::vector<float> addend(n), expected(n);
  const auto value = [](std::size_t i) { return static_cast<float>(i % 97) - 48; };
  const int ranks = comm.size();
  for (std::size_t i = 0; i < n; ++i) {
    addend[i] = static_cast<float>(comm.rank() + 1) * value(i);
    expected[i] = 0.5F + static_cast<float>(ranks * (ranks + 1) / 2) * value(i);
  }
  Tensor residual = on_device(backend, rows, cols, std::vector<float>(n, 0.5F));
  ResidualUpdate update;
  update.residual = &residual;
  comm.all_reduce(kSite, on_device(backend, rows, cols, addend), update);
  EXPECT_EQ(on_host(backend, residual), expected) << rows << " x " << cols;
}

void check_rank_order(Communicator& comm, Backend& backend, std::int64_t rows, std::int64_t cols,
                      std::uint64_t seed) {
  const RandomCase c(comm.size(), rows, cols, seed);
  const std::vector<float>& mine = c.addends[static_cast<std::size_t>(comm.rank())];
  const Tensor addend = on_device(backend, rows, cols, mine);
  const Tensor bias = on_device(backend, 1, cols, c.bias);
  const LayerNormParams norm{on_device(backend, 1, cols, c.norm_weight),
                             on_device(backend, 1, cols, c.norm_bias), 1e-5F};
  const std::vector<float> expected = c.updated();

  Tensor plain = on_device(backend, rows, cols, c.residual);
  comm.all_reduce(kSite, addend, {&bias, &plain, nullptr, nullptr});
  EXPECT_TRUE(same_bits(on_host(backend, plain), expected)) << rows << " x " << cols;

  Tensor fused = on_device(backend, rows, cols, c.residual);
  Tensor normed = backend.allocate(rows, cols);
  comm.all_reduce(kSite, addend, {&bias, &fused, &norm, &normed});
  EXPECT_TRUE(same_bits(on_host(backend, fused), expected)) << rows << " x " << cols;

  const Tensor normed_after = backend.allocate(rows, cols);
  backend.layer_norm(plain, norm, normed_after);
  const std::vector<float> y = on_host(backend, normed);
  EXPECT_TRUE(same_bits(y, on_host(backend, normed_after))) << rows << " x " << cols;
  const std::vector<double> formula = c.normed(expected, 1e-5);
  // Values of LayerNorm are below 1 + sqrt(cols); a few roundings of the largest of them.
  const double tolerance = 16 * 0x1p-23 * (1 + std::sqrt(static_cast<double>(cols)));
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], formula[i], tolerance) << i;
  expect_same_on_all_ranks(comm, y);
}

void check_messages(Communicator& comm, std::size_t bytes, int root) {
  const std::vector<std::byte> expected = message_of(root, bytes);
  std::vector<std::byte> message{std::byte{1}};
  if (comm.rank() == root) message = expected;
  comm.broadcast({SiteKind::step, -1}, message, root);
  EXPECT_TRUE(message == expected) << bytes << " bytes from " << root;

  std::vector<std::vector<std::byte>> all;
  comm.gather({SiteKind::lm_head, -1}, message_of(comm.rank(), bytes), all, root);
  if (comm.rank() != root) {
    EXPECT_TRUE(all.empty());
    return;
  }
  ASSERT_EQ(all.size(), static_cast<std::size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) {
    EXPECT_TRUE(all[static_cast<std::size_t>(r)] == message_of(r, bytes))
        << bytes << " bytes from " << r;
  }
}

void check_mixed_calls(Communicator& comm, Backend& backend, int calls, std::uint64_t seed,
                       std::size_t largest_message) {
  std::mt19937_64 generator(seed);
  const auto below = [&generator](std::size_t n) { return generator() % n; };
  for (int i = 0; i < calls; ++i) {
    const auto op = below(8);
    const auto rows = static_cast<std::int64_t>(below(4));
    const auto cols = static_cast<std::int64_t>(below(40) + 1);
    // Mostly small, now and then large.
    const std::size_t bytes = below(10) == 0 ? below(largest_message + 1) : below(64);
    const int root = static_cast<int>(below(static_cast<std::size_t>(comm.size())));
    if (op < 4) check_exact_sums(comm, backend, rows, cols);
    if (op == 4 || op == 5) check_messages(comm, bytes, root);
    if (op == 6) {
      std::vector<std::byte> message = message_of(0, comm.rank() == root ? bytes : 0);
      comm.broadcast({SiteKind::step, -1}, message, root);
      EXPECT_EQ(message.size(), bytes);
    }
    if (op == 7) comm.barrier({SiteKind::dump, -1});
  }
}

}  // namespace shardlm
