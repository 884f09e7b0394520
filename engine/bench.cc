#include "engine/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/philox.h"
#include "engine/generate.h"

namespace shardlm {
namespace {

using Kind = BenchTest::Kind;

std::int64_t prompt_tokens(const BenchTest& test) {
  return test.kind == Kind::prefill ? test.tokens : 1;
}

// Positions that the keys and values of a sequence fill: the last id is sampled and not read again.
std::int64_t positions(const BenchTest& test) {
  return test.kind == Kind::prefill ? test.tokens : test.tokens + 1;
}

std::vector<Request> bench_requests(const BenchTest& test, std::int64_t vocab_size) {
  std::vector<Request> requests(static_cast<std::size_t>(test.batch));
  for (std::size_t s = 0; s < requests.size(); ++s) {
    Request& r = requests[s];
    for (std::int64_t i = 0; i < prompt_tokens(test); ++i) {
      const auto words =
          philox4x32_10({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(s), 0, 0}, {});
      r.prompt.push_back(
          static_cast<std::int32_t>(words[0] % static_cast<std::uint64_t>(vocab_size)));
    }
    r.sampling.temperature = 0;
    r.max_tokens = test.kind == Kind::prefill ? 1 : test.tokens + 1;
    r.ignore_eos = true;
  }
  return requests;
}

GenerateSetup generate_setup(const BenchTest& test, const BenchSetup& setup) {
  GenerateSetup generate;
  generate.n_positions = setup.n_positions;
  generate.vocab_size = setup.vocab_size;
  generate.block_tokens = setup.block_tokens;
  generate.limits = {.prefill_chunk = setup.prefill_chunk, .max_batch = test.batch};
  // All sequences decode from the first step on.
  if (test.kind == Kind::decode) generate.limits.prefill_chunk = test.batch;
  return generate;
}

}  // namespace

std::string BenchTest::name() const {
  return fmt::format("{}{}", kind == Kind::prefill ? "pp" : "tg", tokens);
}

void check_fits(const BenchTest& test, std::int64_t n_positions) {
  if (positions(test) <= n_positions) return;
  const bool prefill = test.kind == Kind::prefill;
  fail(ExitCode::usage,
       {.expected = fmt::format("at most {} (n_positions {}{})", n_positions - (prefill ? 0 : 1),
                                n_positions, prefill ? "" : ", of which the prompt takes one"),
        .found = std::to_string(test.tokens),
        .where = prefill ? "--prompt" : "--generate",
        .remedy = "fewer tokens (0: none), or a model with a longer context"});
}

std::int64_t bench_blocks(const BenchTest& test, const BenchSetup& setup) {
  return test.batch * ((positions(test) + setup.block_tokens - 1) / setup.block_tokens);
}

std::int64_t bench_rows(const BenchTest& test, const BenchSetup& setup) {
  const std::int64_t prompts = test.batch * prompt_tokens(test);
  return test.kind == Kind::prefill ? std::min(prompts, setup.prefill_chunk) : prompts;
}

std::int64_t bench_passes(const BenchTest& test, const BenchSetup& setup) {
  if (test.kind == Kind::decode) return test.tokens + 1;
  // A sequence's last piece may leave room that no other sequence fills.
  const std::int64_t pieces = (test.tokens + setup.prefill_chunk - 1) / setup.prefill_chunk;
  return test.batch * pieces;
}

BenchTiming run_bench_test(Coordinator& coordinator, const BenchTest& test,
                           const BenchSetup& setup) {
  std::vector<Request> requests = bench_requests(test, setup.vocab_size);
  GenerateSetup run = generate_setup(test, setup);
  std::vector<double> read_s;  // at the start, and after each pass
  read_s.reserve(static_cast<std::size_t>(bench_passes(test, setup)) + 1);
  run.clock = [&read_s] { return read_s.emplace_back(steady_seconds()); };
  GenerateTiming unused;
  const std::vector<Sequence> sequences =
      generate(coordinator, run, std::move(requests), bench_blocks(test, setup), {}, unused);
  for (const Sequence& s : sequences) {
    check(std::ssize(s.ids()) == (test.kind == Kind::prefill ? 1 : test.tokens + 1),
          "a benchmark's sequence has all its ids");
  }
  const std::size_t first = test.kind == Kind::prefill ? 0 : 1;
  check(read_s.size() > first + 1, "a benchmark has a pass");
  BenchTiming timing{.begin_s = read_s[first],
                     .end_s = read_s.back(),
                     .passes = static_cast<std::int64_t>(read_s.size() - first - 1),
                     .gaps_s = {}};
  timing.gaps_s.reserve(read_s.size());
  for (std::size_t i = 2; first == 1 && i < read_s.size(); ++i)
    timing.gaps_s.push_back(read_s[i] - read_s[i - 1]);
  return timing;
}

double bench_flops(const ModelConfig& c, const BenchTest& test) {
  const auto n = static_cast<double>(test.tokens);
  const auto width = static_cast<double>(c.n_embd), layers = static_cast<double>(c.n_layer);
  // Keys that the tokens attend to, summed: 1 + 2 + … + n; decoding starts one later.
  const double keys = n * (n + 1) / 2 + (test.kind == Kind::prefill ? 0 : n);
  const double matrices =
      layers * (4 * width * width + 2 * width * static_cast<double>(c.n_inner)) * n;
  const double attention = layers * 2 * width * keys;
  const double logits =
      width * static_cast<double>(c.vocab_size) * (test.kind == Kind::prefill ? 1 : n);
  return 2 * static_cast<double>(test.batch) * (matrices + attention + logits);
}

}  // namespace shardlm
