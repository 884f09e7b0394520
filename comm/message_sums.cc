// The all-reduces of one or two rounds, and the choice among all.
#include "comm/message_sums.h"

#include <fmt/format.h>

#include "base/error.h"
#include "comm/message_parts.h"

namespace shardlm {
namespace {

constexpr int kRoot = 0;

void exchange(const MessageParts& parts) {
  parts.each_other([&](int r) { parts.receive_addend(parts.all(), r, r); });
  parts.encode(parts.all());
  parts.each_other([&](int r) { parts.send(parts.all(), r); });
  parts.finish();
}

}  // namespace

void exchange_addends(const MessageSum& sum) {
  check(sum.codec.plain(), "exchange_addends: a plain codec");
  exchange(MessageParts(sum, sum.team.size(), sum.n));
}

void sum_direct(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, sum.team.size(), sum.n);
  exchange(parts);
  parts.add_in_order(parts.all());
}

void sum_star(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const bool root = sum.team.me == kRoot;
  const MessageParts parts(sum, root ? sum.team.size() : 0, sum.n);
  if (root) {
    parts.each_other([&](int r) { parts.receive_addend(parts.all(), r, r); });
    parts.finish();
    for (int r = 1; r < parts.size(); ++r) parts.add(parts.all(), r);
    parts.round(parts.all());
    parts.each_other([&](int r) { parts.send(parts.all(), r); });
    parts.finish();
    return;
  }
  parts.encode(parts.all());
  parts.send(parts.all(), kRoot);
  parts.finish();
  parts.receive(parts.all(), kRoot);
  parts.finish(true);
  parts.decode(parts.all());
}

void reduce_scatter_direct(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const Slice mine = slice_of(sum.n, sum.codec.block(), sum.team.me, sum.team.size());
  const MessageParts parts(sum, sum.team.size(), mine.size());
  parts.each_other([&](int r) { parts.receive_addend(mine, r, r); });
  parts.each_other([&](int r) {
    parts.encode(parts.slice(r));
    parts.send(parts.slice(r), r);
  });
  parts.finish();
  parts.add_in_order(mine);
}

void all_gather_direct(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 0, 0);
  const Slice mine = parts.slice(parts.me());
  parts.each_other([&](int r) { parts.receive(parts.slice(r), r); });
  parts.round(mine);
  parts.each_other([&](int r) { parts.send(mine, r); });
  parts.finish();
  parts.each_other([&](int r) { parts.decode(parts.slice(r)); });
}

void sum_by(Algorithm algorithm, const MessageSum& sum) {
  switch (algorithm) {
    case Algorithm::direct:
      return sum_direct(sum);
    case Algorithm::recdbl:
      return sum_recdbl(sum);
    case Algorithm::rabenseifner:
      return sum_rabenseifner(sum);
    case Algorithm::ring:
      return sum_ring(sum);
    case Algorithm::star:
      return sum_star(sum);
    case Algorithm::tree:
      return sum_tree(sum);
    default:
      fail(ExitCode::bug, {.what = "sum_by",
                           .expected = "an algorithm by messages",
                           .found = std::string(name(algorithm))});
  }
}

}  // namespace shardlm
