#include "study/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "study/call_split.h"
#include "study/rank_segments.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

// No two threads have one number, and none has 0, which Perfetto keeps for the idle task: it would
// draw the ranks' threads of that number as one.
std::size_t compute_thread(std::size_t rank) { return 2 * rank + 1; }
std::size_t communication_thread(std::size_t rank) { return 2 * rank + 2; }

// Names of colours that the viewers know.
constexpr const char* kWaitColour = "terrible";
constexpr const char* kCallColour = "thread_state_running";

const char* collective_name(Op op) {
  switch (op) {
    case Op::all_reduce:
      return "allreduce";
    case Op::broadcast:
      return "broadcast";
    case Op::gather:
      return "gather";
    case Op::barrier:
      return "barrier";
  }
  return "";
}

const char* dtype_name_of(DType dtype) {  // as PyTorch has it
  switch (dtype) {
    case DType::f32:
      return "Float";
    case DType::i64:
      return "Long";
    default:
      return "Byte";
  }
}

class TraceWriter {
 public:
  TraceWriter(const MergedRun& run, std::ostream& to) : run_(run), to_(to) {
    for (const MergedRank& rank : run.ranks) zero_ns_ = std::min(zero_ns_, rank.run_ns);
    for (const RankPart& part : run.parts) zero_ns_ = std::min(zero_ns_, part.entry);
  }

  void write(const std::string& title) {
    to_ << R"({"displayTimeUnit":"ns","otherData":)";
    to_ << Json({{"title", title},
                 {"clock", run_.clock},
                 {"clock_error_ns", run_.clock_error_ns},
                 {"split", split_text(run_.split)},
                 {"causality_violations", run_.violations}})
               .dump();
    to_ << ",\n\"traceEvents\":[";
    for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) {
      write_names(rank);
      write_computation(rank);
      for (std::size_t call = 0; call < run_.calls.size(); ++call) write_call(call, rank);
    }
    for (std::size_t call = 0; call < run_.calls.size(); ++call) write_flows(call);
    to_ << "\n]}\n";
  }

 private:
  void put(const Json& event) {
    to_ << (first_ ? "\n" : ",\n") << event.dump();
    first_ = false;
  }
  // Microseconds from the first event on; nanoseconds are the three digits behind the point.
  double us(std::int64_t ns) const { return static_cast<double>(ns - zero_ns_) / 1e3; }

  void write_names(std::size_t rank) {
    const RankIdentity& who = run_.ranks[rank].who;
    const auto name = [&](const char* what, std::size_t thread, const Json& args) {
      put({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"ts", 0}, {"args", args}});
    };
    name("process_name", compute_thread(rank),
         {{"name", fmt::format("rank {} @ {} core {}", rank, who.host, who.cores)}});
    name("process_sort_index", compute_thread(rank), {{"sort_index", rank}});
    name("thread_name", compute_thread(rank), {{"name", "compute"}});
    name("thread_name", communication_thread(rank), {{"name", "communication"}});
  }

  void put_span(std::size_t rank, std::size_t thread, std::string_view name, const char* category,
                std::int64_t begin_ns, std::int64_t ns, const char* colour, Json args) {
    Json event = {{"ph", "X"},
                  {"name", name},
                  {"cat", category},
                  {"pid", rank},
                  {"tid", thread},
                  {"ts", us(begin_ns)},
                  {"dur", static_cast<double>(ns) / 1e3}};
    if (colour != nullptr) event["cname"] = colour;
    event["args"] = std::move(args);
    put(event);
  }

  void write_computation(std::size_t rank) {
    for (const RankSegment& s : rank_segments(run_, rank)) {
      if (s.kind == SegmentKind::call) continue;
      put_span(rank, compute_thread(rank), segment_name(run_, rank, s),
               s.kind == SegmentKind::compute ? "compute" : "sample", s.begin, s.ns(), nullptr,
               {{"step", s.step}, {"phase", phase_text(s.phase)}});
    }
  }

  Json call_args(std::size_t index, std::size_t rank) const {
    const MergedCall& call = run_.calls[index];
    const RankPart& part = run_.parts_of(index)[rank];
    const std::uint64_t elements = part.bytes * 8 / bits(call.dtype);
    return {{"Collective name", collective_name(call.call.op)},
            {"Group size", run_.ranks.size()},
            {"In msg nelems", elements},
            {"Out msg nelems", elements},
            {"dtype", dtype_name_of(call.dtype)},
            {"Rank", rank},
            {"Process Group Name", "tensor parallel"},
            {"seq", call.call.number % kDeviceNumbers},
            {"Comms Id", call.call.number},
            {"algo", call.algorithm},
            {"layer", call.call.site.layer},
            {"step", call.step.number},
            {"phase", phase_text(call.step.phase)},
            {"bytes", part.bytes},
            {"wire_tx", part.wire_tx},
            {"hidden_us", static_cast<double>(part.hidden()) / 1e3},
            {"wait_us", static_cast<double>(part.wait) / 1e3},
            {"transfer_us", static_cast<double>(part.transfer()) / 1e3},
            {"skew_us", static_cast<double>(call.skew) / 1e3}};
  }

  void write_call(std::size_t index, std::size_t rank) {
    const Call& call = run_.calls[index].call;
    const RankPart& part = run_.parts_of(index)[rank];
    put_span(rank, communication_thread(rank),
             fmt::format("{} {}", collective_name(call.op), site_text(call.site)), "comm",
             part.entry, part.call(), kCallColour, call_args(index, rank));
    if (part.wait == 0) return;
    put_span(rank, communication_thread(rank), "wait", "wait", part.entry, part.wait, kWaitColour,
             {{"seq", call.number}});
  }

  // To who waited, from whom it waited for.
  void write_flows(std::size_t index) {
    const MergedCall& call = run_.calls[index];
    const auto parts = run_.parts_of(index);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const auto from = released_by(call, parts, rank);
      if (!from || parts[rank].exit <= parts[*from].entry) continue;
      const std::uint64_t id = index * parts.size() + rank + 1;
      const auto arrow = [&](const char* end, std::size_t at, std::int64_t ns) {
        put({{"ph", end},
             {"bp", "e"},  // to the event around it, not to the next one
             {"name", collective_name(call.call.op)},
             {"cat", "comm"},
             {"id", id},
             {"pid", at},
             {"tid", communication_thread(at)},
             {"ts", us(ns)}});
      };
      arrow("s", *from, parts[*from].entry);
      arrow("f", rank, parts[rank].exit - 1);  // the end itself lies outside
    }
  }

  const MergedRun& run_;
  std::ostream& to_;
  std::int64_t zero_ns_ = std::numeric_limits<std::int64_t>::max();
  bool first_ = true;
};

}  // namespace

void write_trace(const MergedRun& run, const std::string& title, std::ostream& to) {
  TraceWriter(run, to).write(title);
}

}  // namespace shardlm
