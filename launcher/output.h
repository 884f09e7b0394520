// Results on standard output.
#pragma once

#include <iosfwd>

namespace shardlm {

/// Writes out what is buffered. Output that nobody takes (a full disk, a closed pipe) must not pass
/// for success: Error(resources).
void finish_output(std::ostream& out);

}  // namespace shardlm
