#include "study/ping_pong.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "comm/ticks.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::load, -1};
constexpr int kSweeps = 9;
constexpr int kWarmUp = 4;
constexpr int kLeastTurns = 2, kMostTurns = 60;  // of a size in a sweep
constexpr int kAtOnce = 4;                       // there and back between two readings of the clock
constexpr double kShort_s = 5e-6;                // of messages that are timed several at once

class MessagePath final : public Path {
 public:
  MessagePath(Messages& messages, int peer) : messages_(messages), peer_(peer) {}
  void send(std::span<const std::byte> from) override {
    const Call call = next();
    messages_.send(call, from, peer_);
    messages_.finish(call);
  }
  void receive(std::span<std::byte> to) override {
    const Call call = next();
    messages_.receive(to, peer_);
    messages_.finish(call);
  }
  std::size_t most_bytes() const override { return std::size_t{1} << 30; }

 private:
  Call next() { return {Op::all_reduce, kSite, ++number_}; }
  Messages& messages_;
  int peer_;
  std::uint64_t number_ = 0;
};

class MemoryPath final : public Path {
 public:
  explicit MemoryPath(ShmTeam& pair) : team_(pair) { check(pair.size() == 2, "a team of two"); }
  void send(std::span<const std::byte> from) override {
    const Call call = next();
    team_.begin_phase(call);
    if (!from.empty()) std::memcpy(team_.slot(team_.rank()), from.data(), from.size());
    team_.arrive(message_label(call, from.size()));
    team_.finish();
  }
  void receive(std::span<std::byte> to) override {
    const Call call = next();
    const int peer = 1 - team_.rank();
    team_.begin_phase_without_slot(call);
    team_.wait_for(call, peer);
    if (!to.empty()) std::memcpy(to.data(), team_.slot(peer), to.size());
    team_.finish();
  }
  std::size_t most_bytes() const override { return team_.slot_bytes(); }

 private:
  Call next() { return {Op::broadcast, kSite, ++number_}; }
  ShmTeam& team_;
  std::uint64_t number_ = 0;
};

class EmulatedPath final : public Path {
 public:
  EmulatedPath(std::unique_ptr<Path> real, const Emulation& emulation, NetworkClock& clock)
      : real_(std::move(real)), emulation_(emulation), clock_(clock) {}
  void send(std::span<const std::byte> from) override { real_->send(from); }
  void receive(std::span<std::byte> to) override {
    real_->receive(to);
    const std::int64_t end = clock_.now_ns();
    clock_.wait_until_ns(end +
                         network_ns(emulation_, {1, static_cast<double>(to.size())}, ++number_, 0));
  }
  std::size_t most_bytes() const override { return real_->most_bytes(); }

 private:
  std::unique_ptr<Path> real_;
  Emulation emulation_;
  NetworkClock& clock_;
  std::uint64_t number_ = 0;
};

/// One rank's part of the exchange.
class Player {
 public:
  Player(Path& path, bool first, std::size_t most)
      : path_(path), first_(first), out_(most, std::byte{1}), in_(most) {}

  // Seconds one way, of `turns` there and back.
  double play(std::size_t bytes, int turns) {
    const std::span out = std::span<const std::byte>(out_).first(bytes);
    const std::span in = std::span(in_).first(bytes);
    const std::int64_t start = steady_ns();
    for (int i = 0; i < turns; ++i) {
      if (first_) path_.send(out);
      path_.receive(in);
      if (!first_) path_.send(out);
    }
    return static_cast<double>(steady_ns() - start) * 1e-9 / (2.0 * turns);
  }

  // What the first rank found goes to the other.
  std::vector<std::int32_t> told(std::vector<std::int32_t> values) {
    if (first_) {
      path_.send(std::as_bytes(std::span(values)));
    } else {
      path_.receive(std::as_writable_bytes(std::span(values)));
    }
    return values;
  }

 private:
  Path& path_;
  bool first_;
  std::vector<std::byte> out_, in_;
};

}  // namespace

std::unique_ptr<Path> make_message_path(Messages& messages, int peer) {
  return std::make_unique<MessagePath>(messages, peer);
}

std::unique_ptr<Path> make_memory_path(ShmTeam& pair) { return std::make_unique<MemoryPath>(pair); }

std::unique_ptr<Path> make_emulated_path(std::unique_ptr<Path> real, const Emulation& emulation,
                                         NetworkClock& clock) {
  return std::make_unique<EmulatedPath>(std::move(real), emulation, clock);
}

std::vector<std::size_t> ping_pong_sizes(std::size_t most) {
  std::vector<std::size_t> sizes = {0, 8, 16, 32};
  for (int i = 0;; ++i) {
    const auto bytes = static_cast<std::size_t>(std::lround(64 * std::pow(2.0, i / 2.0) / 4)) * 4;
    if (bytes > most) return sizes;
    sizes.push_back(bytes);
  }
}

std::vector<SizeTimes> ping_pong(Path& path, bool first, std::span<const std::size_t> sizes,
                                 double seconds) {
  std::size_t most = 64;
  for (const std::size_t bytes : sizes) most = std::max(most, bytes);
  check(most <= path.most_bytes(), "ping_pong: messages in one piece");
  Player player(path, first, most);
  const double share_s = seconds / static_cast<double>(sizes.size() * kSweeps);
  std::vector<std::int32_t> turns(sizes.size());
  std::vector<std::int32_t> at_once(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double one_way_s = player.play(sizes[i], kWarmUp);
    at_once[i] = one_way_s < kShort_s ? kAtOnce : 1;
    const double fitting = share_s / (2 * std::max(one_way_s, 1e-8) * at_once[i]);
    turns[i] = static_cast<std::int32_t>(
        std::clamp(fitting, static_cast<double>(kLeastTurns), static_cast<double>(kMostTurns)));
  }
  turns = player.told(std::move(turns));
  at_once = player.told(std::move(at_once));
  std::vector<SizeTimes> all;
  for (const std::size_t bytes : sizes) all.push_back({bytes, {}});
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      player.play(sizes[i], 1);  // what the size before has left in the caches
      for (int turn = 0; turn < turns[i]; ++turn)
        all[i].seconds.push_back(player.play(sizes[i], at_once[i]));
    }
  }
  return all;
}

double posting_s(Messages& messages, int root, std::span<const int> peers) {
  constexpr int kMost = 8, kTurns = 40;
  const bool is_root = messages.rank() == root;
  const auto n_peers = static_cast<int>(peers.size());
  std::array<std::vector<double>, kMost> times;
  std::array<std::byte, 8> word{};
  std::vector<std::array<std::byte, 8>> answers(static_cast<std::size_t>(n_peers + kMost));
  std::uint64_t number = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int k = 1; k <= kMost; ++k) {
      const Call call{Op::all_reduce, kSite, ++number};
      if (is_root) {
        const std::int64_t start = steady_ns();
        for (int i = 0; i < k; ++i)
          messages.send(call, word, peers[static_cast<std::size_t>(i % n_peers)]);
        times[static_cast<std::size_t>(k - 1)].push_back(static_cast<double>(steady_ns() - start) *
                                                         1e-9);
        for (int i = 0; i < std::min(k, n_peers); ++i)  // they have it all
          messages.receive(answers[static_cast<std::size_t>(i)],
                           peers[static_cast<std::size_t>(i)]);
        messages.finish(call);
        continue;
      }
      const auto me =
          static_cast<int>(std::find(peers.begin(), peers.end(), messages.rank()) - peers.begin());
      int mine = 0;
      for (int i = 0; i < k; ++i) mine += i % n_peers == me ? 1 : 0;
      for (int i = 0; i < mine; ++i) messages.receive(answers[static_cast<std::size_t>(i)], root);
      messages.finish(call);
      if (mine > 0) messages.send(call, word, root);
      messages.finish(call);
    }
  }
  if (!is_root) return 0;
  double k_mean = 0, t_mean = 0, kk = 0, kt = 0;
  for (int k = 1; k <= kMost; ++k) {
    k_mean += k / static_cast<double>(kMost);
    t_mean += median(times[static_cast<std::size_t>(k - 1)]) / kMost;
  }
  for (int k = 1; k <= kMost; ++k) {
    kk += (k - k_mean) * (k - k_mean);
    kt += (k - k_mean) * (median(times[static_cast<std::size_t>(k - 1)]) - t_mean);
  }
  return std::max(0.0, kt / kk);
}

double phase_s(ShmTeam& team) {
  constexpr int kTurns = 300, kTogether = 8;
  std::vector<double> times;
  std::uint64_t number = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t start = steady_ns();
    for (int i = 0; i < kTogether; ++i) {
      const Call call{Op::barrier, kSite, ++number};
      team.begin_phase(call);
      team.arrive(message_label(call, 0));
      team.wait_for_all(call);
      team.finish();
    }
    times.push_back(static_cast<double>(steady_ns() - start) * 1e-9 / kTogether);
  }
  return quantile(times, 0.05);
}

}  // namespace shardlm
