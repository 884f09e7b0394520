// All-reduce algorithms against the MPI library's, sample by sample in one job:
//   mpirun -n 2 all_reduce_bench [--sizes 8,3072,…] [--algorithms shm-oneshot,…] [--reps N]
//                                [--walk BYTES] [--gate]
// The time of a sample is the longest of the ranks' from a common start. With --gate it ends with
// 1 unless the best own algorithm takes at most 0.75 of the library's time at every size up to
// 64 KB, and 0.9 above.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "bench/all_reduce_contest.h"
#include "comm/message_reducer.h"
#include "comm/mpi_handles.h"
#include "comm/mpi_reducer.h"
#include "comm/mpi_world.h"
#include "comm/shm_oneshot.h"
#include "comm/shm_twoshot.h"

namespace shardlm {
namespace {

constexpr const char* kLibrary = "mpi";
constexpr std::size_t kSlotBytes = std::size_t{512} << 10;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Ranks of one node, which share a clock: each says when it came, and all start a little after
/// the last has come.
class SharedStart final : public StartLine {
 public:
  SharedStart(int rank, ShmSegments segments) : rank_(rank), segments_(std::move(segments)) {}

  void wait() override {
    ++round_;
    std::atomic_ref(place(rank_).came_ns[round_ % 2]).store(now_ns(), std::memory_order_relaxed);
    std::atomic_ref(place(rank_).round).store(round_, std::memory_order_release);
    std::int64_t start = 0;
    for (int r = 0; r < static_cast<int>(segments_.base.size()); ++r) {
      int looked = 0;
      while (std::atomic_ref(place(r).round).load(std::memory_order_acquire) < round_) {
        if (++looked > 2000) sched_yield();
      }
      start = std::max(
          start, std::atomic_ref(place(r).came_ns[round_ % 2]).load(std::memory_order_relaxed));
    }
    while (now_ns() < start + kDelay_ns) {
    }
  }

 private:
  static constexpr std::int64_t kDelay_ns = 1000;
  struct Place {
    std::uint64_t round;
    std::int64_t came_ns[2];  // a rank may be one round ahead of another that still reads
  };
  Place& place(int rank) { return *reinterpret_cast<Place*>(segments_.base[index(rank)]); }

  int rank_;
  ShmSegments segments_;
  std::uint64_t round_ = 0;
};

/// Ranks of several nodes: a dissemination barrier by messages.
class MessageStart final : public StartLine {
 public:
  MessageStart(MPI_Comm comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {}
  void wait() override {
    for (int distance = 1; distance < size_; distance *= 2) {
      check_mpi(
          MPI_Sendrecv(nullptr, 0, MPI_BYTE, (rank_ + distance) % size_, 0, nullptr, 0, MPI_BYTE,
                       (rank_ + size_ - distance) % size_, 0, comm_, MPI_STATUS_IGNORE),
          "MPI_Sendrecv");
    }
  }

 private:
  MPI_Comm comm_;
  int rank_, size_;
};

struct Options {
  std::vector<std::size_t> sizes{8,     64,     512,    1024,   3072,    6144,   16384,
                                 65536, 131072, 393216, 400000, 1048576, 4194304};
  std::vector<std::string> algorithms;
  ContestOptions contest;
  bool gate = false;
};

Contestant library_contestant(MPI_Comm comm) {
  const auto memory = std::make_shared<std::vector<float>>();
  return {kLibrary,
          [memory](std::size_t n) {
            memory->resize(n);
            return std::span<float>(*memory);
          },
          [comm](std::span<float> addend, std::span<float> sum) {
            check_mpi(MPI_Allreduce(addend.data(), sum.data(), static_cast<int>(sum.size()),
                                    MPI_FLOAT, MPI_SUM, comm),
                      "MPI_Allreduce");
          }};
}

/// Everything that the contestants stand on.
class Bench {
 public:
  Bench(const MpiWorld& world, const Options& options)
      : world_(world), options_(options), comm_(duplicate(world.handles().all)) {
    if (world.one_node()) {
      ShmOptions shm;
      shm.oversubscribed = world.oversubscribed();
      team_ = std::make_unique<ShmTeam>(
          world.node_rank(), world.share_memory(ShmTeam::segment_bytes(kSlotBytes)), shm);
      start_ = std::make_unique<SharedStart>(world.rank(), world.share_memory(128));
    } else {
      start_ = std::make_unique<MessageStart>(comm_, world.rank(), world.size());
    }
    add(library_contestant(comm_));
    if (team_) {
      add("shm-oneshot", std::make_shared<ShmOneShot>(*team_, *backend_));
      add("shm-oneshot-in-place", std::make_shared<ShmOneShot>(*team_, *backend_), true);
      add("shm-twoshot", std::make_shared<ShmTwoShot>(*team_, *backend_));
      add("shm-twoshot-in-place", std::make_shared<ShmTwoShot>(*team_, *backend_), true);
    }
    for (const Algorithm algorithm :
         {Algorithm::direct, Algorithm::recdbl, Algorithm::rabenseifner, Algorithm::ring}) {
      add(std::string(name(algorithm)),
          make_message_reducer(*messages_, *backend_, algorithm, WireFormat::f32));
    }
  }

  ~Bench() { MPI_Comm_free(&comm_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// True if the gate is passed.
  bool run() {
    print_header();
    bool passed = true;
    for (const std::size_t bytes : options_.sizes) passed &= run_size(bytes);
    return passed;
  }

 private:
  void add(std::string name, std::shared_ptr<AllReducer> reducer, bool in_place = false) {
    add(reducer_contestant(std::move(name), std::move(reducer), calls_, in_place));
  }

  void add(Contestant contestant) {
    const bool wanted = contestant.name == kLibrary || options_.algorithms.empty() ||
                        std::ranges::count(options_.algorithms, contestant.name) > 0;
    if (wanted) contestants_.push_back(std::move(contestant));
  }

  void print_header() const {
    if (world_.rank() != 0) return;
    fmt::print("# {}; {} ranks on {} cores of the node{}\n", mpi_library_version(), world_.size(),
               world_.core_share().node_cores, world_.oversubscribed() ? ", oversubscribed" : "");
    fmt::print(
        "# us: of the longest rank, from a common start; CI: of the median, 95 %; GB/s: algbw, "
        "busbw\n"
        "# op     algo                      bytes    count type  P | {:>8} {:>8} {:^19} {:>8} | "
        "{:>6} {:>6} | {:>6} | #wrong reps\n",
        "t_min", "t_p50", "[95% CI]", "t_p99", "algbw", "busbw", "of mpi");
  }

  Samples over_ranks(const Samples& mine) const {
    Samples all = mine;
    check_mpi(MPI_Allreduce(mine.ns.data(), all.ns.data(), static_cast<int>(mine.ns.size()),
                            MPI_DOUBLE, MPI_MAX, comm_),
              "MPI_Allreduce");
    check_mpi(MPI_Allreduce(&mine.wrong, &all.wrong, 1, MPI_UINT64_T, MPI_SUM, comm_),
              "MPI_Allreduce");
    return all;
  }

  bool run_size(std::size_t bytes) {
    const std::size_t n = bytes / sizeof(float);
    ContestOptions contest = options_.contest;
    // Long messages: fewer, so that a size takes seconds at most.
    constexpr std::size_t kBytesInAll = std::size_t{400} << 20;
    contest.repetitions = std::max(
        100, std::min<int>(contest.repetitions, static_cast<int>(kBytesInAll / (bytes + 1))));
    const std::vector<Samples> mine =
        run_contest(contestants_, n, world_.rank(), world_.size(), *start_, contest);
    double library = 0, best = 0;
    std::uint64_t wrong = 0;
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      const Samples all = over_ranks(mine[c]);
      const Summary times = summarise(all.ns);
      wrong += all.wrong;
      if (c == 0) library = times.median;
      const bool counts = c > 0 && !contestants_[c].name.ends_with("in-place");
      if (counts && (best == 0 || times.median < best)) best = times.median;
      print_row(contestants_[c].name, n, times, all.wrong, library);
    }
    const double limit = bytes <= 65536 ? 0.75 : 0.9;
    const bool passed = wrong == 0 && best <= limit * library;
    if (options_.gate && world_.rank() == 0) {
      fmt::print("gate   {:>8} bytes: {:.2f} of the library's time, at most {:.2f}: {}\n", bytes,
                 best / library, limit, passed ? "passed" : "MISSED");
    }
    return passed;
  }

  void print_row(const std::string& name, std::size_t n, const Summary& times, std::uint64_t wrong,
                 double library) const {
    if (world_.rank() != 0) return;
    const double algbw = static_cast<double>(n * sizeof(float)) / times.median;
    const double bus = algbw * 2 * (world_.size() - 1) / world_.size();
    fmt::print(
        " allred  {:<21} {:>9} {:>8} f32  {:>2} | {:>8.2f} {:>8.2f} [{:>8.2f},{:>8.2f}] {:>8} | "
        "{:>6.2f} {:>6.2f} | {:>6.2f} | {:>6} {}\n",
        name, n * sizeof(float), n, world_.size(), times.least / 1e3, times.median / 1e3,
        times.low / 1e3, times.high / 1e3,
        times.count < 2000 ? std::string("-") : fmt::format("{:.2f}", times.p99 / 1e3), algbw, bus,
        times.median / library, wrong, times.count);
    std::fflush(stdout);
  }

  const MpiWorld& world_;
  const Options& options_;
  MPI_Comm comm_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  std::unique_ptr<ShmTeam> team_;
  std::unique_ptr<Messages> messages_ = make_mpi_messages(world_, Deadlines());
  std::unique_ptr<StartLine> start_;
  std::vector<Contestant> contestants_;
  std::uint64_t calls_ = 0;
};

}  // namespace
}  // namespace shardlm

int main(int argc, char** argv) {
  using namespace shardlm;
  MpiWorld world(argc, argv);
  Options options;
  CLI::App app{"All-reduce algorithms against the MPI library's"};
  app.add_option("--sizes", options.sizes, "bytes")->delimiter(',');
  app.add_option("--algorithms", options.algorithms, "which (default: all)")->delimiter(',');
  app.add_option("--reps", options.contest.repetitions, "samples of each");
  app.add_option("--walk", options.contest.walk_bytes, "bytes read between two samples");
  app.add_option("--seed", options.contest.seed, "of the order of the samples");
  app.add_flag("--gate", options.gate, "end with 1 unless faster than the library as it should be");
  CLI11_PARSE(app, argc, argv);
  const bool passed = Bench(world, options).run();
  return options.gate && !passed ? 1 : 0;
}
