#include "tests/gpu/doubles/nccl_world.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

namespace shardlm::doubles {
namespace {

// Between two looks at what another rank has to do: at first at once, then without a busy core.
void pause_for(int looks) {
  if (looks < 200) {
    sched_yield();
  } else {
    usleep(50);
  }
}

}  // namespace

// Fresh shared memory is zero, which is where all of this starts.
struct World::Shared {
  std::atomic<unsigned> attached, taken, arrived, generation, finished;
  Member members[kMaxRanks];
  Signature signatures[kMaxRanks];
  alignas(64) char slots[kMaxRanks][kSlotBytes];
};

World::World(const std::string& name, int size) : name_(name), size_(size) {
  const int descriptor = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) throw std::runtime_error("nccl: no shared memory of this id");
  void* map = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(Shared)) == 0)
    map = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (map == MAP_FAILED) throw std::runtime_error("nccl: shared memory cannot be mapped");
  shared_ = static_cast<Shared*>(map);
}

World::~World() {
  if (!complete()) shm_unlink(name_.c_str());
  munmap(shared_, sizeof(Shared));
}

bool World::join(int rank, const Member& member) {
  const unsigned bit = 1U << rank;
  if ((shared_->taken.fetch_or(bit) & bit) != 0) return false;
  shared_->members[rank] = member;
  // Nobody else will open it, so its name can go, whatever happens later.
  if (shared_->attached.fetch_add(1) + 1 == static_cast<unsigned>(size_)) shm_unlink(name_.c_str());
  return true;
}

bool World::complete() const { return shared_->attached.load() == static_cast<unsigned>(size_); }

const Member& World::member(int rank) const { return shared_->members[rank]; }

bool World::barrier(const std::function<bool()>& stop) {
  const unsigned generation = shared_->generation.load();
  if (shared_->arrived.fetch_add(1) + 1 == static_cast<unsigned>(size_)) {
    shared_->arrived = 0;
    shared_->generation = generation + 1;
    return true;
  }
  for (int looks = 0; shared_->generation.load() == generation; ++looks) {
    if (stop()) return false;
    pause_for(looks);
  }
  return true;
}

Signature& World::signature(int rank) { return shared_->signatures[rank]; }

char* World::slot(int rank) { return shared_->slots[rank]; }

void World::say_finished() { shared_->finished.fetch_add(1); }

int World::finished() const { return static_cast<int>(shared_->finished.load()); }

}  // namespace shardlm::doubles
