#include "comm/emulated_network.h"

#include <algorithm>
#include <utility>

#include "comm/borrowed_communicator.h"
#include "comm/ticks.h"
#include "comm/wait.h"

namespace shardlm {
namespace {

class MachineClock final : public NetworkClock {
 public:
  explicit MachineClock(bool oversubscribed) : waiter_(oversubscribed) {}
  std::int64_t now_ns() override { return steady_ns(); }
  void wait_until_ns(std::int64_t time) override {
    wait_until([time] { return steady_ns() >= time; }, waiter_, 0);
  }

 private:
  Waiter waiter_;
};

/// Holds a rank up at the end of each exchange.
class Delay {
 public:
  Delay(const Emulation& emulation, NetworkClock& clock) : emulation_(emulation), clock_(clock) {}

  void exchanged(const Call& call, const NetworkLoad& load) {
    const std::int64_t end = clock_.now_ns();
    part_ = call.number == call_ ? part_ + 1 : 0;
    call_ = call.number;
    const std::int64_t ns = network_ns(emulation_, load, call_, part_);
    if (ns > 0) clock_.wait_until_ns(end + ns);
  }

 private:
  Emulation emulation_;
  NetworkClock& clock_;
  std::uint64_t call_ = 0;
  std::uint32_t part_ = 0;
};

class EmulatedReducer final : public AllReducer {
 public:
  EmulatedReducer(std::unique_ptr<AllReducer> real, const Emulation& emulation, AllReduceLoad load,
                  NetworkClock& clock)
      : real_(std::move(real)), load_(std::move(load)), delay_(emulation, clock) {}

  std::size_t most_bytes() const override { return real_->most_bytes(); }
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override {
    return real_->addend(next, rows, cols, dtype);
  }
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override {
    const std::span<const Tensor> sum = real_->reduce(call, addend);
    delay_.exchanged(call,
                     load_(static_cast<std::size_t>(addend.elements()) * bits(addend.dtype()) / 8));
    return sum;
  }
  void release() override { real_->release(); }
  std::uint64_t sent_bytes() const override { return real_->sent_bytes(); }

 private:
  std::unique_ptr<AllReducer> real_;
  AllReduceLoad load_;
  Delay delay_;
};

class EmulatedMeetings final : public Meetings {
 public:
  EmulatedMeetings(std::unique_ptr<Meetings> real, const Emulation& emulation, int rank, int size,
                   NetworkClock& clock)
      : real_(std::move(real)), rank_(rank), others_(size - 1), delay_(emulation, clock) {}

  // The root's link carries the message once for each other rank; the last byte then travels on.
  void broadcast(const Call& call, std::vector<std::byte>& message, int root) override {
    real_->broadcast(call, message, root);
    delay_.exchanged(
        call, {rank_ == root ? 0.0 : rounds(), others_ * static_cast<double>(message.size())});
  }
  void gather(const Call& call, std::span<const std::byte> mine,
              std::vector<std::vector<std::byte>>& all, int root) override {
    real_->gather(call, mine, all, root);
    if (rank_ != root) {
      delay_.exchanged(call, {0, static_cast<double>(mine.size())});
      return;
    }
    double bytes = -static_cast<double>(mine.size());  // its own stays where it is
    for (const std::vector<std::byte>& theirs : all) bytes += static_cast<double>(theirs.size());
    delay_.exchanged(call, {rounds(), bytes});
  }
  void barrier(const Call& call) override {
    real_->barrier(call);
    delay_.exchanged(call, {rounds(), 0});
  }
  std::uint64_t sent_bytes() const override { return real_->sent_bytes(); }

 private:
  double rounds() const { return others_ > 0 ? 1 : 0; }

  std::unique_ptr<Meetings> real_;
  int rank_;
  double others_;
  Delay delay_;
};

class SlowRank final : public BorrowedCommunicator {
 public:
  SlowRank(Communicator& to, const Emulation& emulation, NetworkClock& clock)
      : BorrowedCommunicator(to), clock_(clock) {
    if (to.rank() == emulation.slow_rank)
      late_ns_ = static_cast<std::int64_t>(emulation.slow_us * 1e3);
  }
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override {
    come_late();
    BorrowedCommunicator::all_reduce(site, addend, update);
  }
  void start_all_reduce(Site site, const Tensor& addend) override {
    come_late();
    BorrowedCommunicator::start_all_reduce(site, addend);
  }
  /// A replayed pass would not be held up.
  bool recordable() const override { return false; }

 private:
  void come_late() {
    if (late_ns_ > 0) clock_.wait_until_ns(clock_.now_ns() + late_ns_);
  }

  NetworkClock& clock_;
  std::int64_t late_ns_ = 0;
};

}  // namespace

std::unique_ptr<NetworkClock> make_network_clock(bool oversubscribed) {
  return std::make_unique<MachineClock>(oversubscribed);
}

std::unique_ptr<AllReducer> emulate_network(std::unique_ptr<AllReducer> real,
                                            const Emulation& emulation, AllReduceLoad load,
                                            NetworkClock& clock) {
  return std::make_unique<EmulatedReducer>(std::move(real), emulation, std::move(load), clock);
}

std::unique_ptr<Meetings> emulate_network(std::unique_ptr<Meetings> real,
                                          const Emulation& emulation, int rank, int size,
                                          NetworkClock& clock) {
  return std::make_unique<EmulatedMeetings>(std::move(real), emulation, rank, size, clock);
}

std::unique_ptr<Communicator> emulate_slow_rank(Communicator& to, const Emulation& emulation,
                                                NetworkClock& clock) {
  return std::make_unique<SlowRank>(to, emulation, clock);
}

}  // namespace shardlm
