// The known name that a mistyped one stands for.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace shardlm {

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other
/// (Damerau-Levenshtein in its "optimal string alignment" form: no part is edited twice).
std::size_t edit_distance(std::string_view from, std::string_view to);

struct NearestName {
  std::string name;    ///< empty if there are no names to choose from
  bool close = false;  ///< a likely slip of the finger, or an abbreviation
};

/// The known name with the smallest edit distance (the first of equals); a name that begins with
/// the whole of `wrong` counts as close.
NearestName nearest_name(std::string_view wrong, std::span<const std::string> known);

/// "did you mean --seed?" or "the nearest known name is --seed"; `prefix` ("--") is put before it.
std::string suggestion(std::string_view wrong, std::span<const std::string> known,
                       std::string_view prefix);

}  // namespace shardlm
