#include "study/link_class.h"

#include <algorithm>

#include "base/error.h"

namespace shardlm {

const LinkSegment& LinkClass::segment(double bytes) const {
  check(!segments.empty(), "a class of links has a segment");
  const auto it = std::find_if(segments.begin(), segments.end(), [&](const LinkSegment& s) {
    return bytes <= static_cast<double>(s.to_bytes);
  });
  return it == segments.end() ? segments.back() : *it;
}

double LinkClass::message_s(double bytes) const {
  const LinkSegment& s = segment(bytes);
  return s.alpha_s + bytes * s.beta_s_per_byte;
}

}  // namespace shardlm
