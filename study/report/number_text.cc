#include "study/report/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace shardlm::report {
namespace {

const char* const kNone = "–";

// "1234567" -> "1,234,567", of the digits before the point.
std::string grouped(const std::string& digits) {
  const std::size_t begin = digits.starts_with('-') ? 1 : 0;
  const std::size_t end = std::min(digits.find('.'), digits.size());
  std::string text = digits.substr(0, begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (i > begin && (end - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text + digits.substr(end);
}

// "3.1e-06" -> "3.1×10⁻⁶", "1e-05" -> "10⁻⁵".
std::string with_power(const std::string& text) {
  static const char* const kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const std::string digits = text.substr(0, e);
  std::string out = digits == "1" ? "10" : digits == "-1" ? "−10" : digits + "×10";
  const int power = std::stoi(text.substr(e + 1));
  if (power < 0) out += "⁻";
  for (const char c : std::to_string(std::abs(power))) out += kRaised[c - '0'];
  return out;
}

std::string with_unit(double value, const char* unit) { return number_text(value) + " " + unit; }

}  // namespace

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return kNone;
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (value == std::floor(value) && size < std::pow(10.0, std::max(digits, 6)))
    return grouped(fmt::format("{:.0f}", value));
  if (size >= 1e6 || size < 1e-3)
    return with_power(fmt::format("{:.{}e}", value, std::max(digits - 2, 0)));
  // The place of the first digit once it is rounded: 9.996 has that of 10.0.
  const double rounded = std::stod(fmt::format("{:.{}e}", size, digits - 1));
  const int first = static_cast<int>(std::floor(std::log10(rounded)));
  return grouped(fmt::format("{:.{}f}", value, std::max(digits - 1 - first, 0)));
}

std::string number_text(const std::optional<double>& value, int digits) {
  return value ? number_text(*value, digits) : kNone;
}

std::string bytes_text(double bytes) {
  constexpr double kKibi = 1024, kMebi = kKibi * kKibi;
  if (bytes >= kMebi) return with_unit(bytes / kMebi, "MiB");
  if (bytes >= kKibi) return with_unit(bytes / kKibi, "KiB");
  return with_unit(bytes, "B");
}

std::string time_text(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return with_unit(seconds, "s");
  if (size >= 1e-3) return with_unit(seconds * 1e3, "ms");
  return with_unit(seconds * 1e6, "µs");
}

std::string percent_text(const std::optional<double>& share) {
  if (!share || !std::isfinite(*share)) return kNone;
  if (*share == 0) return "0 %";
  const double percent = *share * 100, size = std::abs(percent);
  if (size != 0 && size < 0.05) return number_text(percent, 1) + " %";
  return fmt::format("{:.{}f} %", percent, size < 10 ? 1 : 0);
}

std::string signed_percent_text(double change) {
  if (!std::isfinite(change)) return kNone;
  return (change < 0 ? "−" : "+") + percent_text(std::abs(change));
}

std::string times_text(double factor) { return number_text(factor) + "×"; }

std::string count_text(double n, const std::string& singular) {
  const char* more = singular.ends_with("ch") ? "es" : "s";
  return number_text(n, 6) + " " + singular + (n == 1 ? "" : more);
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

}  // namespace shardlm::report
