// Texts in messages between ranks: ByteWriter::put_all() puts them.
#pragma once

#include <string>
#include <vector>

#include "engine/wire.h"

namespace shardlm {

inline std::string get_text(ByteReader& from) {
  std::vector<char> text;
  from.get_all(text);
  return {text.begin(), text.end()};
}

}  // namespace shardlm
