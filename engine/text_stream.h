// Turns the bytes of a sequence's tokens into text that may be shown, as they come.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/utf8.h"

namespace shardlm {

/// Text comes out as valid UTF-8: a character whose bytes span tokens comes when it is whole, bytes
/// that are none come as U+FFFD.
///
/// Stop strings are compared with the tokens' bytes and may span tokens. The one whose last byte
/// comes first ends the text; of several that end at the same byte, the longest. The text is cut
/// where that one begins. Bytes that may still become a stop string are held back, so no part of
/// the one that ends the text is ever shown.
class TextStream {
 public:
  /// An empty stop string is Error(ExitCode::usage).
  explicit TextStream(std::vector<std::string> stops);

  /// The text that a token's bytes set free. Nothing comes after a stop.
  std::string push(std::string_view token_bytes);
  /// What was held back, when no token comes any more (half a character as U+FFFD). Once.
  std::string finish();

  bool stopped() const { return stopped_; }
  /// All that push() and finish() have returned.
  const std::string& text() const { return text_; }

 private:
  std::string release(std::size_t n_bytes, bool last);
  std::size_t held_back() const;

  std::vector<std::string> stops_;  // longest first
  Utf8Stream utf8_;
  std::string pending_;  // bytes held back: the start of a stop string, perhaps
  std::string text_;
  bool stopped_ = false;
  bool finished_ = false;
};

}  // namespace shardlm
