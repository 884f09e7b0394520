// Ranks as processes of their own, by fork, so that real handles of device memory are exchanged. No
// call of CUDA may stand before it in the calling process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace shardlm::cuda {

/// body(rank, host communicator) in `size` processes; what it returns is that rank's exit code, an
/// exception's text goes to standard error. A failed expectation is exit code kTestFailed. Returns
/// the exit codes, or minus the signal's number.
inline constexpr int kTestFailed = 99;
using ForkedBody = std::function<int(int rank, std::unique_ptr<Communicator> host)>;
std::vector<int> fork_ranks(int size, const Deadlines& deadlines, const ForkedBody& body);

}  // namespace shardlm::cuda
