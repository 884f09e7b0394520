// The part of {fmt} that the project's sources use, for scripts/gpu-check: a GPU machine may lack
// the library. A replacement field that is not of this part does not compile.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace fmt {
namespace detail {

/// "{}", "{:g}", "{:x}", "{:02x}": nothing else is known.
struct Spec {
  char presentation = 0;  ///< 'g', 'x' or none
  int width = 0;          ///< filled with zeros
};

/// Reads what stands between "{" and "}"; `known` turns false where it is something else.
constexpr Spec parse_spec(std::string_view text, bool& known) {
  Spec spec;
  if (text.empty()) return spec;
  known = known && text[0] == ':' && text.size() > 1;
  text.remove_prefix(1);
  if (text.size() == 3 && text[0] == '0' && text[1] >= '1' && text[1] <= '9') {
    spec.width = text[1] - '0';
    text.remove_prefix(2);
  }
  known = known && text.size() == 1 && (text[0] == 'x' || (text[0] == 'g' && spec.width == 0));
  if (known) spec.presentation = text[0];
  return spec;
}

/// Calls field(spec) and literal(text) in the order of a format string; false if it is malformed.
template <class Field, class Literal>
constexpr bool walk(std::string_view text, Field&& field, Literal&& literal) {
  while (!text.empty()) {
    const std::size_t brace = text.find_first_of("{}");
    if (brace == std::string_view::npos) {
      literal(text);
      return true;
    }
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {  // "{{", "}}"
      literal(text.substr(0, brace + 1));
      text.remove_prefix(brace + 2);
      continue;
    }
    const std::size_t end = text.find('}', brace);
    if (text[brace] == '}' || end == std::string_view::npos) return false;
    literal(text.substr(0, brace));
    bool known = true;
    const Spec spec = parse_spec(text.substr(brace + 1, end - brace - 1), known);
    if (!known) return false;
    field(spec);
    text.remove_prefix(end + 1);
  }
  return true;
}

constexpr bool valid(std::string_view text, std::size_t n_arguments) {
  std::size_t n_fields = 0;
  const bool known = walk(
      text, [&](const Spec&) { ++n_fields; }, [](std::string_view) {});
  return known && n_fields == n_arguments;
}

template <class T>
void append_number(std::string& to, T value, const Spec& spec) {
  char text[64];
  char* end = text + sizeof text;
  if constexpr (std::is_floating_point_v<T>) {
    if (spec.presentation == 'g') {
      to.append(text, static_cast<std::size_t>(
                          std::snprintf(text, sizeof text, "%g", static_cast<double>(value))));
      return;
    }
    end = std::to_chars(text, end, value).ptr;
  } else {
    end = std::to_chars(text, end, value, spec.presentation == 'x' ? 16 : 10).ptr;
  }
  const auto length = static_cast<std::size_t>(end - text);
  const auto width = static_cast<std::size_t>(spec.width);
  if (length < width) to.append(width - length, '0');
  to.append(text, length);
}

template <class T>
void append(std::string& to, const T& value, const Spec& spec) {
  if constexpr (std::is_same_v<T, bool>) {
    to += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    to += value;
  } else if constexpr (std::is_integral_v<T>) {
    // Bytes are numbers, not characters.
    append_number<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(to, value,
                                                                                        spec);
  } else if constexpr (std::is_floating_point_v<T>) {
    append_number(to, value, spec);
  } else {
    to += std::string_view(value);
  }
}

}  // namespace detail

/// A format string, checked by the compiler.
template <class... Args>
class FormatString {
 public:
  consteval FormatString(const char* text) : text_(text) {  // implicit, as in {fmt}
    if (!detail::valid(text_, sizeof...(Args))) throw "a format string outside of this subset";
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

template <class... Args>
std::string format(FormatString<std::type_identity_t<Args>...> format_string, const Args&... args) {
  std::string to;
  std::size_t next = 0;
  detail::walk(
      format_string.text(),
      [&](const detail::Spec& spec) {
        std::size_t index = 0;
        ((index++ == next ? detail::append(to, args, spec) : void()), ...);
        ++next;
      },
      [&](std::string_view literal) { to += literal; });
  return to;
}

}  // namespace fmt
