// What it costs to record a call: the two readings of the clock, and the record's way into a ring
// that does not fit into the caches near the core.
#include <benchmark/benchmark.h>

#include "comm/call_record.h"

namespace shardlm {
namespace {

constexpr std::size_t kCalls = 1 << 16;  // 6 MiB

void read_ticks(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ticks());
  state.SetLabel(ticks_are_tsc() ? "time-stamp counter" : "steady clock");
}
BENCHMARK(read_ticks)->Repetitions(5)->ReportAggregatesOnly();

void read_steady_clock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(steady_ns());
}
BENCHMARK(read_steady_clock)->Repetitions(5)->ReportAggregatesOnly();

// Begin, end, store; with argument 1 also the reading between waiting and transfer.
void record_a_call(benchmark::State& state) {
  CallLog log(kCalls, 1);
  log.begin_step({1, Phase::decode, 1});
  const bool tells_wait = state.range(0) != 0;
  std::uint64_t number = 0;
  for (auto _ : state) {
    RecordedCall recorded(log, {Op::all_reduce, {SiteKind::attn_out, 3}, ++number});
    if (tells_wait) recorded.all_entered();
    recorded.end("shm-oneshot", DType::f32, 3072, 3072);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(record_a_call)
    ->ArgName("tells_wait")
    ->Arg(0)
    ->Arg(1)
    ->Repetitions(5)
    ->ReportAggregatesOnly();

void record_nothing(benchmark::State& state) {
  CallLog log;
  std::uint64_t number = 0;
  for (auto _ : state) {
    RecordedCall recorded(log, {Op::all_reduce, {SiteKind::attn_out, 3}, ++number});
    recorded.end("shm-oneshot", DType::f32, 3072, 3072);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(record_nothing)->Repetitions(5)->ReportAggregatesOnly();

}  // namespace
}  // namespace shardlm

BENCHMARK_MAIN();
