// Small values from all ranks to rank 0, and from rank 0 to all.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/wire.h"

namespace shardlm {

/// Collective. At rank 0 one value a rank; elsewhere none.
template <class T>
std::vector<T> values_of_ranks(Communicator& comm, const T& mine) {
  std::vector<std::vector<std::byte>> all;
  comm.gather({SiteKind::load}, std::as_bytes(std::span(&mine, 1)), all, 0);
  std::vector<T> values;
  if (comm.rank() != 0) return values;
  for (const auto& rank : all) values.push_back(ByteReader(rank).get<T>());
  return values;
}

/// The same of texts.
inline std::vector<std::string> texts_of_ranks(Communicator& comm, const std::string& mine) {
  std::vector<std::vector<std::byte>> all;
  comm.gather({SiteKind::load}, std::as_bytes(std::span(mine)), all, 0);
  std::vector<std::string> texts;
  if (comm.rank() != 0) return texts;
  for (const auto& rank : all)
    texts.emplace_back(reinterpret_cast<const char*>(rank.data()), rank.size());
  return texts;
}

/// Collective: rank 0's value, on all.
template <class T>
T value_of_root(Communicator& comm, const T& mine) {
  std::vector<std::byte> message;
  ByteWriter(message).put(mine);
  comm.broadcast({SiteKind::load}, message, 0);
  return ByteReader(message).get<T>();
}

}  // namespace shardlm
