// Numbers as the report writes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shardlm::report {

/// Rounded to so many significant digits from 0.001 up to a million: "54.1", "1,234", "0.031";
/// beyond with a power and a digit less: "3.1×10⁻⁶". Whole numbers below a million as they are. "–"
/// of what is not finite.
std::string number_text(double value, int digits = 3);
std::string number_text(const std::optional<double>& value, int digits = 3);  ///< "–" of none

std::string bytes_text(double bytes);                           ///< "64 B", "3 KiB", "1 MiB"
std::string time_text(double seconds);                          ///< "1.3 µs", "18.5 ms", "2.4 s"
std::string percent_text(const std::optional<double>& share);   ///< "93 %", "0.4 %" of 0.93, 0.004
std::string signed_percent_text(double change);                 ///< "+12 %", "−3.1 %"
std::string times_text(double factor);                          ///< "2.1×"
std::string count_text(double n, const std::string& singular);  ///< "1 rank", "3 ranks"
/// "a", "a and b", "a, b and c"
std::string list_text(const std::vector<std::string>& items);

}  // namespace shardlm::report
