// What `shardlm bench` times: the steps of generate() themselves, without text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/coordinator.h"
#include "model/config.h"

namespace shardlm {

/// prefill: `tokens` prompt tokens of each of `batch` sequences from an empty cache, to the last
/// one's first id. decode: `tokens` steps after a prompt of one token each.
struct BenchTest {
  enum class Kind { prefill, decode };
  Kind kind = Kind::prefill;
  std::int64_t tokens = 0;
  std::int64_t batch = 1;

  std::string name() const;  ///< "pp128", "tg64"
};

struct BenchSetup {
  std::int64_t n_positions = 0;
  std::int64_t vocab_size = 0;
  std::int64_t block_tokens = 32;
  std::int64_t prefill_chunk = 512;
};

/// Error(usage) if a sequence of the test needs more positions than there are.
void check_fits(const BenchTest& test, std::int64_t n_positions);

std::int64_t bench_blocks(const BenchTest& test, const BenchSetup& setup);  ///< KV blocks
std::int64_t bench_rows(const BenchTest& test, const BenchSetup& setup);    ///< of the largest step

/// Forward passes that a run of the test makes at most, what comes before decoding included.
std::int64_t bench_passes(const BenchTest& test, const BenchSetup& setup);

/// One run of a test, in seconds of steady_seconds(): of a prefill from its start to the last
/// sequence's first id, of decoding from the first ids to the last.
struct BenchTiming {
  double begin_s = 0, end_s = 0;
  std::int64_t passes = 0;     ///< forward passes in between
  std::vector<double> gaps_s;  ///< of decoding: from an id to the next one, [passes]
  double seconds() const { return end_s - begin_s; }
};

/// Runs the test once with greedy sampling. The prompts are the same in every run.
BenchTiming run_bench_test(Coordinator& coordinator, const BenchTest& test,
                           const BenchSetup& setup);

/// Floating-point operations that the model asks for (a multiply-add is two): the blocks' matrices
/// for every token, causal attention, logits for the rows that are sampled from.
double bench_flops(const ModelConfig& config, const BenchTest& test);

}  // namespace shardlm
