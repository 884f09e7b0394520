#include "comm/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "comm/add_up.h"
#include "comm/residual_rows.h"

namespace shardlm {
namespace {

std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(bits(dtype) / 8); }

std::size_t message_bytes(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * cols * element_bytes(dtype));
}

std::unique_ptr<Background> make_background(Overlap overlap) {
  if (overlap == Overlap::thread) return make_background_thread();
  if (overlap == Overlap::poll) return make_background_fiber();
  return nullptr;
}

}  // namespace

HostCommunicator::HostCommunicator(Transport transport, Backend& backend,
                                   const AlgorithmTable& table, Overlap overlap)
    : transport_(std::move(transport)),
      backend_(backend),
      table_(table),
      background_(make_background(overlap)) {
  of_rule_ = make_reducers(table_.rules());
  if (overlap == Overlap::poll) backend_.set_poll([this] { background_->poll(); });
}

// For each rule; equal choices share a reducer.
std::vector<HostCommunicator::Chosen> HostCommunicator::make_reducers(
    const std::vector<AllReduceRule>& rules) {
  std::vector<Chosen> of_rule;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const auto same = std::find_if(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const auto& r) { return r.choice == rules[i].choice; });
    const auto at = static_cast<std::size_t>(same - rules.begin());
    if (at < i) {
      of_rule.push_back(of_rule[at]);
      continue;
    }
    reducers_.push_back(transport_.make_reducer(rules[i].choice));
    names_.push_back(std::make_unique<std::string>(choice_text(rules[i].choice)));
    of_rule.push_back({reducers_.back().get(), names_.back()->c_str()});
  }
  return of_rule;
}

HostCommunicator::~HostCommunicator() {
  if (background_) backend_.set_poll({});
}

std::string HostCommunicator::describe() const {
  return fmt::format("{}: {}", transport_.description, table_.text());
}

Exactness HostCommunicator::exactness(bool fixed_point) const {
  Exactness worst = Exactness::exact;
  for (const AllReduceRule& rule : table_.rules()) {
    worst =
        std::max(worst, shardlm::exactness(rule.choice.algorithm, rule.choice.wire, fixed_point));
    if (rule.fits_all()) break;  // nothing comes to those behind it
  }
  return worst;
}

void HostCommunicator::set_rounding(bool on) {
  check(n_started_ == n_finished_, "rounding changes while no sum is under way");
  if (!on && unrounded_of_rule_.empty()) {
    std::vector<AllReduceRule> rules = table_.rules();
    for (AllReduceRule& rule : rules) rule.choice.wire = WireFormat::f32;
    unrounded_of_rule_ = make_reducers(rules);
  }
  rounding_ = on;
}

const HostCommunicator::Chosen& HostCommunicator::choose(Site site, std::size_t bytes) const {
  const auto rule = table_.find(site, log_.step.phase, bytes);
  check(rule.has_value(), "the algorithm table has a rule for every call");
  return (rounding_ ? of_rule_ : unrounded_of_rule_)[*rule];
}

const HostCommunicator::Chosen& HostCommunicator::choose(Site site, const Tensor& addend) const {
  return choose(site, message_bytes(addend.rows(), addend.cols(), addend.dtype()));
}

std::optional<Tensor> HostCommunicator::addend(Site site, std::int64_t rows, std::int64_t cols,
                                               DType dtype) {
  const Chosen& chosen = choose(site, message_bytes(rows, cols, dtype));
  return chosen.reducer->addend({Op::all_reduce, site, calls_ + 1}, rows, cols, dtype);
}

// ---- all_reduce ----

// Calls use(addends whose sum is that of rows [begin, end), begin, end) for all rows. The addends
// hold until it returns.
template <class Use>
void HostCommunicator::reduce_in_chunks(AllReducer& reducer, const Call& call, const Tensor& addend,
                                        Use&& use) {
  const std::size_t row_bytes =
      message_bytes(1, std::max<std::int64_t>(addend.cols(), 1), addend.dtype());
  const auto rows_at_once = static_cast<std::int64_t>(std::min<std::size_t>(
      reducer.most_bytes() / row_bytes, std::numeric_limits<std::int32_t>::max()));
  std::int64_t begin = 0;
  do {  // once even for no rows: ranks meet in every call
    const std::int64_t end = std::min(addend.rows(), begin + rows_at_once);
    use(reducer.reduce(call, addend.row_range(begin, end)), begin, end);
    reducer.release();
    begin = end;
  } while (begin < addend.rows());
}

// A row that is larger than any message: piece after piece of its columns.
void HostCommunicator::sum_wide_row(AllReducer& reducer, const Call& call, const Tensor& row,
                                    const Tensor& sum) {
  const auto piece = static_cast<std::int64_t>(reducer.most_bytes()) / element_bytes(row.dtype());
  for (std::int64_t begin = 0; begin < row.cols(); begin += piece) {
    const std::int64_t end = std::min(row.cols(), begin + piece);
    add_up(reducer.reduce(call, row.columns(begin, end)), sum.columns(begin, end));
    reducer.release();
  }
}

namespace {

bool has_wide_rows(const AllReducer& reducer, const Tensor& addend) {
  return addend.rows() > 0 &&
         message_bytes(1, addend.cols(), addend.dtype()) > reducer.most_bytes();
}

}  // namespace

void HostCommunicator::all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) {
  check_update(addend, update);
  check(n_started_ == n_finished_, "no all_reduce while one is under way");
  const Call call = begin(Op::all_reduce, site);
  RecordedCall recorded(log_, call);
  const auto& [reducer, name] = choose(site, addend);
  const std::uint64_t sent_before = reducer->sent_bytes();
  if (has_wide_rows(*reducer, addend)) {
    wide_sum_.resize(message_bytes(1, addend.cols(), addend.dtype()));
    const Tensor sum = Tensor::borrow(wide_sum_.data(), 1, addend.cols(), addend.dtype());
    for (std::int64_t t = 0; t < addend.rows(); ++t) {
      sum_wide_row(*reducer, call, addend.row_range(t, t + 1), sum);
      update_residual_rows(backend_, {&sum, 1}, update, t, t + 1);
      backend_.synchronize();  // the sum's memory is used again
    }
  } else {
    reduce_in_chunks(*reducer, call, addend,
                     [&](std::span<const Tensor> addends, std::int64_t first, std::int64_t last) {
                       if (first == 0 && log_.tells_wait && reducer->only_waits())
                         recorded.all_entered();
                       update_residual_rows(backend_, addends, update, first, last);
                       backend_.synchronize();  // then the peers may overwrite what was read
                     });
  }
  recorded.end(name, addend.dtype(), message_bytes(addend.rows(), addend.cols(), addend.dtype()),
               reducer->sent_bytes() - sent_before);
}

// ---- all_reduce in the background ----

bool HostCommunicator::overlaps() const {
  return background_ && log_.step.phase == Phase::prefill && log_.step.rows >= 2;
}

void HostCommunicator::start_all_reduce(Site site, const Tensor& addend) {
  check(overlaps() && n_started_ - n_finished_ < kMostStarted, "a sum may be started");
  Started& s = started_[n_started_++ % kMostStarted];
  s.call = begin(Op::all_reduce, site);
  s.addend = addend;
  s.record = {};
  const Chosen& chosen = choose(site, addend);
  s.memory.resize(message_bytes(addend.rows(), addend.cols(), addend.dtype()));
  s.sum = Tensor::borrow(s.memory.data(), addend.rows(), addend.cols(), addend.dtype());
  backend_.synchronize();  // the addend is there
  background_->start([this, &s, &chosen] { sum_in_background(s, chosen); });
}

void HostCommunicator::sum_in_background(Started& s, const Chosen& chosen) {
  const bool on = log_.on();
  s.record.call = s.call;
  s.record.algorithm = chosen.name;
  s.record.dtype = s.addend.dtype();
  s.record.bytes = s.memory.size();
  s.record.start = on ? ticks() : 0;
  const std::uint64_t sent_before = chosen.reducer->sent_bytes();
  if (has_wide_rows(*chosen.reducer, s.addend)) {
    for (std::int64_t t = 0; t < s.addend.rows(); ++t)
      sum_wide_row(*chosen.reducer, s.call, s.addend.row_range(t, t + 1),
                   s.sum.row_range(t, t + 1));
  } else {
    reduce_in_chunks(*chosen.reducer, s.call, s.addend,
                     [&](std::span<const Tensor> addends, std::int64_t first, std::int64_t last) {
                       add_up(addends, s.sum.row_range(first, last));
                     });
  }
  s.record.wire_tx = static_cast<std::int64_t>(chosen.reducer->sent_bytes() - sent_before);
  s.record.end = on ? ticks() : 0;
}

void HostCommunicator::finish_all_reduce(const ResidualUpdate& update) {
  check(n_finished_ < n_started_, "an all_reduce is finished that was not started");
  Started& s = started_[n_finished_++ % kMostStarted];
  check_update(s.addend, update);
  const std::int64_t before = log_.on() ? ticks() : 0;
  background_->wait();
  if (log_.on()) {
    s.record.step = log_.step;
    s.record.blocked = ticks() - before;
    log_.calls.add(s.record);
  }
  update_residual_rows(backend_, {&s.sum, 1}, update, 0, s.addend.rows());
  backend_.synchronize();  // the sum's memory is used again
  s.addend = Tensor();     // back to the pool
}

// ---- the others ----

void HostCommunicator::broadcast(Site site, std::vector<std::byte>& message, int root) {
  const Call call = begin(Op::broadcast, site);
  RecordedCall recorded(log_, call);
  recorded.set_root(root);
  const std::uint64_t sent_before = transport_.meetings->sent_bytes();
  transport_.meetings->broadcast(call, message, root);
  recorded.end(transport_.meetings_name, DType::u8, message.size(),
               transport_.meetings->sent_bytes() - sent_before);
}

void HostCommunicator::gather(Site site, std::span<const std::byte> mine,
                              std::vector<std::vector<std::byte>>& all, int root) {
  const Call call = begin(Op::gather, site);
  RecordedCall recorded(log_, call);
  recorded.set_root(root);
  const std::uint64_t sent_before = transport_.meetings->sent_bytes();
  transport_.meetings->gather(call, mine, all, root);
  recorded.end(transport_.meetings_name, DType::u8, mine.size(),
               transport_.meetings->sent_bytes() - sent_before);
}

void HostCommunicator::barrier(Site site) {
  const Call call = begin(Op::barrier, site);
  RecordedCall recorded(log_, call);
  const std::uint64_t sent_before = transport_.meetings->sent_bytes();
  transport_.meetings->barrier(call);
  recorded.end(transport_.meetings_name, DType::u8, 0,
               transport_.meetings->sent_bytes() - sent_before);
}

}  // namespace shardlm
