// What every transport does with the addends once they are here.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace shardlm {

/// Backend::update_residual on rows [begin, end) of the residual stream; each addend holds just
/// those rows.
void update_residual_rows(Backend& backend, std::span<const Tensor> addends,
                          const ResidualUpdate& update, std::int64_t begin, std::int64_t end);

/// Fails with ExitCode::bug unless the update's tensors have the addend's shape.
void check_update(const Tensor& addend, const ResidualUpdate& update);

}  // namespace shardlm
