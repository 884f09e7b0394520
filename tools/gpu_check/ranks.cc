#include "tools/gpu_check/ranks.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/borrowed_communicator.h"
#include "comm/gpu.h"
#include "comm/shm_transport.h"

extern "C" void __gcov_dump() __attribute__((weak));  // where coverage is counted

namespace shardlm::gpu_check {
namespace {

constexpr std::size_t kTextBytes = 4096;

/// Memory that parent and children share.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail(ExitCode::resources, {.what = "no shared memory for the ranks"});
    at_ = static_cast<std::byte*>(at);
  }
  ~SharedMemory() { munmap(at_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* at(std::size_t offset) const { return at_ + offset; }

 private:
  std::size_t bytes_;
  std::byte* at_ = nullptr;
};

void keep_text(char* to, const std::string& text) {
  const std::size_t n = std::min(text.size(), kTextBytes - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

int run_rank(int rank, const ShmSegments& segments, const RankOptions& options,
             const RankBody& body, char* text) {
  const auto ended = [&](int code, const std::string& what) {
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
    keep_text(text, what);
    return code;
  };
  try {
    const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
    ShmOptions shm;
    shm.deadlines = options.deadlines;
    shm.oversubscribed = static_cast<unsigned>(options.size) > std::thread::hardware_concurrency();
    shm.departed_grace_s = 1;
    return body(rank, make_shm_communicator(rank, segments, *cpu, shm));
  } catch (const Skip& skip) {
    return ended(kSkipped, skip.because);
  } catch (const Error& error) {
    return ended(static_cast<int>(error.code()), error.what());
  } catch (const std::exception& error) {
    return ended(static_cast<int>(ExitCode::bug), error.what());
  }
}

// NCCL refuses two ranks on one GPU of one host, by the host's identity: another one for each rank
// makes it talk over loopback sockets. Set before its first call.
void pretend_hosts(int rank) {
  setenv("NCCL_HOSTID", ("rank" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_NET", "Socket", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
  setenv("NCCL_MAX_CTAS", "1", 1);
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("NCCL_RAS_ENABLE", "0", 1);
}

// Whether each of the first `size` GPUs can map the memory of each other one.
bool all_are_peers(const GpuSurvey& survey, int size) {
  for (int i = 0; i < size; ++i) {
    const std::vector<int>& peers = survey.devices[static_cast<std::size_t>(i)].peers;
    for (int j = 0; j < size; ++j) {
      if (i != j && std::count(peers.begin(), peers.end(), j) == 0) return false;
    }
  }
  return true;
}

}  // namespace

RankOptions rank_options(Arguments& arguments) {
  RankOptions options;
  options.size = static_cast<int>(arguments.number("ranks", 1));
  options.comm = arguments.text("comm", "auto");
  options.gpus = arguments.text("gpus", "shared");
  options.deadlines.collective_s = static_cast<double>(arguments.number("timeout", 30));
  const auto& gpus = options.gpus;
  if (options.size < 1 || (gpus != "shared" && gpus != "own" && gpus != "pretend")) {
    fail(ExitCode::usage, {.what = "ranks",
                           .expected = "--ranks 1 or more, --gpus shared, own or pretend",
                           .found = std::to_string(options.size) + ", " + gpus});
  }
  return options;
}

std::vector<RankEnd> fork_ranks(const RankOptions& options, const RankBody& body) {
  const auto size = static_cast<std::size_t>(options.size);
  const std::size_t segment = (ShmTeam::segment_bytes() + 4095) / 4096 * 4096;
  const SharedMemory memory(size * (segment + kTextBytes));
  ShmSegments segments{.base = {}, .bytes_each = segment};
  for (std::size_t r = 0; r < size; ++r) segments.base.push_back(memory.at(r * segment));
  const auto text_of = [&](std::size_t r) {
    return reinterpret_cast<char*>(memory.at(size * segment + r * kTextBytes));
  };
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (std::size_t r = 0; r < size; ++r) {
    const pid_t child = fork();
    if (child < 0) fail(ExitCode::resources, {.what = "cannot start a process for a rank"});
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (options.gpus == "pretend") pretend_hosts(static_cast<int>(r));
      const int code = run_rank(static_cast<int>(r), segments, options, body, text_of(r));
      std::fflush(nullptr);
      if (__gcov_dump != nullptr) __gcov_dump();
      _exit(code);
    }
    children.push_back(child);
  }
  std::vector<RankEnd> ends;
  for (std::size_t r = 0; r < size; ++r) {
    int status = 0;
    waitpid(children[r], &status, 0);
    ends.push_back({WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text_of(r)});
  }
  return ends;
}

int common_code(const std::vector<RankEnd>& ends) {
  int code = 0;
  for (const RankEnd& end : ends) {
    if (end.code != 0 && (code == 0 || code == kSkipped)) {
      code = end.code < 0 ? 128 - end.code : end.code;
    }
  }
  return code;
}

HostEnd::HostEnd(const RankOptions& options, std::unique_ptr<Communicator> host)
    : options_(options), host_(std::move(host)) {
  const GpuSurvey survey = survey_gpus();
  if (survey.devices.empty()) throw Skip{survey.none_because};
  const bool own = options.gpus == "own";
  if (own && std::ssize(survey.devices) < options.size) {
    throw Skip{"fewer GPUs than ranks: " + std::to_string(survey.devices.size())};
  }
  device_ = own ? host_->rank() : 0;
  peer_access_ = options.gpus == "shared" || (own && all_are_peers(survey, options.size));
  if (options.comm == "ipc" && !peer_access_) {
    throw Skip{"the GPUs cannot map each other's memory"};
  }
}

void HostEnd::with_device(const Precision& precision, bool graphs, const DeviceBody& body) {
  const auto backend =
      make_gpu_backend({.device = device_, .precision = precision, .graphs = graphs});
  const GpuPlacement placement{.one_node = true,
                               .peer_access = peer_access_,
                               .shared_gpu = options_.size > 1 && options_.gpus == "shared",
                               .device = device_};
  const auto comm = make_gpu_communicator(std::make_unique<BorrowedCommunicator>(*host_), *backend,
                                          options_.comm, placement, options_.deadlines);
  body(*comm, *backend);
}

}  // namespace shardlm::gpu_check
