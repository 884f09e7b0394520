// The network of an emulated cluster where the kernel cannot delay packets (scripts/netns-cluster):
// carries IPv4 packets between one TUN device a host, each in its own network namespace.
//
//   netns_relay DEVICE MTU DELAY_US RATE_MBIT NAMESPACE...
//
// A packet that leaves host h waits for those before it (each takes bits / rate; 0 Mbit/s: no
// time), then takes the delay. The last byte of an address is the host's number, from 1, and
// NAMESPACE (a path such as /proc/71/ns/net) h is host h's. Prints "ready" once the devices exist.
// "cut H" and "heal H" on standard input lose every packet from and to host H (from 0), and no
// longer.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A sleeper is woken later than this asks for, so the rest before a delivery is spent spinning.
constexpr auto kSpinBefore = 60us;
constexpr int kPacketsAtOnce = 64;
constexpr std::size_t kSmallestHeader = 20;  // of IPv4

struct Packet {
  Clock::time_point due;
  std::size_t to = 0;
  std::vector<char> bytes;
};

struct Host {
  int device = -1;
  bool cut = false;
  Clock::time_point free_at;   // when the last packet has left
  std::deque<Packet> leaving;  // in the order of their times
};

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// The descriptor stays with its device, whose namespace this process then leaves again.
int open_device(const std::string& name, const char* name_space) {
  const int space = open(name_space, O_RDONLY | O_CLOEXEC);
  if (space < 0) fail(name_space);
  if (setns(space, CLONE_NEWNET) != 0) fail(std::string("entering ") + name_space);
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("opening /dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(device, TUNSETIFF, &request) != 0) fail("making the device " + name);
  return device;
}

class Relay {
 public:
  Relay(const std::string& device, std::size_t mtu, double delay_us, double rate_mbit,
        const std::vector<const char*>& name_spaces)
      : buffer_(mtu + kSmallestHeader),
        delay_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double, std::micro>(delay_us))),
        ns_per_byte_(rate_mbit > 0 ? 8e3 / rate_mbit : 0) {
    for (const char* name_space : name_spaces) {
      hosts_.emplace_back().device = open_device(device, name_space);
    }
    for (const Host& host : hosts_) polled_.push_back({host.device, POLLIN, 0});
    polled_.push_back({STDIN_FILENO, POLLIN, 0});
  }

  /// Until standard input ends.
  void run() {
    while (true) {
      wait(deliver());
      for (std::size_t h = 0; h < hosts_.size(); ++h) {
        if ((polled_[h].revents & POLLIN) != 0) take_from(h);
      }
      if (polled_.back().revents != 0 && !read_commands()) return;
    }
  }

 private:
  // Sends what is due; says when the next packet is.
  std::optional<Clock::time_point> deliver() {
    std::optional<Clock::time_point> next;
    for (Host& from : hosts_) {
      while (!from.leaving.empty()) {
        Packet& packet = from.leaving.front();
        if (packet.due > Clock::now()) {
          next = std::min(next.value_or(packet.due), packet.due);
          break;
        }
        const Host& to = hosts_[packet.to];
        // A device that is full loses the packet, as a switch does: TCP sends it again.
        if (!from.cut && !to.cut &&
            write(to.device, packet.bytes.data(), packet.bytes.size()) < 0 && errno != EAGAIN &&
            errno != ENOBUFS && errno != EIO) {
          fail("writing to a device");
        }
        from.leaving.pop_front();
      }
    }
    return next;
  }

  void wait(std::optional<Clock::time_point> next) {
    timespec pause{};
    if (next) {
      const auto sleep = std::chrono::nanoseconds(*next - Clock::now() - kSpinBefore).count();
      if (sleep > 0) pause = {sleep / 1'000'000'000, sleep % 1'000'000'000};
    }
    if (ppoll(polled_.data(), polled_.size(), next ? &pause : nullptr, nullptr) < 0 &&
        errno != EINTR) {
      fail("waiting for packets");
    }
  }

  void take_from(std::size_t h) {
    Host& host = hosts_[h];
    for (int i = 0; i < kPacketsAtOnce; ++i) {
      const ssize_t got = read(host.device, buffer_.data(), buffer_.size());
      if (got <= 0) return;
      const auto bytes = static_cast<std::size_t>(got);
      if (bytes < kSmallestHeader || (buffer_[0] & 0xf0) >> 4 != 4) continue;
      const auto number = static_cast<std::size_t>(static_cast<unsigned char>(buffer_[19]));
      if (number < 1 || number > hosts_.size() || number - 1 == h) continue;
      const auto on_wire = std::chrono::nanoseconds(
          static_cast<std::int64_t>(ns_per_byte_ * static_cast<double>(bytes)));
      host.free_at = std::max(host.free_at, Clock::now()) + on_wire;
      host.leaving.push_back(
          {host.free_at + delay_, number - 1, {buffer_.begin(), buffer_.begin() + got}});
    }
  }

  // False: standard input has ended.
  bool read_commands() {
    std::array<char, 256> text{};
    const ssize_t got = read(STDIN_FILENO, text.data(), text.size());
    if (got <= 0) return false;
    commands_.append(text.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = commands_.find('\n')) != std::string::npos;) {
      std::istringstream line(commands_.substr(0, end));
      commands_.erase(0, end + 1);
      std::string word;
      std::size_t h = 0;
      if (!(line >> word >> h) || h >= hosts_.size() || (word != "cut" && word != "heal")) {
        throw std::runtime_error("unknown command: " + line.str());
      }
      hosts_[h].cut = word == "cut";
    }
    return true;
  }

  std::vector<char> buffer_;
  Clock::duration delay_;
  double ns_per_byte_;
  std::vector<Host> hosts_;
  std::vector<pollfd> polled_;
  std::string commands_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: netns_relay DEVICE MTU DELAY_US RATE_MBIT NAMESPACE...\n", stderr);
    return 2;
  }
  try {
    prctl(PR_SET_TIMERSLACK, 1);
    Relay relay(argv[1], std::stoul(argv[2]), std::stod(argv[3]), std::stod(argv[4]),
                {argv + 5, argv + argc});
    std::puts("ready");
    std::fflush(stdout);
    relay.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: netns_relay: %s\n", error.what());
    return 1;
  }
  return 0;
}
