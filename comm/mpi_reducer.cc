#include "comm/mpi_reducer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "comm/held_addend.h"
#include "comm/mpi_messages.h"
#include "comm/mpi_own_comm.h"
#include "comm/mpi_world.h"
#include "comm/wait.h"

namespace shardlm {
namespace {

class WorldMessages final : private MpiOwnComm, public MpiMessages {
 public:
  WorldMessages(const MpiWorld& world, const Deadlines& deadlines, std::size_t piece_bytes)
      : MpiOwnComm(world.handles().all),
        MpiMessages(get(), deadlines, world.oversubscribed(), piece_bytes) {}
  ~WorldMessages() override {
    if (broken()) give_up();
  }
};

[[noreturn]] void fail_incomplete(const Call& call, double limit_s) {
  fail(
      ExitCode::peer,
      {.what = fmt::format("some rank did not come to {} {}; the MPI library does not tell "
                           "which",
                           call_text(call), waited_text(limit_s)),
       .remedy = "see the ranks' own messages, or use another all-reduce algorithm than mpi: those "
                 "name the rank; if one is only slow, allow more time"});
}

class MpiReducer final : public AllReducer {
 public:
  MpiReducer(const MpiWorld& world, Backend& backend, const Deadlines& deadlines)
      : deadlines_(deadlines),
        waiter_(world.oversubscribed()),
        comm_(world.handles().all),
        held_(std::make_unique<HeldAddend>(backend)) {}
  ~MpiReducer() override {
    // An all-reduce cannot be called back: MPI may still read and write this memory.
    if (broken_) static_cast<void>(held_.release());
  }
  MpiReducer(const MpiReducer&) = delete;
  MpiReducer& operator=(const MpiReducer&) = delete;

  std::size_t most_bytes() const override { return std::size_t{1} << 30; }  // MPI counts in int

  std::optional<Tensor> addend(const Call& /*next*/, std::int64_t rows, std::int64_t cols,
                               DType dtype) override {
    return held_->offer(rows, cols, dtype);
  }

  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;

  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  void wait(const Call& call, MPI_Request request);

  Deadlines deadlines_;
  Waiter waiter_;
  MpiOwnComm comm_;
  std::unique_ptr<HeldAddend> held_;
  Tensor sum_;
  std::uint64_t sent_bytes_ = 0;
  bool broken_ = false;
};

std::span<const Tensor> MpiReducer::reduce(const Call& call, const Tensor& addend) {
  check(!broken_, "no collective after one that failed");
  const SumType type = HeldAddend::type_of(addend.dtype());
  const std::size_t bytes = static_cast<std::size_t>(addend.elements()) * held_bytes(type);
  check(bytes <= most_bytes(), "all_reduce by the MPI library: at most most_bytes()");
  std::byte* const held = held_->take(addend);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, held, static_cast<int>(addend.elements()),
                           type == SumType::f32 ? MPI_FLOAT : MPI_INT64_T, MPI_SUM, comm_.get(),
                           &request),
            "MPI_Iallreduce");
  wait(call, request);
  sent_bytes_ += bytes;
  sum_ = Tensor::borrow(held, addend.rows(), addend.cols(), addend.dtype());
  return {&sum_, 1};
}

void MpiReducer::wait(const Call& call, MPI_Request request) {
  const double limit_s = wait_limit(call, false, deadlines_);
  try {
    const auto done = [&request] {
      int flag = 0;
      check_mpi(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Iallreduce");
      return flag != 0;
    };
    if (!wait_until(done, waiter_, limit_s)) fail_incomplete(call, limit_s);
  } catch (...) {
    broken_ = true;
    comm_.give_up();
    throw;
  }
}

}  // namespace

std::unique_ptr<Messages> make_mpi_messages(const MpiWorld& world, const Deadlines& deadlines,
                                            std::size_t piece_bytes) {
  return std::make_unique<WorldMessages>(world, deadlines, piece_bytes);
}

std::unique_ptr<AllReducer> make_mpi_reducer(const MpiWorld& world, Backend& backend,
                                             const Deadlines& deadlines) {
  return std::make_unique<MpiReducer>(world, backend, deadlines);
}

}  // namespace shardlm
