// Errors on demand: SHARDLM_FAKE_GPU_FAULT.
#pragma once

namespace shardlm::doubles {

/// The error number that this call of `function` is to return, 0 for none. Counts the calls from
/// the moment the variable changed.
int injected_fault(const char* function);

}  // namespace shardlm::doubles
