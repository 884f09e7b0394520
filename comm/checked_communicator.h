// Compares what the ranks are about to do, before they do it (--check-collectives).
#pragma once

#include <cstdint>

#include "comm/borrowed_communicator.h"
#include "comm/call.h"

namespace shardlm {

/// Passes every collective on to `to`, once all ranks have said over `control` that they make the
/// same one: number, kind, site, root, and an all-reduce's shape and type. At the first difference
/// all ranks throw the same Error(ExitCode::bug) that names both sides. A rank that makes no
/// further call is named by control's deadline. Slow: two more collectives a call. Both
/// communicators outlive this one and are two different ones, since a call of `to` may have begun
/// before it is checked (addend()).
class CheckedCommunicator final : public BorrowedCommunicator {
 public:
  CheckedCommunicator(Communicator& to, Communicator& control)
      : BorrowedCommunicator(to), control_(control) {}

  std::string describe() const override {
    return BorrowedCommunicator::describe() + ", every collective checked";
  }
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override;
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override;
  void barrier(Site site) override;
  /// A replayed pass would make its calls unseen, and one in the background is a call at a time
  /// that no other rank knows: neither is done.
  bool recordable() const override { return false; }
  bool overlaps() const override { return false; }

 private:
  /// What must be equal on all ranks.
  struct Intent {
    std::uint64_t number = 0;
    std::int64_t rows = 0, cols = 0;
    std::int32_t layer = -1, root = -1;
    SiteKind kind = SiteKind::step;
    Op op = Op::barrier;
    DType dtype = DType::u8;
    std::uint8_t unused[5] = {};  ///< no byte of it is undefined
    friend bool operator==(const Intent&, const Intent&) = default;
  };
  static std::string text_of(const Intent& intent);
  static std::string difference(const std::vector<std::vector<std::byte>>& intents);
  void check_same(Intent mine, Op op, Site site);

  Communicator& control_;
  std::uint64_t calls_ = 0;
};

}  // namespace shardlm
