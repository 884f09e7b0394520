#include "engine/text_stream.h"

#include <algorithm>

#include "base/error.h"

namespace shardlm {

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (!stop.empty()) continue;
    fail(ExitCode::usage, {.what = "stop string",
                           .expected = "at least one byte",
                           .found = "an empty one",
                           .where = "--stop",
                           .remedy = "it would end every text before it begins"});
  }
  std::stable_sort(stops_.begin(), stops_.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string TextStream::push(std::string_view token_bytes) {
  if (stopped_) return {};
  check(!finished_, "push() before finish()");
  for (const char byte : token_bytes) {
    pending_ += byte;
    // A stop string that ends here lies within pending_: until now it was the start of one.
    const auto stop = std::find_if(stops_.begin(), stops_.end(),
                                   [this](const auto& s) { return pending_.ends_with(s); });
    if (stop == stops_.end()) continue;
    stopped_ = finished_ = true;
    return release(pending_.size() - stop->size(), true);
  }
  return release(pending_.size() - held_back(), false);
}

std::string TextStream::finish() {
  if (finished_) return {};
  finished_ = true;
  return release(pending_.size(), true);
}

std::string TextStream::release(std::size_t n_bytes, bool last) {
  std::string text = utf8_.push(std::string_view(pending_).substr(0, n_bytes));
  if (last) text += utf8_.finish();
  pending_.erase(0, n_bytes);
  text_ += text;
  return text;
}

std::size_t TextStream::held_back() const {
  const std::size_t longest = stops_.empty() ? 0 : stops_.front().size() - 1;
  for (std::size_t n = std::min(longest, pending_.size()); n > 0; --n) {
    const auto tail = std::string_view(pending_).substr(pending_.size() - n);
    for (const std::string& stop : stops_) {
      if (stop.size() > n && stop.starts_with(tail)) return n;
    }
  }
  return 0;
}

}  // namespace shardlm
