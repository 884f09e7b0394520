#include "comm/checked_communicator.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr Site kControl{SiteKind::step};

}  // namespace

std::string CheckedCommunicator::text_of(const Intent& intent) {
  const Call call{intent.op, {intent.kind, intent.layer}, intent.number};
  std::string text = call_text(call);
  if (intent.op == Op::all_reduce) {
    text += fmt::format(
        " of [{}, {}] {}, {} bytes", intent.rows, intent.cols, name(intent.dtype),
        stored_bytes(intent.dtype, static_cast<std::uint64_t>(intent.rows * intent.cols)));
  }
  if (intent.root >= 0) text += fmt::format(" with root {}", intent.root);
  return text;
}

// Empty if there is none.
std::string CheckedCommunicator::difference(const std::vector<std::vector<std::byte>>& intents) {
  std::vector<Intent> all(intents.size());
  for (std::size_t r = 0; r < intents.size(); ++r) {
    check(intents[r].size() == sizeof(Intent), "an intent of another size");
    std::memcpy(&all[r], intents[r].data(), sizeof(Intent));
    if (all[r] == all[0]) continue;
    return shardlm::describe({.what = fmt::format("ranks 0 and {} make different collectives", r),
                              .expected = fmt::format("rank 0's {}", text_of(all[0])),
                              .found = fmt::format("rank {}'s {}", r, text_of(all[r])),
                              .remedy = "a fault of the program: please report it"});
  }
  return "";
}

void CheckedCommunicator::check_same(Intent mine, Op op, Site site) {
  mine.number = ++calls_;
  mine.op = op;
  mine.kind = site.kind;
  mine.layer = site.layer;
  std::vector<std::vector<std::byte>> all;
  control_.gather(kControl, std::as_bytes(std::span(&mine, 1)), all, 0);
  std::vector<std::byte> verdict;
  if (control_.rank() == 0) {
    const std::string text = difference(all);
    const auto bytes = std::as_bytes(std::span(text));
    verdict.assign(bytes.begin(), bytes.end());
  }
  control_.broadcast(kControl, verdict, 0);
  if (verdict.empty()) return;
  throw Error(ExitCode::bug,
              std::string(reinterpret_cast<const char*>(verdict.data()), verdict.size()));
}

void CheckedCommunicator::all_reduce(Site site, const Tensor& addend,
                                     const ResidualUpdate& update) {
  check_same({.rows = addend.rows(), .cols = addend.cols(), .dtype = addend.dtype()},
             Op::all_reduce, site);
  BorrowedCommunicator::all_reduce(site, addend, update);
}

void CheckedCommunicator::broadcast(Site site, std::vector<std::byte>& message, int root) {
  check_same({.root = root}, Op::broadcast, site);
  BorrowedCommunicator::broadcast(site, message, root);
}

void CheckedCommunicator::gather(Site site, std::span<const std::byte> mine,
                                 std::vector<std::vector<std::byte>>& all, int root) {
  check_same({.root = root}, Op::gather, site);
  BorrowedCommunicator::gather(site, mine, all, root);
}

void CheckedCommunicator::barrier(Site site) {
  check_same({}, Op::barrier, site);
  BorrowedCommunicator::barrier(site);
}

}  // namespace shardlm
