#include "comm/cuda/nccl_reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/check.h"
#include "base/error.h"
#include "comm/agreement.h"

namespace shardlm::cuda {
namespace {

constexpr int kOldest = NCCL_VERSION(2, 18, 0);

// NCCL's own warnings are worth having: they often name the cause.
void warn_by_default() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("NCCL_DEBUG", "WARN", 0); });
}

std::optional<Error> usage(const Problem& problem) {
  return Error(ExitCode::usage, describe(problem));
}

std::optional<Error> version_problem(int version) {
  if (version >= kOldest) return std::nullopt;
  return usage({.what = "NCCL's version",
                .expected = nccl_version_text(kOldest) + " or later",
                .found = nccl_version_text(version),
                .remedy = "install a newer libnccl, or use --comm ipc or staged"});
}

// "NCCL's version: expected the same on all ranks, found 2.27.3 on rank 1, 2.28.9 on ranks 0, 2"
std::optional<Error> unequal_versions(const std::vector<std::vector<std::byte>>& all) {
  std::vector<int> versions;
  for (const std::vector<std::byte>& bytes : all) {
    int version = 0;
    std::memcpy(&version, bytes.data(), sizeof version);
    versions.push_back(version);
  }
  std::vector<int> distinct = versions;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= 1) return std::nullopt;
  std::string found;
  for (const int version : distinct) {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < versions.size(); ++r) {
      if (versions[r] == version) ranks.push_back(static_cast<int>(r));
    }
    found += fmt::format("{}{} on {}", found.empty() ? "" : ", ", nccl_version_text(version),
                         ranks_text(ranks));
  }
  return usage({.what = "NCCL's version",
                .expected = "the same on all ranks",
                .found = found,
                .remedy = "let all hosts find the same libnccl"});
}

void agree_on_version(Communicator& host, int version) {
  agree(host, version_problem(version));
  std::vector<std::vector<std::byte>> all;
  host.gather({SiteKind::load}, std::as_bytes(std::span(&version, 1)), all, 0);
  agree_with_root(host, host.rank() == 0 ? unequal_versions(all) : std::nullopt);
}

ncclUniqueId share_unique_id(Communicator& host) {
  ncclUniqueId id{};
  std::optional<Error> error;
  if (host.rank() == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      error = Error(ExitCode::peer, describe({.what = "NCCL failed while starting",
                                              .found = ncclGetErrorString(result)}));
    }
  }
  agree_with_root(host, error);
  std::vector<std::byte> message(sizeof id);
  std::memcpy(message.data(), &id, sizeof id);
  host.broadcast({SiteKind::load}, message, 0);
  std::memcpy(&id, message.data(), sizeof id);
  return id;
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclReducer::NcclReducer(Communicator& host, CudaBackend& backend, const Deadlines& deadlines)
    : backend_(backend), deadlines_(deadlines) {
  warn_by_default();
  if (const ncclResult_t result = ncclGetVersion(&version_); result != ncclSuccess) {
    fail_nccl("asking its version", result);
  }
  agree_on_version(host, version_);
  try {
    start(host);
  } catch (const std::exception&) {
    stop();
    throw;
  }
}

NcclReducer::~NcclReducer() { stop(); }

std::string NcclReducer::name() const { return "nccl " + nccl_version_text(version_); }

void NcclReducer::start(Communicator& host) {
  const ncclUniqueId id = share_unique_id(host);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&comm_, host.size(), id, host.rank(), &config);
  if (result != ncclSuccess && result != ncclInProgress) fail_nccl("connecting the ranks", result);
  poll("connecting the ranks", deadlines_.load_s);
}

// Until NCCL has done what it was asked.
void NcclReducer::poll(const std::string& doing, double limit_s) {
  ncclResult_t state = ncclInProgress;
  const auto done = [&] {
    const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
    if (result != ncclSuccess) fail_nccl(doing, result);
    return state != ncclInProgress;
  };
  if (!wait_until(done, waiter_, limit_s)) {
    fail(ExitCode::peer,
         {.what = fmt::format("NCCL did not end {} within {:g} s", doing, limit_s),
          .remedy = "see whether all ranks are alive and reach each other (NCCL does not say which "
                    "is missing; NCCL_DEBUG=INFO shows how it connects them)"});
  }
  if (state != ncclSuccess) fail_nccl(doing, state);
}

void NcclReducer::fail_nccl(const std::string& doing, ncclResult_t result) {
  const char* detail = ncclGetLastError(comm_);
  fail(ExitCode::peer,
       {.what = "NCCL failed while " + doing,
        .found = fmt::format("{}: {}", ncclGetErrorString(result), detail == nullptr ? "" : detail),
        .remedy = "the cause may be in the messages of another rank"});
}

void NcclReducer::all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) {
  if (addend.elements() == 0) return;
  const Tensor total = backend_.allocate(addend.rows(), addend.cols());
  if (timer_) {
    const auto floats = static_cast<std::uint64_t>(addend.elements());
    timer_->begin(call, floats * sizeof(float), backend_.recording());
  }
  sum(addend, total, call);
  if (timer_) timer_->end();
  note(call);
  backend_.update_residual({&total, 1}, update);
}

// One run of memory: whatever stands between the rows is summed with them and never looked at.
void NcclReducer::sum(const Tensor& addend, const Tensor& to, const Call& call) {
  const cudaStream_t stream = backend_.stream().get();
  const float* from = addend.row(0);
  if (addend.stride() != to.stride()) {
    const auto bytes = [](std::int64_t floats) {
      return static_cast<std::size_t>(floats) * sizeof(float);
    };
    check_cuda(cudaMemcpy2DAsync(to.row(0), bytes(to.stride()), from, bytes(addend.stride()),
                                 bytes(to.cols()), static_cast<std::size_t>(to.rows()),
                                 cudaMemcpyDeviceToDevice, stream),
               "copying an addend");
    from = to.row(0);
  }
  const auto count = static_cast<std::size_t>((to.rows() - 1) * to.stride() + to.cols());
  note_size(count);
  const std::string doing = call_text(call);
  const ncclResult_t result =
      ncclAllReduce(from, to.row(0), count, ncclFloat32, ncclSum, comm_, stream);
  if (result != ncclSuccess && result != ncclInProgress) fail_nccl(doing, result);
  poll(doing, deadlines_.collective_s);
}

void NcclReducer::note_size(std::size_t count) {
  const std::uint64_t bit = std::uint64_t{1} << std::bit_width(count);
  check(!backend_.recording() || (sizes_sent_ & bit) != 0,
        "a message of a size that NCCL has not sent before is recorded");
  sizes_sent_ |= bit;
}

void NcclReducer::note(const Call& call) {
  if (!backend_.recording()) return in_flight_.add(call, backend_.stream().get());
  if (!first_recorded_) first_recorded_ = call;
  last_recorded_ = call;
}

bool NcclReducer::failed() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm_, &state);
  if (result != ncclSuccess) state = result;
  if (state == ncclSuccess || state == ncclInProgress) return false;
  failure_ = fmt::format("{}: {}", ncclGetErrorString(state), ncclGetLastError(comm_));
  return true;
}

void NcclReducer::stop() noexcept {
  if (comm_ == nullptr) return;
  unfinished_ = in_flight_.first_unfinished();
  // Recorded passes hold NCCL's work: the abort would wait for them for ever.
  backend_.forget_passes();
  ncclCommAbort(std::exchange(comm_, nullptr));
}

void NcclReducer::explain(double limit_s) {
  std::string text;
  if (unfinished_) {
    text = call_text(*unfinished_);
  } else if (first_recorded_) {
    text = fmt::format("a repeated pass ({} to {})", site_text(first_recorded_->site),
                       site_text(last_recorded_->site));
  }
  if (!failure_.empty()) {
    fail(ExitCode::peer, {.what = "NCCL failed in " + (text.empty() ? "the background" : text),
                          .found = failure_,
                          .remedy = "the cause may be in the messages of another rank"});
  }
  if (text.empty()) return;
  fail(ExitCode::peer,
       {.what = fmt::format("a rank did not come to {} within {:g} s", text, limit_s),
        .remedy = "NCCL does not say which: see in the ranks' messages and on their hosts which is "
                  "dead or stopped; if one is only slow, allow more time"});
}

void NcclReducer::close(Communicator&) {
  const ncclResult_t result = ncclCommFinalize(comm_);
  if (result != ncclSuccess && result != ncclInProgress) fail_nccl("ending", result);
  poll("ending", deadlines_.collective_s);
  ncclCommDestroy(std::exchange(comm_, nullptr));
}

void NcclReducer::set_log(CallLog* log) {
  log_ = log;
  timer_ = log != nullptr ? std::make_unique<CallTimer>(backend_.stream().get()) : nullptr;
}

void NcclReducer::collect() {
  if (timer_) timer_->collect(*log_);
}

}  // namespace shardlm::cuda
