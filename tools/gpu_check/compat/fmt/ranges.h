// fmt::join: see format.h beside this file.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace fmt {

template <class Range>
std::string join(const Range& range, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& element : range) {
    if (!first) text += separator;
    detail::append(text, element, {});
    first = false;
  }
  return text;
}

}  // namespace fmt
