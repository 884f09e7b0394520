// Sums by messages, as the tests of the algorithms make them.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "comm/message_sums.h"

namespace shardlm {

using Bytes = std::vector<std::byte>;

inline constexpr Algorithm kByMessages[] = {Algorithm::direct,       Algorithm::recdbl,
                                            Algorithm::rabenseifner, Algorithm::ring,
                                            Algorithm::star,         Algorithm::tree};
inline constexpr std::size_t kSizes[] = {0, 1, 2, 3, 7, 8, 31, 33, 768, 10001};

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Every codec there is.
inline std::vector<const WireCodec*> all_codecs() {
  std::vector<const WireCodec*> codecs = {&wire_codec(SumType::fixed64, WireFormat::f32)};
  for (const WireFormat wire : all_wire_formats()) {
    codecs.push_back(&wire_codec(SumType::f32, wire));
  }
  return codecs;
}

/// What a codec is, for messages of tests.
inline std::string codec_text(const WireCodec& codec) {
  return std::to_string(codec.wire_bytes(1)) +
         (codec.plain() ? " bytes, plain" : " bytes, rounded");
}

/// factor * {unit, -unit, 0, unit, …}, such that every codec keeps it for whole factors to 255:
/// the largest of an int8 block is then 127 steps.
inline Bytes exact_values(const WireCodec& codec, std::size_t n, int factor) {
  const int unit = codec.block() > 1 ? 127 : 1;
  const auto value = [&](std::size_t i) {
    const int sign = i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0;
    return factor * unit * sign;
  };
  std::vector<float> floats(n);
  std::vector<std::int64_t> fixed(n);
  for (std::size_t i = 0; i < n; ++i) {
    floats[i] = static_cast<float>(value(i));
    fixed[i] = std::int64_t{value(i)} << 40;
  }
  return codec.held() == SumType::f32 ? bytes_of(floats) : bytes_of(fixed);
}

/// Evenly spread over [-1, 1).
inline std::vector<float> random_values(std::size_t n, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31F;
  return values;
}

/// One rank of a team that sums, call after call.
class SummingRank {
 public:
  SummingRank(Messages& messages, std::vector<int> members)
      : messages_(messages), members_(std::move(members)) {
    while (members_[static_cast<std::size_t>(team_.me)] != messages.rank()) ++team_.me;
    team_.members = members_;
  }
  explicit SummingRank(Messages& messages) : SummingRank(messages, all_of(messages.size())) {}

  const Team& team() const { return team_; }

  /// What becomes of `held` in an algorithm.
  template <class F>
  Bytes run(F&& algorithm, const WireCodec& codec, Bytes held) {
    const Call call{Op::all_reduce, {SiteKind::attn_out, 3}, ++calls_};
    const std::size_t n = held.size() / held_bytes(codec.held());
    algorithm(MessageSum{messages_, team_, call, codec, scratch_, held.data(), n});
    return held;
  }
  Bytes sum(Algorithm algorithm, const WireCodec& codec, Bytes held) {
    return run([&](const MessageSum& s) { sum_by(algorithm, s); }, codec, std::move(held));
  }

 private:
  static std::vector<int> all_of(int size) {
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }

  Messages& messages_;
  std::vector<int> members_;
  Team team_;
  MessageScratch scratch_;
  std::uint64_t calls_ = 0;
};

}  // namespace shardlm
