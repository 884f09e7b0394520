#include "comm/mpi_world.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <vector>

#include "comm/mpi_handles.h"

namespace shardlm {
namespace {

constexpr std::size_t kSegmentAlignment = 128;
// Of the library's own collectives at the start, before any option is known: hosts may be slow.
constexpr double kStartLimit_s = 600;

std::string host_name_of_mpi() {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  return {name, static_cast<std::size_t>(length)};
}

std::string host_name_of_system() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

cpu_set_t own_core_mask() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &mine);  // above 1024 cores: enough
  }
  return mine;
}

// The affinity masks of the node's ranks, in rank order. mpirun may bind each to cores of its own.
std::vector<cpu_set_t> core_masks(MPI_Comm node, int node_size) {
  const cpu_set_t mine = own_core_mask();
  std::vector<cpu_set_t> masks(static_cast<std::size_t>(node_size));
  check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, masks.data(), sizeof mine, MPI_BYTE, node),
            "MPI_Allgather of the affinity masks");
  return masks;
}

CoreShare share_of(const std::vector<cpu_set_t>& masks, int node_rank) {
  const cpu_set_t& mine = masks[static_cast<std::size_t>(node_rank)];
  CoreShare share{.cores = CPU_COUNT(&mine), .sharers = 0, .first_sharer = true};
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t r = 0; r < masks.size(); ++r) {
    CPU_OR(&all, &all, &masks[r]);
    if (!CPU_EQUAL(&mine, &masks[r])) continue;
    if (static_cast<int>(r) < node_rank) share.first_sharer = false;
    ++share.sharers;
  }
  share.node_cores = CPU_COUNT(&all);
  return share;
}

// A window of MPI memory; lives as long as the ShmSegments that point into it.
class ShmWindow {
 public:
  ShmWindow(MPI_Comm node, std::size_t bytes_each) {
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&info), "MPI_Info_create");
    // Each rank's part on pages of its own: near its core, and away from the others' writes.
    check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
    void* base = nullptr;
    const int code =
        MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes_each), 1, info, node, &base, &window_);
    MPI_Info_free(&info);
    check_mpi(code, "MPI_Win_allocate_shared");
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
  }
  ~ShmWindow() {
    if (std::uncaught_exceptions() > 0) return;  // the other ranks may never come
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  ShmWindow(const ShmWindow&) = delete;
  ShmWindow& operator=(const ShmWindow&) = delete;

  std::byte* part_of(int rank) const {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    check_mpi(MPI_Win_shared_query(window_, rank, &bytes, &unit, &base), "MPI_Win_shared_query");
    return static_cast<std::byte*>(base);
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
};

// Of all ranks, the lowest of those on the same node.
std::vector<int> lowest_ranks_of_nodes(const MpiHandles& handles, int rank, int size) {
  int lowest = rank;
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, handles.node), "MPI_Bcast");
  std::vector<int> all(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, all.data(), 1, MPI_INT, handles.all),
            "MPI_Allgather");
  return all;
}

std::byte* align_up(std::byte* at) {
  const auto beyond = reinterpret_cast<std::uintptr_t>(at) % kSegmentAlignment;
  return beyond == 0 ? at : at + (kSegmentAlignment - beyond);
}

}  // namespace

void check_mpi(int code, const char* doing) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ExitCode::peer, {.what = fmt::format("{} failed", doing),
                        .found = std::string(text, static_cast<std::size_t>(length))});
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(std::string("\n\0", 2)));
}

bool started_by_mpi_launcher() {
  constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE",
                                     "PMIX_RANK",
                                     "PMIX_NAMESPACE",
                                     "PMI_RANK",
                                     "PMI_SIZE",
                                     "PMI_FD",
                                     "PMI_PORT",
                                     "PMI_ID",
                                     "HYDI_CONTROL_FD",
                                     "MPI_LOCALRANKID",
                                     "MPI_LOCALNRANKS",
                                     "MV2_COMM_WORLD_SIZE",
                                     "PALS_RANKID",
                                     "ALPS_APP_PE",
                                     "FLUX_TASK_RANK",
                                     "SLURM_PROCID"};
  return std::ranges::any_of(kVariables,
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

MpiWorld::MpiWorld(int& argc, char**& argv)
    : exceptions_at_start_(std::uncaught_exceptions()), handles_(std::make_unique<MpiHandles>()) {
  if (started_by_mpi_launcher()) {
    start(&argc, &argv);
    look_around();
    return;
  }
  core_share_ = share_of({own_core_mask()}, 0);
  host_name_ = host_name_of_system();
}

void MpiWorld::start(int* argc, char*** argv) const {
  const BlockingWatch watch("the start of MPI", kStartLimit_s);
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) {
    fail(ExitCode::resources, {.what = "the MPI library's thread support",
                               .expected = "MPI_THREAD_FUNNELED or more",
                               .found = "MPI_THREAD_SINGLE",
                               .where = mpi_library_version(),
                               .remedy = "use an MPI library built with thread support"});
  }
  handles_->all = duplicate(MPI_COMM_WORLD);
  int rank = 0;
  check_mpi(MPI_Comm_rank(handles_->all, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_split_type(handles_->all, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                                &handles_->node),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_set_errhandler(handles_->node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

void MpiWorld::look_around() {
  check_mpi(MPI_Comm_rank(handles_->all, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handles_->all, &size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(handles_->node, &node_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handles_->node, &node_size_), "MPI_Comm_size");
  core_share_ = share_of(core_masks(handles_->node, node_size_), node_rank_);
  nodes_ = lowest_ranks_of_nodes(*handles_, rank_, size_);
  host_name_ = host_name_of_mpi();
}

MpiWorld::~MpiWorld() {
  if (handles_->all == MPI_COMM_NULL || std::uncaught_exceptions() > exceptions_at_start_) return;
  if (!end_watch_) watch_end(kStartLimit_s);
  MPI_Comm_free(&handles_->node);
  MPI_Comm_free(&handles_->all);
  MPI_Finalize();
}

void MpiWorld::watch_end(double limit_s) {
  if (size_ > 1) {
    end_watch_ = std::make_unique<BlockingWatch>("the end of the job (MPI_Finalize)", limit_s);
  }
}

void MpiWorld::abort(ExitCode code) const {
  if (handles_->all != MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

const MpiHandles& MpiWorld::handles() const {
  if (handles_->all == MPI_COMM_NULL) start(nullptr, nullptr);
  return *handles_;
}

ShmSegments MpiWorld::share_memory(std::size_t bytes_each) const {
  const BlockingWatch watch("allocating shared memory", kStartLimit_s);
  const auto window = std::make_shared<ShmWindow>(handles().node, bytes_each + kSegmentAlignment);
  ShmSegments segments{{}, bytes_each, window};
  for (int r = 0; r < node_size_; ++r) segments.base.push_back(align_up(window->part_of(r)));
  std::fill_n(segments.base[static_cast<std::size_t>(node_rank_)], bytes_each, std::byte{0});
  // Nobody may look before all is zero.
  check_mpi(MPI_Barrier(handles_->node), "MPI_Barrier");
  return segments;
}

}  // namespace shardlm
