// Whole texts from streams and files.
#pragma once

#include <iosfwd>
#include <string>

namespace shardlm {

/// All bytes up to the end; Error(usage) naming `where` if they cannot be read (a folder opens,
/// and fails only then).
std::string read_all(std::istream& in, const std::string& where);

/// The bytes of a file; Error(usage) if it cannot be opened or read.
std::string read_file(const std::string& path);

}  // namespace shardlm
