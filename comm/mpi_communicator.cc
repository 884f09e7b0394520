#include "comm/mpi_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "comm/mpi_messages.h"
#include "comm/mpi_world.h"
#include "comm/residual_rows.h"

namespace shardlm {
namespace {

// A message of unknown length starts with one of at most this size: its length and first bytes.
// Small enough for MPI libraries to send without asking the receiver first.
constexpr std::size_t kFirstBytes = 4000;
using FirstPart = std::array<std::byte, kFirstBytes>;
constexpr std::size_t kFirstPayload = kFirstBytes - sizeof(std::uint64_t);

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiWorld& world, Backend& backend, const MpiOptions& options)
      : rank_(world.rank()),
        size_(world.size()),
        backend_(backend),
        options_(options),
        comm_(duplicate(world.handles().all)),
        first_parts_(static_cast<std::size_t>(size_)),
        messages_(std::make_unique<MpiMessages>(comm_, options.deadlines, world.oversubscribed(),
                                                options.piece_bytes)),
        addends_(static_cast<std::size_t>(size_)) {
    check(options.piece_bytes >= kFirstBytes, "the first part of a message goes in one piece");
  }

  ~MpiCommunicator() override {
    // After a failure the name of the communicator stays taken: messages of it may still come.
    const bool broken = messages_->broken() || std::uncaught_exceptions() > 0;
    messages_.reset();
    if (!broken) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe() const override {
    return fmt::format("MPI, {} rank{}", size_, size_ == 1 ? "" : "s");
  }

  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override;
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override;
  void barrier(Site site) override;

 private:
  Call begin(Op op, Site site) {
    check(!messages_->broken(), "no collective after one that failed");
    return {op, site, ++calls_};
  }
  // Calls f(peer) for all other ranks, each rank starting with its neighbour, so that not all
  // senders meet at rank 0 first.
  template <class F>
  void each_peer(F&& f) const {
    for (int step = 1; step < size_; ++step) f((rank_ + step) % size_);
  }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  void download(const Tensor& part);
  void one_shot(const Call& call, const Tensor& part, const ResidualUpdate& update,
                std::int64_t begin_row);
  void two_shot(const Call& call, const Tensor& part, const ResidualUpdate& update,
                std::int64_t begin_row);
  void sum_slice(std::size_t begin, std::size_t end);
  // The slice of n elements that a rank sums: [slice(r), slice(r + 1)).
  std::size_t slice(int rank, std::size_t n) const { return n * index(rank) / index(size_); }

  std::span<const std::byte> pack_first(std::span<const std::byte> message, FirstPart& first) const;
  static std::size_t unpack_first(const FirstPart& first, std::vector<std::byte>& message);

  int rank_;
  int size_;
  Backend& backend_;
  MpiOptions options_;
  MPI_Comm comm_;
  std::uint64_t calls_ = 0;
  // Buffers only grow, so a decode step allocates nothing once warm. They outlive messages_.
  std::vector<float> mine_;    ///< this rank's addend
  std::vector<float> theirs_;  ///< what the others sent, rank after rank
  std::vector<float> sum_;
  std::vector<FirstPart> first_parts_;
  std::unique_ptr<MpiMessages> messages_;
  std::vector<Tensor> addends_;
};

template <class T>
void grow(std::vector<T>& buffer, std::size_t n) {
  if (buffer.size() < n) buffer.resize(n);
}

// ---- all_reduce ----

void MpiCommunicator::all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) {
  check_update(addend, update);
  check(addend.dtype() == DType::f32, "all_reduce over MPI: float32 addends");
  const Call call = begin(Op::all_reduce, site);
  const std::int64_t row_bytes =
      std::max<std::int64_t>(addend.cols(), 1) * std::int64_t{sizeof(float)};
  const std::int64_t rows_at_once =
      std::max<std::int64_t>(static_cast<std::int64_t>(options_.chunk_bytes) / row_bytes, 1);
  std::int64_t begin_row = 0;
  do {  // once even for no rows: ranks meet in every call
    const Tensor part =
        addend.row_range(begin_row, std::min(addend.rows(), begin_row + rows_at_once));
    const auto bytes = static_cast<std::size_t>(part.elements()) * sizeof(float);
    if (size_ > 2 && bytes > options_.two_shot_above_bytes) {
      two_shot(call, part, update, begin_row);
    } else {
      one_shot(call, part, update, begin_row);
    }
    begin_row += rows_at_once;
  } while (begin_row < addend.rows());
}

void MpiCommunicator::download(const Tensor& part) {
  const auto n = static_cast<std::size_t>(part.elements());
  grow(mine_, n);
  if (n > 0) backend_.download(part, {mine_.data(), n});
}

void MpiCommunicator::one_shot(const Call& call, const Tensor& part, const ResidualUpdate& update,
                               std::int64_t begin_row) {
  const auto n = static_cast<std::size_t>(part.elements());
  grow(theirs_, n * index(size_));
  each_peer([&](int peer) {
    float* const at = theirs_.data() + n * index(peer);
    messages_->receive(std::as_writable_bytes(std::span(at, n)), peer);
    addends_[index(peer)] = Tensor::borrow(at, part.rows(), part.cols());
  });
  download(part);
  each_peer(
      [&](int peer) { messages_->send(call, std::as_bytes(std::span(mine_.data(), n)), peer); });
  addends_[index(rank_)] = Tensor::borrow(mine_.data(), part.rows(), part.cols());
  messages_->finish(call);
  update_residual_rows(backend_, addends_, update, begin_row, begin_row + part.rows());
  backend_.synchronize();  // the buffers are used again
}

void MpiCommunicator::two_shot(const Call& call, const Tensor& part, const ResidualUpdate& update,
                               std::int64_t begin_row) {
  const auto n = static_cast<std::size_t>(part.elements());
  const std::size_t begin = slice(rank_, n), end = slice(rank_ + 1, n);
  grow(theirs_, (end - begin) * index(size_));
  grow(sum_, n);
  each_peer([&](int peer) {
    float* const at = theirs_.data() + (end - begin) * index(peer);
    messages_->receive(std::as_writable_bytes(std::span(at, end - begin)), peer);
  });
  download(part);
  each_peer([&](int peer) {
    const std::size_t first = slice(peer, n), last = slice(peer + 1, n);
    messages_->send(call, std::as_bytes(std::span(mine_.data() + first, last - first)), peer);
  });
  messages_->finish(call);
  sum_slice(begin, end);
  each_peer([&](int peer) {
    const std::size_t first = slice(peer, n), last = slice(peer + 1, n);
    messages_->receive(std::as_writable_bytes(std::span(sum_.data() + first, last - first)), peer);
    messages_->send(call, std::as_bytes(std::span(sum_.data() + begin, end - begin)), peer);
  });
  messages_->finish(call);
  const Tensor sum = Tensor::borrow(sum_.data(), part.rows(), part.cols());
  update_residual_rows(backend_, {&sum, 1}, update, begin_row, begin_row + part.rows());
  backend_.synchronize();
}

// sum_[begin, end) of all ranks' addends, in rank order, as Backend::update_residual adds them.
void MpiCommunicator::sum_slice(std::size_t begin, std::size_t end) {
  float* const sum = sum_.data() + begin;
  for (int r = 0; r < size_; ++r) {
    const float* const addend =
        r == rank_ ? mine_.data() + begin : theirs_.data() + (end - begin) * index(r);
    if (r == 0) {
      std::copy_n(addend, end - begin, sum);
    } else {
      for (std::size_t i = 0; i < end - begin; ++i) sum[i] += addend[i];
    }
  }
}

// ---- messages of any length ----

// The length and the first bytes; the rest of the message, if any, goes on its own.
std::span<const std::byte> MpiCommunicator::pack_first(std::span<const std::byte> message,
                                                       FirstPart& first) const {
  const std::uint64_t total = message.size();
  const std::size_t payload = std::min(message.size(), kFirstPayload);
  std::memcpy(first.data(), &total, sizeof total);
  std::copy_n(message.data(), payload, first.data() + sizeof total);
  return {first.data(), sizeof total + payload};
}

// Resizes the message and fills in its first bytes; returns how many.
std::size_t MpiCommunicator::unpack_first(const FirstPart& first, std::vector<std::byte>& message) {
  std::uint64_t total = 0;
  std::memcpy(&total, first.data(), sizeof total);
  message.resize(total);
  const std::size_t payload = std::min<std::size_t>(total, kFirstPayload);
  std::copy_n(first.data() + sizeof total, payload, message.data());
  return payload;
}

void MpiCommunicator::broadcast(Site site, std::vector<std::byte>& message, int root) {
  const Call call = begin(Op::broadcast, site);
  FirstPart& first = first_parts_[index(root)];
  if (rank_ == root) {
    const std::span<const std::byte> head = pack_first(message, first);
    each_peer([&](int peer) {
      messages_->send(call, head, peer);
      if (message.size() > kFirstPayload) {
        messages_->send(call, std::span(message).subspan(kFirstPayload), peer);
      }
    });
    messages_->finish(call);
    return;
  }
  messages_->receive_up_to(first, root);
  messages_->finish(call, true);
  const std::size_t there = unpack_first(first, message);
  if (message.size() == there) return;
  messages_->receive(std::span(message).subspan(there), root);
  messages_->finish(call, true);
}

void MpiCommunicator::gather(Site site, std::span<const std::byte> mine,
                             std::vector<std::vector<std::byte>>& all, int root) {
  const Call call = begin(Op::gather, site);
  if (rank_ != root) {
    messages_->send(call, pack_first(mine, first_parts_[index(rank_)]), root);
    if (mine.size() > kFirstPayload) messages_->send(call, mine.subspan(kFirstPayload), root);
    messages_->finish(call);
    return;
  }
  all.resize(index(size_));
  all[index(rank_)].assign(mine.begin(), mine.end());
  each_peer([&](int peer) { messages_->receive_up_to(first_parts_[index(peer)], peer); });
  messages_->finish(call);
  each_peer([&](int peer) {
    std::vector<std::byte>& theirs = all[index(peer)];
    const std::size_t there = unpack_first(first_parts_[index(peer)], theirs);
    if (theirs.size() > there) messages_->receive(std::span(theirs).subspan(there), peer);
  });
  messages_->finish(call);
}

void MpiCommunicator::barrier(Site site) {
  const Call call = begin(Op::barrier, site);
  each_peer([&](int peer) { messages_->receive({}, peer); });
  each_peer([&](int peer) { messages_->send(call, {}, peer); });
  messages_->finish(call);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const MpiWorld& world, Backend& backend,
                                                    const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(world, backend, options);
}

}  // namespace shardlm
