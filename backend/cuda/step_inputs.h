// What varies from step to step, brought to the device in one copy.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

/// The device's side of a step's sequences: what Sequences::device points to.
struct StagedSequences {
  AttentionBatch batch;
  bool one_row_each = false;    ///< the decode kernels serve
  std::int64_t max_tokens = 0;  ///< no row has more keys: the longest sequence's, rounded up to a
                                ///< power of two so that a recorded pass serves many steps
};

/// One set of buffers for the inputs of a step. The addresses on the device stay the same from
/// stage() to stage(), as a recorded pass needs it, until a step does not fit: moved() tells.
class StepInputs {
 public:
  /// Enqueues the copy and returns the step with its device views. `rows`: pads a step of one-row
  /// sequences to so many, with rows that belong to no sequence; 0: no padding.
  Step stage(const Stream& stream, const Step& step, std::int64_t rows = 0);

  /// True if the last stage() had to take new buffers.
  bool moved() const { return moved_; }

 private:
  void fill(const Step& step, std::int64_t rows);
  void add_sequence(const SequenceRows& sequence);
  void reserve(const Stream& stream, std::size_t bytes);
  template <class T>
  const T* put(const std::vector<T>& values);
  std::size_t bytes() const;

  PinnedBlock pinned_;
  DeviceBlock device_;
  Event copied_;
  bool moved_ = false;
  std::size_t at_ = 0;
  StagedSequences sequences_;
  // Kept for their capacity.
  std::vector<std::int32_t> ids_, positions_, logit_rows_, row_sequence_, blocks_;
  std::vector<SequenceSlot> slots_;
  std::vector<PrefillTile> tiles_;
};

/// The power of two from which on a pass is recorded anew: at least kDecodeKeys.
std::int64_t token_bucket(std::int64_t tokens);

}  // namespace shardlm::cuda
