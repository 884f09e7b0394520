// All-reduce over several nodes: shared memory inside a node, messages between nodes.
//
// k is the smallest number of ranks on a node. The first k ranks of a node sum one slice of the
// message each, over the node's ranks in their order; the j-th ranks of all nodes then sum their
// slices by messages; all ranks of a node read the k slices. So each byte goes between nodes as
// often as if a node were one rank, over k senders at once.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/message_sums.h"
#include "comm/shm_team.h"

namespace shardlm {

class TwoLevelReducer final : public AllReducer {
 public:
  /// `node`: the ranks of this node, in the order of their numbers in `messages`, which are all;
  /// node_of[r]: equal numbers share memory. Between nodes an algorithm by messages, and the format
  /// of its messages (fixed point wants f32). The references must outlive the reducer.
  TwoLevelReducer(ShmTeam& node, Messages& messages, std::span<const int> node_of, Backend& backend,
                  Algorithm between, WireFormat wire = WireFormat::f32);

  std::size_t most_bytes() const override { return node_.slot_bytes(); }
  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The sum, in the slot of the node's first rank.
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;
  void release() override;
  /// Messages, and what was written for the node's ranks.
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  void sum_slice(const Call& call, const Tensor& addend);

  ShmTeam& node_;
  Messages& messages_;
  Backend& backend_;
  Algorithm between_;
  WireFormat wire_;
  std::vector<int> peers_;  ///< the ranks that sum this rank's slice, one a node
  int me_ = 0;              ///< this rank is peers_[me_]
  int slices_ = 1;
  MessageScratch scratch_;
  std::vector<const std::byte*> addends_;  ///< the node's, of one slice
  Tensor returned_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
