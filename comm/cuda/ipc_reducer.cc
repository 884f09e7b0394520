#include "comm/cuda/ipc_reducer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

// The label that ranks in step have in common: 3 bits of the kind, 13 of the layer plus one, 16 of
// the shape.
std::uint32_t label_of(Site site, const Tensor& addend) {
  const auto kind = static_cast<std::uint32_t>(site.kind);
  const auto layer = static_cast<std::uint32_t>(site.layer + 1) & 0x1fffU;
  const auto shape = static_cast<std::uint32_t>(addend.rows()) * 0x9e3779b1U ^
                     static_cast<std::uint32_t>(addend.cols()) * 0x85ebca77U;
  return kind << 29 | layer << 16 | shape >> 16;
}

Site site_of(std::uint32_t label) {
  return {static_cast<SiteKind>(label >> 29), static_cast<int>(label >> 16 & 0x1fffU) - 1};
}

std::uint32_t load(std::uint32_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

NormParams norm_params(const LayerNormParams& norm) {
  return {.weight = norm.weight.row(0), .bias = norm.bias.row(0), .epsilon = norm.epsilon};
}

// Rows [begin, end) of the update.
ResidualRows rows_of(const ResidualUpdate& update, const NormParams* norm, std::int64_t begin,
                     std::int64_t end) {
  ResidualRows rows{.residual = view(update.residual->row_range(begin, end)),
                    .bias = update.bias == nullptr ? nullptr : update.bias->row(0),
                    .norm = norm};
  if (norm != nullptr) rows.normed = view(update.normed->row_range(begin, end));
  return rows;
}

}  // namespace

IpcReducer::IpcReducer(int rank, IpcMemory memory, CudaBackend& backend, int n_blocks)
    : memory_(std::move(memory)),
      backend_(backend),
      report_memory_(sizeof(IpcReport)),
      report_(new (report_memory_.data()) IpcReport{}) {
  const auto size = static_cast<int>(memory_.base.size());
  check(0 <= rank && rank < size && size <= kIpcMaxRanks, "ipc: 1 to 16 ranks");
  check(0 < n_blocks && n_blocks <= kIpcMaxBlocks, "ipc: 1 to 32 blocks");
  check(memory_.bytes_each >= ipc_bytes(16), "ipc: a header and two slots");
  std::copy(memory_.base.begin(), memory_.base.end(), rank_.memory);
  rank_.rank = rank;
  rank_.size = size;
  rank_.slot_bytes = static_cast<std::int64_t>((memory_.bytes_each - kIpcSlots) / 32 * 16);
  rank_.report = report_;  // page-locked memory has one address for host and device
  rank_.n_blocks = n_blocks;
}

void IpcReducer::all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) {
  if (addend.elements() == 0) return;
  IpcLaunch launch{label_of(call.site, addend), false, log_ != nullptr};
  const std::int64_t row_bytes =
      ipc_slot_stride(addend.cols()) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t rows_at_once = rank_.slot_bytes / row_bytes;
  if (rows_at_once == 0) return sum_wide_rows(launch, addend, update);
  NormParams norm;
  if (update.norm != nullptr) norm = norm_params(*update.norm);
  for (std::int64_t begin = 0; begin < addend.rows(); begin += rows_at_once) {
    const std::int64_t end = std::min(addend.rows(), begin + rows_at_once);
    launch.last = end == addend.rows();
    ipc_all_reduce(backend_.stream().get(), rank_, launch, view(addend.row_range(begin, end)),
                   rows_of(update, update.norm == nullptr ? nullptr : &norm, begin, end));
  }
}

// A row above a slot: its sums first, a piece at a time, as the update of a row of zeros.
void IpcReducer::sum_wide_rows(IpcLaunch launch, const Tensor& addend,
                               const ResidualUpdate& update) {
  const std::int64_t cols_at_once = rank_.slot_bytes / static_cast<std::int64_t>(sizeof(float));
  const cudaStream_t stream = backend_.stream().get();
  const Tensor sum = backend_.allocate(addend.rows(), addend.cols());
  const auto row_bytes = static_cast<std::size_t>(sum.cols()) * sizeof(float);
  for (std::int64_t row = 0; row < addend.rows(); ++row) {
    check_cuda(cudaMemsetAsync(sum.row(row), 0, row_bytes, stream), "clearing memory");
    for (std::int64_t begin = 0; begin < addend.cols(); begin += cols_at_once) {
      const std::int64_t end = std::min(addend.cols(), begin + cols_at_once);
      launch.last = row + 1 == addend.rows() && end == addend.cols();
      const auto piece = [&](const Tensor& t) {
        return view(t.row_range(row, row + 1).columns(begin, end));
      };
      ipc_all_reduce(stream, rank_, launch, piece(addend), {.residual = piece(sum)});
    }
  }
  backend_.update_residual({&sum, 1}, update);
}

// ---- a call that does not end ----

bool IpcReducer::failed() {
  return std::any_of(report_->out_of_step, report_->out_of_step + rank_.size,
                     [](std::uint32_t& word) { return load(word) != 0; });
}

void IpcReducer::stop() noexcept {
  std::atomic_ref(report_->abort).store(1, std::memory_order_release);
}

void IpcReducer::explain(double limit_s) {
  const std::uint32_t number = load(report_->number);
  if (number == 0) return;
  const std::uint32_t label = load(report_->label);
  const Call call{Op::all_reduce, site_of(label), number};
  std::vector<int> missing, held_up;
  for (int r = 0; r < rank_.size; ++r) {
    if (load(report_->out_of_step[r]) != 0) {
      const std::string theirs = "all_reduce at " + site_text(site_of(load(report_->label_of[r])));
      const std::string mine = "all_reduce at " + site_text(call.site);
      fail_out_of_step(call, r, mine, theirs == mine ? theirs + " of another shape" : theirs);
    }
    const std::uint32_t state = load(report_->missing[r]);
    if (state != 0) (state == 1 ? missing : held_up).push_back(r);
  }
  fail_missing(call, missing.empty() ? held_up : missing, limit_s);
}

void IpcReducer::close(Communicator& host) {
  host.barrier({SiteKind::step});  // the others may still read this rank's slots
}

// ---- records ----

// What must be added to the GPU's clock to get the host's. A reading is as good as the time between
// the host's two around it is short, and this thread may lose its core in any: the best counts.
std::int64_t IpcReducer::gpu_clock_lead_ns() {
  constexpr int kReadings = 8;
  const PinnedBlock memory(sizeof(std::uint64_t));
  auto* const gpu_ns = new (memory.data()) std::uint64_t{0};
  std::int64_t lead_ns = 0, shortest_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    const std::int64_t before_ns = steady_ns();
    read_gpu_clock(backend_.stream().get(), gpu_ns);
    backend_.synchronize();
    const std::int64_t after_ns = steady_ns();
    if (after_ns - before_ns >= shortest_ns) continue;
    shortest_ns = after_ns - before_ns;
    lead_ns = before_ns + shortest_ns / 2 - static_cast<std::int64_t>(*gpu_ns);
  }
  return lead_ns;
}

void IpcReducer::collect() {
  if (log_ == nullptr) return;
  const std::int64_t lead_ns = gpu_clock_lead_ns();
  // Not the whole header: the others write to its first part.
  constexpr std::size_t kBytes = sizeof(IpcHeader::Records);
  const PinnedBlock memory(kBytes);
  check_cuda(cudaMemcpyAsync(memory.data(), rank_.memory[rank_.rank] + offsetof(IpcHeader, records),
                             kBytes, cudaMemcpyDeviceToHost, backend_.stream().get()),
             "copying the times of the calls");
  backend_.synchronize();
  const auto& records = *reinterpret_cast<const IpcHeader::Records*>(memory.data());
  const std::uint32_t n_new = std::min(records.count - n_collected_, kIpcRecords);
  for (std::uint32_t i = records.count - n_new; i != records.count; ++i) {
    const IpcRecord& r = records.ring[i % kIpcRecords];
    // Written once, into this rank's slot, for all to read.
    log_->add_by_time({.call = {Op::all_reduce, site_of(r.label), r.number},
                       .algorithm = "ipc",
                       .bytes = r.bytes,
                       .wire_tx = static_cast<std::int64_t>(r.bytes),
                       .start = static_cast<std::int64_t>(r.entered_ns) + lead_ns,
                       .end = static_cast<std::int64_t>(r.ended_ns) + lead_ns,
                       .wait = static_cast<std::int64_t>(r.all_entered_ns - r.entered_ns),
                       .dtype = DType::f32});
  }
  n_collected_ = records.count;
}

}  // namespace shardlm::cuda
