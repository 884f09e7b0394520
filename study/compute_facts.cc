#include "study/compute_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "backend/cpu/read_bandwidth.h"
#include "comm/add_up.h"
#include "comm/ticks.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::load, -1};
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::int64_t kSide = 512;                // of a matrix: 1 MiB of float32
constexpr int kLeastPasses = 2, kMostPasses = 50;  // of a cell in a round

struct Work {
  std::int64_t rows;
  std::size_t bytes;  // of float32; other types hold the same elements
};
// Close together where shards may or may not fit a cache.
constexpr std::array kWorks = {Work{1, kMiB},       Work{1, 4 * kMiB},   Work{1, 8 * kMiB},
                               Work{1, 16 * kMiB},  Work{1, 32 * kMiB},  Work{1, 64 * kMiB},
                               Work{1, 128 * kMiB}, Work{8, kMiB},       Work{8, 8 * kMiB},
                               Work{8, 32 * kMiB},  Work{8, 128 * kMiB}, Work{128, kMiB},
                               Work{128, 8 * kMiB}, Work{128, 32 * kMiB}};
constexpr std::array kReads = {kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB};

double now_s() { return static_cast<double>(steady_ns()) * 1e-9; }

template <class T>
T told(Communicator& control, T value) {
  std::vector<std::byte> message(sizeof value);
  std::memcpy(message.data(), &value, sizeof value);
  control.broadcast(kSite, message, 0);
  std::memcpy(&value, message.data(), sizeof value);
  return value;
}

/// A thing to be timed: rank 0 alone while the others sleep, and the slowest of all.
struct Cell {
  std::function<void()> pass;
  std::vector<double> alone = {}, all = {};
  double alone_s() { return median(alone); }
  double all_s() { return all.empty() ? median(alone) : median(all); }
};

double timed(const std::function<void()>& pass) {
  const double start = now_s();
  pass();
  return now_s() - start;
}

double slowest_of_all(Communicator& control, double mine) {
  std::vector<std::vector<std::byte>> by_rank;
  control.gather(kSite, std::as_bytes(std::span(&mine, 1)), by_rank, 0);
  double slowest = mine;
  for (const auto& bytes : by_rank) {
    double theirs = 0;
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    slowest = std::max(slowest, theirs);
  }
  return slowest;
}

// A few passes alone, then as many together, so that a drift of the machine strikes both alike.
void time_round(Communicator& control, Cell& cell, double seconds) {
  cell.pass();  // what the cell before has left in the caches
  control.barrier(kSite);
  int passes = 0;
  if (control.rank() == 0) {
    const double start = now_s();
    for (; passes < kMostPasses && (passes < kLeastPasses || now_s() - start < seconds); ++passes)
      cell.alone.push_back(timed(cell.pass));
  }
  passes = told(control, passes);
  for (int i = 0; i < passes && control.size() > 1; ++i) {
    control.barrier(kSite);
    cell.all.push_back(slowest_of_all(control, timed(cell.pass)));
  }
}

// Round after round through all cells.
void time_all(Communicator& control, std::vector<Cell>& cells, double seconds) {
  constexpr int kRounds = 5;
  const double share = seconds / (2 * kRounds * static_cast<double>(cells.size()));
  for (int round = 0; round < kRounds; ++round) {
    for (Cell& cell : cells) time_round(control, cell, share);
  }
}

std::unique_ptr<WeightMatrix> make_matrix(Backend& backend) {
  return backend.make_matrix(
      {.in = kSide,
       .out = kSide,
       .rows_are_outputs = false,
       .read_row =
           [](std::int64_t row, std::span<float> to) {
             for (std::size_t j = 0; j < to.size(); ++j)
               to[j] = static_cast<float>((row + static_cast<std::int64_t>(j)) % 7) / 64;
           },
       .vocabulary = false,
       .done_with_rows = {}});
}

Tensor filled(Backend& backend, std::int64_t rows, std::int64_t cols) {
  Tensor x = backend.allocate_activation(rows, cols);
  const std::vector<float> ones(static_cast<std::size_t>(rows * cols), 0.5F);
  backend.upload(ones, x);
  return x;
}

/// What passes go through.
class Works {
 public:
  Works(Backend& backend, int threads, std::size_t most_bytes) : backend_(backend) {
    std::size_t most = 0;
    for (const Work& work : kWorks) {
      if (work.bytes > most_bytes) continue;
      works_.push_back(work);
      most = std::max(most, work.bytes / kMiB);
    }
    for (std::size_t i = 0; i < most; ++i) matrices_.push_back(make_matrix(backend));
    for (const std::size_t bytes : kReads) {
      if (bytes <= most_bytes) reads_.push_back(std::make_unique<ReadBandwidth>(bytes, threads));
    }
  }

  std::vector<Cell> cells() {
    std::vector<Cell> all;
    for (const auto& memory : reads_) all.push_back({[&memory] { memory->pass_s(); }});
    for (const Work& work : works_) {
      const Tensor x = filled(backend_, work.rows, kSide);
      const Tensor y = backend_.allocate(work.rows, kSide);
      all.push_back({[this, x, y, n = work.bytes / kMiB] {
        for (std::size_t i = 0; i < n; ++i) backend_.matmul(x, *matrices_[i], nullptr, y);
        backend_.synchronize();
      }});
    }
    return all;
  }

  void tell(std::vector<Cell>& cells, ComputeFacts& facts) const {
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      const double gb = static_cast<double>(reads_[i]->bytes()) * 1e-9;
      facts.read.push_back({reads_[i]->bytes(), gb / cells[i].alone_s(), gb / cells[i].all_s()});
    }
    for (std::size_t i = 0; i < works_.size(); ++i) {
      Cell& cell = cells[reads_.size() + i];
      const std::size_t n = works_[i].bytes / kMiB;
      const double gflop =
          2e-9 * static_cast<double>(works_[i].rows * kSide * kSide) * static_cast<double>(n);
      facts.matmul.push_back({works_[i].rows, matrices_[0]->bytes() * n, gflop / cell.alone_s(),
                              gflop / cell.all_s()});
    }
  }

 private:
  Backend& backend_;
  std::vector<Work> works_;
  std::vector<std::unique_ptr<WeightMatrix>> matrices_;
  std::vector<std::unique_ptr<ReadBandwidth>> reads_;
};

// Seconds of `work`, the least mean of several times ten.
double quick_s(const std::function<void()>& work) {
  constexpr int kTurns = 60, kTogether = 10;
  double least = 1e9;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double start = now_s();
    for (int i = 0; i < kTogether; ++i) work();
    least = std::min(least, (now_s() - start) / kTogether);
  }
  return least;
}

double residual_s(Backend& backend, std::int64_t cols) {
  Tensor addend = filled(backend, 1, cols), residual = backend.allocate(1, cols);
  Tensor normed = backend.allocate_activation(1, cols), bias = backend.allocate(1, cols);
  LayerNormParams norm{backend.allocate(1, cols), backend.allocate(1, cols)};
  const std::vector<float> small(static_cast<std::size_t>(cols), 1e-3F);
  for (const Tensor* t : {&residual, &bias, &norm.weight, &norm.bias}) backend.upload(small, *t);
  const std::array addends = {addend};
  return quick_s([&] {
    backend.update_residual(
        addends, {.bias = &bias, .residual = &residual, .norm = &norm, .normed = &normed});
    backend.synchronize();
  });
}

void measure_small(Backend& backend, ComputeFacts& facts) {
  constexpr std::int64_t kNarrow = 256, kWide = 4096;
  const double narrow = residual_s(backend, kNarrow), wide = residual_s(backend, kWide);
  facts.norm_s_per_element = std::max(0.0, (wide - narrow) / (kWide - kNarrow));
  facts.norm_row_s = std::max(0.0, narrow - facts.norm_s_per_element * kNarrow);
  const auto tiny = backend.make_matrix(
      {.in = 64,
       .out = 64,
       .rows_are_outputs = false,
       .read_row = [](std::int64_t, std::span<float> to) { std::fill(to.begin(), to.end(), 0.1F); },
       .vocabulary = false,
       .done_with_rows = {}});
  const Tensor x = filled(backend, 1, 64);
  Tensor y = backend.allocate(1, 64);
  facts.op_s = quick_s([&] { backend.matmul(x, *tiny, nullptr, y); });
}

std::string level_of(std::size_t bytes) {
  const auto size = [](int name) { return static_cast<std::size_t>(std::max(0L, sysconf(name))); };
  if (bytes <= size(_SC_LEVEL1_DCACHE_SIZE)) return "L1";
  if (bytes <= size(_SC_LEVEL2_CACHE_SIZE)) return "L2";
  if (bytes <= size(_SC_LEVEL3_CACHE_SIZE)) return "L3";
  return "RAM";
}

}  // namespace

ComputeFacts measure_compute(Communicator& control, Backend& backend, int threads,
                             int ranks_on_machine, const ComputeLimits& limits) {
  ComputeFacts facts;
  facts.threads = threads;
  facts.ranks_at_once = ranks_on_machine;
  Works works(backend, threads, limits.most_bytes);
  std::vector<Cell> cells = works.cells();
  time_all(control, cells, limits.seconds);
  if (control.rank() == 0) works.tell(cells, facts);
  if (control.rank() == 0) measure_small(backend, facts);
  control.barrier(kSite);
  return facts;
}

double meetings_s(Communicator& comm) {
  constexpr int kTurns = 300;
  std::vector<std::byte> plan(kPlanBytes), reply(kReplyBytes);
  std::vector<std::vector<std::byte>> all;
  std::vector<double> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double start = now_s();
    comm.broadcast({SiteKind::step}, plan, 0);
    comm.gather({SiteKind::lm_head}, reply, all, 0);
    times.push_back(now_s() - start);
  }
  return median(times);
}

std::vector<GammaClass> measure_gamma() {
  std::vector<GammaClass> classes;
  for (const std::size_t bytes :
       {std::size_t{8} << 10, std::size_t{128} << 10, kMiB, 4 * kMiB, 48 * kMiB}) {
    const std::size_t n = bytes / sizeof(float);
    std::vector<float> a(n, 1.0F), b(n, 0.5F);
    const Tensor to = Tensor::borrow(a.data(), 1, static_cast<std::int64_t>(n));
    const std::array addends = {to, Tensor::borrow(b.data(), 1, static_cast<std::int64_t>(n))};
    const int turns = static_cast<int>(std::clamp<std::size_t>((16 * kMiB) / bytes, 3, 200));
    double least = 1e9;
    for (int turn = 0; turn < turns; ++turn) {
      const double start = now_s();
      add_up(addends, to);
      least = std::min(least, now_s() - start);
    }
    classes.push_back({bytes, least / static_cast<double>(bytes), level_of(2 * bytes)});
  }
  return classes;
}

}  // namespace shardlm
