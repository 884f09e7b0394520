// Files that a reader never sees half of.
#pragma once

#include <filesystem>
#include <string>

namespace shardlm {

/// Writes the text beside the place and renames it there; makes the folders on the way.
/// Error(ExitCode::resources) that says `what` cannot be written.
void write_whole_file(const std::filesystem::path& path, const std::string& text,
                      const std::string& what);

}  // namespace shardlm
