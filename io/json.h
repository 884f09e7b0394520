// Strict JSON for files that we did not write.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardlm {

/// Parses one JSON value of valid UTF-8, as RFC 8259 has it: no byte order mark, no NUL, no key
/// twice in one object, objects and arrays nested at most `max_depth` deep, nothing after the value
/// but white space. Whole numbers keep their type: is_number_unsigned() tells 1 from -1, 1.0, 1e3
/// and numbers above 2^64 - 1. Memory and time are linear in the text. `where` (a file) stands in
/// the messages. Throws Error(model_files).
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = 64);

/// parse_json() of a whole file; a file that cannot be read is an Error(model_files) too.
nlohmann::json read_json_file(const std::filesystem::path& path);

}  // namespace shardlm
