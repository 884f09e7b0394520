// What a collective of the NCCL double does, on a stream's thread.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/gpu/doubles/nccl_communicator.h"
#include "tests/gpu/doubles/nccl_reduce.h"

namespace shardlm::doubles {
namespace {

std::string text_of(const Signature& s) {
  constexpr const char* kNames[] = {"nothing", "all-reduce", "all-gather", "reduce-scatter",
                                    "broadcast"};
  return "collective " + std::to_string(s.sequence) + ", " + kNames[std::clamp(s.operation, 0, 4)] +
         " of " + std::to_string(s.count) + " elements of type " + std::to_string(s.type) +
         ", reduction or root " + std::to_string(s.argument);
}

bool same(const Signature& a, const Signature& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

bool NcclCommunicator::meet() {
  return world_.barrier([this] { return aborted_.load(); });
}

bool NcclCommunicator::agree(const Collective& call) {
  Signature mine;
  mine.sequence = sequence_++;
  mine.count = call.count;
  mine.operation = static_cast<std::int32_t>(call.operation);
  mine.type = call.type;
  mine.argument = call.argument;
  world_.signature(rank_) = mine;
  if (!meet()) return false;
  for (int r = 0; r < size_; ++r) {
    const Signature other = world_.signature(r);
    if (same(mine, other)) continue;
    error_ = ncclInvalidUsage;
    const std::string text = "ranks issued different collectives: rank " + std::to_string(rank_) +
                             " " + text_of(mine) + "; rank " + std::to_string(r) + " " +
                             text_of(other);
    set_nccl_error(text);
    meet();  // all have looked before anybody leaves
    throw std::runtime_error("nccl: " + text);
  }
  return meet();
}

void NcclCommunicator::run(const Collective& call) {
  if (aborted_ || !agree(call)) return;
  const std::size_t step = World::kSlotBytes / element_bytes(call.type);
  for (std::size_t begin = 0; begin < call.count; begin += step)
    if (!exchange(call, begin, std::min(step, call.count - begin))) return;
}

// Elements [begin, begin + elements) of each rank's part. Every rank writes its slot, all meet,
// every rank reads what it needs, all meet again before a slot is written anew.
bool NcclCommunicator::exchange(const Collective& call, std::size_t begin, std::size_t elements) {
  const std::size_t size = element_bytes(call.type), bytes = elements * size;
  const auto* from = static_cast<const char*>(call.from);
  auto* to = static_cast<char*>(call.to) + begin * size;
  const auto rank_offset = [&](int r) { return static_cast<std::size_t>(r) * call.count * size; };
  const auto slots = [&] {
    std::vector<const void*> parts;
    for (int r = 0; r < size_; ++r) parts.push_back(world_.slot(r));
    return parts;
  };
  const auto publish = [&](const char* data) {
    std::memcpy(world_.slot(rank_), data + begin * size, bytes);
  };
  switch (call.operation) {
    case Operation::all_reduce:
      publish(from);
      if (!meet()) return false;
      reduce(to, slots(), elements, call.type, static_cast<ncclRedOp_t>(call.argument));
      break;
    case Operation::all_gather:
      publish(from);
      if (!meet()) return false;
      for (int r = 0; r < size_; ++r) std::memcpy(to + rank_offset(r), world_.slot(r), bytes);
      break;
    case Operation::broadcast:
      if (rank_ == call.argument) publish(from);
      if (!meet()) return false;
      std::memcpy(to, world_.slot(call.argument), bytes);
      break;
    case Operation::reduce_scatter:
      for (int r = 0; r < size_; ++r) {  // one rank's share after the other
        publish(from + rank_offset(r));
        if (!meet()) return false;
        if (r == rank_)
          reduce(to, slots(), elements, call.type, static_cast<ncclRedOp_t>(call.argument));
        if (!meet()) return false;
      }
      return true;
  }
  return meet();
}

}  // namespace shardlm::doubles
