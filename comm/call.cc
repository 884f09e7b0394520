#include "comm/call.h"

#include <fmt/format.h>

#include <cstddef>
#include <ctime>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr double kCoordinatorFirst_s = 5;

std::string_view op_text(Op op) {
  switch (op) {
    case Op::all_reduce:
      return "all_reduce";
    case Op::broadcast:
      return "broadcast";
    case Op::gather:
      return "gather";
    case Op::barrier:
      return "barrier";
  }
  return "unknown call";
}

// " (rank 2 was last seen in …, rank 3 never)"
std::string last_seen_text(std::span<const LastSeen> last) {
  if (last.empty()) return {};
  std::string text;
  for (const LastSeen& seen : last) {
    text += fmt::format("{}rank {} was ", text.empty() ? " (" : ", ", seen.rank);
    text += seen.call.number == 0 ? "never seen" : "last seen in " + call_text(seen.call);
  }
  return text + ")";
}

}  // namespace

std::string call_text(const Call& call) {
  return fmt::format("{} at {} (call {})", op_text(call.op), site_text(call.site), call.number);
}

double wait_limit(const Call& call, bool waits_for_root, const Deadlines& deadlines) {
  const double limit = call.site.kind == SiteKind::load ? deadlines.load_s : deadlines.collective_s;
  if (limit <= 0) return 0;
  return call.op == Op::broadcast && waits_for_root ? limit_behind(limit) : limit;
}

double limit_behind(double limit_s) { return limit_s <= 0 ? 0 : limit_s + kCoordinatorFirst_s; }

std::string ranks_text(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string waited_text(double limit_s, std::chrono::system_clock::time_point now) {
  const auto waited = std::chrono::duration<double>(limit_s);
  const std::time_t since = std::chrono::system_clock::to_time_t(
      now - std::chrono::duration_cast<std::chrono::system_clock::duration>(waited));
  std::tm utc{};
  gmtime_r(&since, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &utc);
  return fmt::format("within {:g} s, since {} UTC", limit_s, text);
}

void fail_missing(const Call& call, std::span<const int> ranks, double limit_s,
                  std::span<const LastSeen> last) {
  const char* remedy =
      "see in its own messages and on its host whether it is dead or stopped; if it is only slow, "
      "allow more time";
  fail(ExitCode::peer,
       {.what = fmt::format("{} did not come to {} {}{}", ranks_text(ranks), call_text(call),
                            waited_text(limit_s), last_seen_text(last)),
        .remedy = remedy});
}

void fail_departed(const Call& call, std::span<const int> ranks) {
  fail(ExitCode::peer, {.what = fmt::format("{} left the job; this rank still waits in {}",
                                            ranks_text(ranks), call_text(call)),
                        .remedy = "the cause is in the messages of the rank that left"});
}

void fail_out_of_step(const Call& call, int peer, const std::string& expected,
                      const std::string& found) {
  fail(ExitCode::bug, {.what = fmt::format("rank {} is out of step in {}", peer, call_text(call)),
                       .expected = expected,
                       .found = found});
}

}  // namespace shardlm
