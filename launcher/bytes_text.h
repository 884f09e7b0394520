// Numbers of bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace shardlm {

/// Three digits or so, in powers of 1024: "512 bytes", "12.0 KiB", "1.25 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace shardlm
