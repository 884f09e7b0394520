#include "comm/shm_meetings.h"

#include <algorithm>

namespace shardlm {

void ShmMeetings::write(std::span<const std::byte> part) {
  std::ranges::copy(part, team_.slot(team_.rank()));
  sent_bytes_ += part.size();
}

void ShmMeetings::broadcast(const Call& call, std::vector<std::byte>& message, int root) {
  const std::size_t slot_bytes = team_.slot_bytes();
  std::size_t total = message.size();
  std::size_t at = 0;
  do {
    if (team_.rank() == root) {
      team_.begin_phase(call);
      write(std::span(message).subspan(at, std::min(slot_bytes, total - at)));
      team_.arrive(message_label(call, total));
    } else {
      team_.begin_phase_without_slot(call);
      team_.wait_for(call, root);
      total = team_.label(root).size;
      team_.check_label(call, message_label(call, total), root);
      message.resize(total);
      std::copy_n(team_.slot(root), std::min(slot_bytes, total - at), message.data() + at);
    }
    team_.finish();
    at += slot_bytes;
  } while (at < total);
}

void ShmMeetings::gather(const Call& call, std::span<const std::byte> mine,
                         std::vector<std::vector<std::byte>>& all, int root) {
  const std::size_t slot_bytes = team_.slot_bytes();
  const ShmLabel label = message_label(call, mine.size());
  const bool is_root = team_.rank() == root;
  if (is_root) all.resize(static_cast<std::size_t>(team_.size()));
  std::size_t longest = 0;
  std::size_t at = 0;
  const auto part_at = [slot_bytes, &at](std::size_t total) {
    return std::min(slot_bytes, total - std::min(at, total));
  };
  do {
    team_.begin_phase(call);
    write(mine.subspan(std::min(at, mine.size()), part_at(mine.size())));
    team_.arrive(label);
    // All wait for all, so that each knows the longest message and with it the number of phases.
    team_.wait_for_all(call);
    team_.check_labels(call, label, false);
    for (int r = 0; r < team_.size(); ++r) {
      const std::size_t bytes = team_.label(r).size;
      longest = std::max(longest, bytes);
      if (!is_root) continue;
      std::vector<std::byte>& theirs = all[static_cast<std::size_t>(r)];
      theirs.resize(bytes);
      std::copy_n(team_.slot(r), part_at(bytes), theirs.data() + std::min(at, bytes));
    }
    team_.finish();
    at += slot_bytes;
  } while (at < longest);
}

void ShmMeetings::barrier(const Call& call) {
  const ShmLabel label = message_label(call, 0);
  team_.begin_phase(call);
  team_.arrive(label);
  team_.wait_for_all(call);
  team_.check_labels(call, label);
  team_.finish();
}

}  // namespace shardlm
