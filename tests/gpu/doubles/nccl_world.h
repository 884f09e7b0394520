// What the ranks of one communicator share: POSIX shared memory, between processes as between
// threads of one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shardlm::doubles {

inline constexpr int kMaxRanks = 16;

/// One collective call as a rank sees it; all ranks must have made the same.
struct Signature {
  std::uint64_t sequence = 0, count = 0;
  std::int32_t operation = 0, type = 0, argument = 0;  // argument: reduction or root
  std::int32_t padding = 0;
};

/// Where a rank is: NCCL refuses two on one device of one host.
struct Member {
  std::uint64_t host = 0;
  std::int32_t device = 0, padding = 0;
};

class World {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20;

  /// Opens or makes the memory of this name; throws std::runtime_error.
  World(const std::string& name, int size);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Once a rank. False if that rank is there already.
  bool join(int rank, const Member& member);
  bool complete() const;
  const Member& member(int rank) const;

  /// False if `stop` became true before all ranks had come.
  bool barrier(const std::function<bool()>& stop);
  Signature& signature(int rank);
  char* slot(int rank);

  /// A rank has no work left; the number of those that said so.
  void say_finished();
  int finished() const;

 private:
  struct Shared;
  std::string name_;
  int size_;
  Shared* shared_ = nullptr;
};

}  // namespace shardlm::doubles
