// The one-shot all-reduce: every rank puts its addend into its own memory, tells the others, waits
// until they have told it, and sums all of them in rank order, so that every rank gets the same
// bits. Fused with what becomes of the sum.
//
// Memory. Each rank owns one block of device memory that the others map: IpcHeader, then two slots.
// Launches are numbered by an epoch that stands in the header, so that a recorded launch can be
// replayed; a launch uses the slot and the flags of its epoch's parity. A rank that fills the slot
// of epoch e + 2 has ended e + 1, in which all others told it that they had entered e + 1, hence
// ended e: nobody reads that slot any more.
//
// Blocks. Rows are dealt out to the thread blocks; block b waits only for block b of the others.
// So all ranks launch the same grid, always of the same size, and every block of it must be able to
// run while the others spin: at most kIpcMaxBlocks blocks, which is little enough for several ranks
// that share one GPU. Rows beyond a slot go in several launches.
//
// A rank that never comes. A kernel that waits looks now and then at IpcReport::abort in the host's
// memory; once that is set it reports whom it waits for, and ends. Until then a call that has
// failed does not end, so that the host never takes its result for good.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/residual.h"
#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

inline constexpr int kIpcMaxRanks = 16;
inline constexpr int kIpcMaxBlocks = 32;
inline constexpr std::uint32_t kIpcRecords = 1024;

/// Times of one launch by the GPU's clock, as seen by block 0.
struct IpcRecord {
  std::uint64_t entered_ns, all_entered_ns, ended_ns;
  std::uint64_t bytes;
  std::uint32_t label, number;  ///< number: of the all-reduce; it has one launch or more
};

/// First bytes of a rank's memory. Zero before the first launch of any rank.
struct IpcHeader {
  /// [parity][r][b]: block b of rank r has entered epoch (low half) with a label (high half).
  /// Written by rank r, all else by the owner.
  unsigned long long entered[2][kIpcMaxRanks][kIpcMaxBlocks];
  struct Block {
    std::uint32_t epoch;  ///< of the last launch
    std::uint32_t calls;  ///< all-reduces so far
  };
  Block blocks[kIpcMaxBlocks];
  std::uint32_t broken;  ///< epoch in which a wait was given up: later launches do nothing
  struct Records {
    std::uint32_t count;  ///< so far; the last kIpcRecords of them are here
    IpcRecord ring[kIpcRecords];
  };
  Records records;
};

/// In page-locked memory of the host.
struct IpcReport {
  std::uint32_t abort;   ///< set by the host: waiting kernels end
  std::uint32_t number;  ///< of the all-reduce that was given up; 0: none
  std::uint32_t label;   ///< of it
  /// Of whom a block waited for in vain. 1: rank r had not come to the call. 2: it had, but with
  /// other blocks only, so that it probably waits for somebody itself.
  std::uint32_t missing[kIpcMaxRanks];
  std::uint32_t out_of_step[kIpcMaxRanks];  ///< 1: rank r is in another call, labelled so:
  std::uint32_t label_of[kIpcMaxRanks];
};

/// What all launches of a rank have in common.
struct IpcRank {
  std::byte* memory[kIpcMaxRanks];  ///< of each rank, as this one maps it
  int rank, size;
  std::int64_t slot_bytes;  ///< multiple of 16
  IpcReport* report;        ///< at the address that the device uses
  int n_blocks;             ///< 1 to kIpcMaxBlocks
};

/// Of the launches of one all-reduce. Ranks in step have equal labels.
struct IpcLaunch {
  std::uint32_t label;
  bool last;   ///< the all-reduce ends with this launch
  bool timed;  ///< make an IpcRecord
};

/// Where the slots begin in a rank's memory.
inline constexpr std::size_t kIpcSlots = (sizeof(IpcHeader) + 127) / 128 * 128;

/// Floats from one row to the next in a slot: rows start at multiples of 16 bytes.
inline std::int64_t ipc_slot_stride(std::int64_t cols) { return (cols + 3) / 4 * 4; }

/// residual += sum of the ranks' addends + bias; then the norm; as update_residual(). `addend`
/// [T, n] float32, at least one row and one column, fits a slot.
void ipc_all_reduce(cudaStream_t stream, const IpcRank& rank, const IpcLaunch& launch,
                    const MatrixView& addend, const ResidualRows& update);

/// *to = the GPU's clock in nanoseconds, once the stream gets there. `to` may be in page-locked
/// memory.
void read_gpu_clock(cudaStream_t stream, std::uint64_t* to);

}  // namespace shardlm::cuda
