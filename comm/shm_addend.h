// A rank's addend in its slot of shared memory: where the all-reduces over it begin.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/backend.h"
#include "comm/shm_team.h"

namespace shardlm {

inline std::size_t elements_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.elements());
}

/// This rank's slot of the next phase as a tensor of this shape, if it fits and is not empty.
std::optional<Tensor> addend_in_next_slot(ShmTeam& team, const Call& next, std::int64_t rows,
                                          std::int64_t cols, DType dtype);

/// Brings the addend into this rank's slot of the current phase, unless it was written there in the
/// first place. Fails with ExitCode::bug if it does not fit.
void put_addend(ShmTeam& team, Backend& backend, const Tensor& addend);

/// The addend's elements, one row after another, in host memory.
void copy_elements(Backend& backend, const Tensor& addend, std::byte* to);

}  // namespace shardlm
