#include "comm/two_level_reducer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/held_addend.h"
#include "comm/shm_addend.h"
#include "comm/sum_in_order.h"

namespace shardlm {
namespace {

constexpr std::uint32_t kSummed = 2;  // the step after the messages

// The ranks of each node, in ascending order; nodes in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_node(std::span<const int> node_of) {
  std::vector<std::vector<int>> nodes;
  for (int r = 0; std::cmp_less(r, node_of.size()); ++r) {
    const int node = node_of[static_cast<std::size_t>(r)];
    const auto same = std::ranges::find_if(nodes, [&](const std::vector<int>& ranks) {
      return node_of[static_cast<std::size_t>(ranks.front())] == node;
    });
    if (same == nodes.end()) {
      nodes.push_back({r});
    } else {
      same->push_back(r);
    }
  }
  return nodes;
}

}  // namespace

TwoLevelReducer::TwoLevelReducer(ShmTeam& node, Messages& messages, std::span<const int> node_of,
                                 Backend& backend, Algorithm between, WireFormat wire)
    : node_(node),
      messages_(messages),
      backend_(backend),
      between_(between),
      wire_(wire),
      addends_(static_cast<std::size_t>(node.size())) {
  check(std::cmp_equal(node_of.size(), messages.size()), "every rank is on a node");
  const std::vector<std::vector<int>> nodes = ranks_by_node(node_of);
  std::size_t fewest = node_of.size();
  for (const std::vector<int>& ranks : nodes) fewest = std::min(fewest, ranks.size());
  slices_ = static_cast<int>(fewest);
  const auto place = static_cast<std::size_t>(node.rank());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (std::ranges::count(nodes[i], messages.rank()) > 0) {
      check(std::cmp_equal(nodes[i].size(), node.size()) && nodes[i][place] == messages.rank(),
            "a node's ranks share memory in the order of their numbers");
      me_ = static_cast<int>(i);
    }
    if (place < fewest) peers_.push_back(nodes[i][place]);
  }
}

std::optional<Tensor> TwoLevelReducer::addend(const Call& next, std::int64_t rows,
                                              std::int64_t cols, DType dtype) {
  return addend_in_next_slot(node_, next, rows, cols, dtype);
}

std::span<const Tensor> TwoLevelReducer::reduce(const Call& call, const Tensor& addend) {
  const ShmLabel label = sum_label(call, addend, Algorithm::two_level, wire_);
  node_.begin_phase(call);
  put_addend(node_, backend_, addend);
  sent_bytes_ += elements_of(addend) * (bits(addend.dtype()) / 8);
  node_.arrive(label);
  node_.wait_for_all(call);
  node_.check_labels(call, label);
  if (node_.rank() < slices_) sum_slice(call, addend);
  node_.reach(kSummed);
  // Those with slices wait for other nodes meanwhile, and know better who is missing there.
  node_.wait_for_first(call, kSummed, slices_, true);
  returned_ = Tensor::borrow(node_.slot(0), addend.rows(), addend.cols(), addend.dtype());
  return {&returned_, 1};
}

// The slice stands where it stays: nobody else reads it in the node's slots.
void TwoLevelReducer::sum_slice(const Call& call, const Tensor& addend) {
  const SumType type = HeldAddend::type_of(addend.dtype());
  const WireCodec& codec = wire_codec(type, wire_);
  const std::size_t block = std::max(codec.block(), ShmTeam::kAlignment / held_bytes(type));
  const Slice slice = slice_of(elements_of(addend), block, node_.rank(), slices_);
  const std::size_t begin = slice.begin * held_bytes(type);
  for (int r = 0; r < node_.size(); ++r) {
    addends_[static_cast<std::size_t>(r)] = node_.slot(r) + begin;
  }
  std::byte* const held = node_.slot(0) + begin;
  sum_in_order(addends_, type, slice.size(), held);
  const std::uint64_t sent_before = messages_.sent_bytes();
  const Team team{peers_, me_};
  sum_by(between_, {messages_, team, call, codec, scratch_, held, slice.size()});
  sent_bytes_ += messages_.sent_bytes() - sent_before;
  sent_bytes_ += slice.size() * held_bytes(type);
}

void TwoLevelReducer::release() {
  backend_.synchronize();  // the peers may overwrite their slots after finish()
  node_.finish();
}

}  // namespace shardlm
