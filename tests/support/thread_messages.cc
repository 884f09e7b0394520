#include "tests/support/thread_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/support/first_error.h"

namespace shardlm {
namespace {

struct Letter {
  Call call;
  std::vector<std::byte> copy;      // of a small one
  std::span<const std::byte> text;  // the copy, or the sender's memory
  bool* taken = nullptr;            // of the sender, who waits for it; none: it does not wait
};

bool same_call(const Call& a, const Call& b) {
  return a.op == b.op && a.number == b.number && a.site.kind == b.site.kind &&
         a.site.layer == b.site.layer;
}

}  // namespace

struct ThreadPost::Mail {
  Mail(int size, const ThreadMessageOptions& mail_options)
      : n(static_cast<std::size_t>(size)), options(mail_options), news(n), boxes(n * n), gone(n) {}
  void tell(int rank) { news[static_cast<std::size_t>(rank)].notify_all(); }
  std::deque<Letter>& box(int from, int to) {
    return boxes[static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to)];
  }

  std::size_t n;
  ThreadMessageOptions options;
  std::mutex mutex;                           // of all that follows
  std::vector<std::condition_variable> news;  // of each rank
  std::vector<std::deque<Letter>> boxes;
  std::vector<bool> gone;
};

class ThreadPost::End final : public Messages {
 public:
  End(Mail& mail, int rank) : mail_(mail), rank_(rank) {}
  ~End() override {
    const std::lock_guard lock(mail_.mutex);
    forget();
    mail_.gone[static_cast<std::size_t>(rank_)] = true;
    for (int r = 0; r < size(); ++r) mail_.tell(r);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(mail_.n); }
  void send(const Call& call, std::span<const std::byte> from, int to_rank) override;
  void receive(std::span<std::byte> to, int from_rank) override {
    awaited_.push_back({to, from_rank, true});
  }
  void receive_up_to(std::span<std::byte> to, int from_rank) override {
    awaited_.push_back({to, from_rank, false});
  }
  void finish(const Call& call, bool indirect) override;

 private:
  struct Awaited {
    std::span<std::byte> to;
    int from = 0;
    bool exact = true;
  };
  struct Sent {
    int to = 0;
    bool taken = false;
  };

  bool all_done(const Call& call);
  static void read(const Call& call, const Letter& letter, const Awaited& awaited);
  std::vector<int> missing() const;
  void fail_if_departed(const Call& call) const;
  void forget();

  Mail& mail_;
  int rank_;
  bool broken_ = false;
  std::vector<Awaited> awaited_;
  std::list<Sent> sent_;  // a list: letters point into it
};

void ThreadPost::End::send(const Call& call, std::span<const std::byte> from, int to_rank) {
  count_sent(from.size());
  Letter letter{call, {}, from, nullptr};
  if (from.size() <= mail_.options.eager_bytes) {
    letter.copy.assign(from.begin(), from.end());
    letter.text = letter.copy;
  } else {
    letter.taken = &sent_.emplace_back(Sent{to_rank}).taken;
  }
  const std::lock_guard lock(mail_.mutex);
  mail_.box(rank_, to_rank).push_back(std::move(letter));
  mail_.tell(to_rank);
}

void ThreadPost::End::finish(const Call& call, bool indirect) {
  check(!broken_, "no message after a call that failed");
  const double own = wait_limit(call, false, mail_.options.deadlines);
  const double limit_s = indirect ? limit_behind(own) : own;
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(limit_s));
  std::unique_lock lock(mail_.mutex);
  std::condition_variable& news = mail_.news[static_cast<std::size_t>(rank_)];
  try {
    while (!all_done(call)) {
      fail_if_departed(call);
      if (limit_s <= 0) {
        news.wait(lock);
      } else if (news.wait_until(lock, deadline) == std::cv_status::timeout && !all_done(call)) {
        fail_missing(call, missing(), limit_s);
      }
    }
  } catch (...) {
    broken_ = true;
    forget();
    throw;
  }
  sent_.clear();
}

// Takes what has come; true if nothing is awaited any more.
bool ThreadPost::End::all_done(const Call& call) {
  std::set<int> blocked;  // messages from a rank are taken in their order
  for (auto awaited = awaited_.begin(); awaited != awaited_.end();) {
    std::deque<Letter>& box = mail_.box(awaited->from, rank_);
    if (blocked.contains(awaited->from) || box.empty()) {
      blocked.insert(awaited->from);
      ++awaited;
      continue;
    }
    read(call, box.front(), *awaited);
    if (box.front().taken != nullptr) {
      *box.front().taken = true;
      mail_.tell(awaited->from);
    }
    box.pop_front();
    awaited = awaited_.erase(awaited);
  }
  return awaited_.empty() && std::ranges::all_of(sent_, &Sent::taken);
}

void ThreadPost::End::read(const Call& call, const Letter& letter, const Awaited& awaited) {
  const std::size_t bytes = letter.text.size();
  const bool fits = awaited.exact ? bytes == awaited.to.size() : bytes <= awaited.to.size();
  if (!same_call(call, letter.call) || !fits) {
    fail_out_of_step(call, awaited.from,
                     fmt::format("{}{} bytes", awaited.exact ? "" : "at most ", awaited.to.size()),
                     fmt::format("{} with {} bytes", call_text(letter.call), bytes));
  }
  if (bytes > 0) std::memcpy(awaited.to.data(), letter.text.data(), bytes);
}

std::vector<int> ThreadPost::End::missing() const {
  std::set<int> ranks;
  for (const Awaited& awaited : awaited_) ranks.insert(awaited.from);
  for (const Sent& sent : sent_) {
    if (!sent.taken) ranks.insert(sent.to);
  }
  return {ranks.begin(), ranks.end()};
}

void ThreadPost::End::fail_if_departed(const Call& call) const {
  std::vector<int> departed = missing();
  std::erase_if(departed, [this](int r) { return !mail_.gone[static_cast<std::size_t>(r)]; });
  if (!departed.empty()) fail_departed(call, departed);
}

// Letters that point to this rank's memory are taken back.
void ThreadPost::End::forget() {
  for (int to = 0; to < size(); ++to) {
    std::erase_if(mail_.box(rank_, to), [](const Letter& l) { return l.taken != nullptr; });
  }
  awaited_.clear();
  sent_.clear();
}

ThreadPost::ThreadPost(int size, const ThreadMessageOptions& options)
    : mail_(std::make_unique<Mail>(size, options)) {}
ThreadPost::~ThreadPost() = default;

std::unique_ptr<Messages> ThreadPost::join(int rank) { return std::make_unique<End>(*mail_, rank); }

void run_message_ranks(int size, const std::function<void(int, Messages&)>& body,
                       const ThreadMessageOptions& options) {
  ThreadPost post(size, options);
  std::vector<std::unique_ptr<Messages>> ends;
  for (int r = 0; r < size; ++r) ends.push_back(post.join(r));
  FirstError first_error;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        try {
          body(r, *ends[static_cast<std::size_t>(r)]);
        } catch (...) {
          // Before this rank's end goes and the others notice: the cause comes before its effects.
          first_error.record(std::current_exception());
        }
        ends[static_cast<std::size_t>(r)].reset();
      });
    }
  }
  first_error.rethrow();
}

}  // namespace shardlm
