#include "comm/message_reducer.h"

#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/held_addend.h"
#include "comm/message_sums.h"

namespace shardlm {
namespace {

class MessageReducer final : public AllReducer {
 public:
  MessageReducer(Messages& messages, Backend& backend, Algorithm algorithm, WireFormat wire)
      : messages_(messages),
        algorithm_(algorithm),
        wire_(wire),
        held_(backend),
        members_(static_cast<std::size_t>(messages.size())) {
    std::iota(members_.begin(), members_.end(), 0);
  }

  std::optional<Tensor> addend(const Call& /*next*/, std::int64_t rows, std::int64_t cols,
                               DType dtype) override {
    return held_.offer(rows, cols, dtype);
  }

  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override {
    const WireCodec& codec = wire_codec(HeldAddend::type_of(addend.dtype()), wire_);
    const auto n = static_cast<std::size_t>(addend.elements());
    std::byte* const held = held_.take(addend);
    const Team team{members_, messages_.rank()};
    const MessageSum sum{messages_, team, call, codec, scratch_, held, n};
    if (algorithm_ == Algorithm::direct && codec.plain()) return all_addends(sum, addend);
    sum_by(algorithm_, sum);
    returned_.assign(1, Tensor::borrow(held, addend.rows(), addend.cols(), addend.dtype()));
    return returned_;
  }

  std::uint64_t sent_bytes() const override { return messages_.sent_bytes(); }

 private:
  std::span<const Tensor> all_addends(const MessageSum& sum, const Tensor& shape) {
    if (messages_.size() > 1) exchange_addends(sum);
    returned_.clear();
    for (int r = 0; r < messages_.size(); ++r) {
      std::byte* const at = r == messages_.rank()
                                ? sum.held
                                : scratch_.received.data() +
                                      static_cast<std::size_t>(r) * sum.codec.wire_bytes(sum.n);
      returned_.push_back(Tensor::borrow(at, shape.rows(), shape.cols(), shape.dtype()));
    }
    return returned_;
  }

  Messages& messages_;
  Algorithm algorithm_;
  WireFormat wire_;
  HeldAddend held_;
  MessageScratch scratch_;
  std::vector<int> members_;
  std::vector<Tensor> returned_;
};

}  // namespace

std::unique_ptr<AllReducer> make_message_reducer(Messages& messages, Backend& backend,
                                                 Algorithm algorithm, WireFormat wire) {
  if (algorithm < Algorithm::direct || algorithm > Algorithm::tree) {
    fail(ExitCode::bug, {.what = "make_message_reducer",
                         .expected = "an algorithm by messages",
                         .found = std::string(name(algorithm))});
  }
  return std::make_unique<MessageReducer>(messages, backend, algorithm, wire);
}

}  // namespace shardlm
