// Exact sums: the bits of every logit and of every activation are the same at every number of
// ranks, however a prompt is cut and whatever is beside a sequence, with every type of weights and
// caches.
#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "model/fake_weights.h"
#include "tests/parallel/golden_case.h"

namespace shardlm {
namespace {

// Under a sanitizer, which looks for races and not for bits: a few cases at a few rank counts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFewCases = true;
constexpr int kRanks[] = {1, 3};
#else
constexpr bool kFewCases = false;
constexpr int kRanks[] = {1, 2, 3, 4, 5, 8};
#endif
constexpr std::int64_t kIds = 301;

ModelConfig shape(std::int64_t n_embd, std::int64_t n_head, std::int64_t n_inner) {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 2;
  c.n_embd = n_embd;
  c.n_head = n_head;
  c.n_inner = n_inner;
  c.n_positions = 64;
  c.vocab_size = kIds;
  return c;
}

/// Logits [rows, ids] of all queries of some steps, in order: every rank's candidates are all of
/// its ids.
using Logits = std::vector<float>;

void collect(const std::vector<std::vector<LogitReply>>& replies, Logits& logits) {
  for (const auto& of_ranks : replies) {
    const std::size_t at = logits.size();
    logits.resize(at + kIds, NAN);
    for (const LogitReply& reply : of_ranks) {
      for (const Candidate& c : reply.candidates) {
        logits[at + static_cast<std::size_t>(c.id)] = c.raw;
      }
    }
  }
}

SequencePlan part_of_text(int text, std::int64_t begin, std::int64_t end) {
  SequencePlan s{.start = begin, .ids = {}, .blocks = {text}};
  for (std::int64_t i = begin; i < end; ++i) {
    s.ids.push_back(static_cast<std::int32_t>((i * 37 + text * 11) % kIds));
  }
  return s;
}

// Asks for all logits of the last row of each part.
void run_parts(Coordinator& coordinator, std::vector<SequencePlan> parts, Logits& logits) {
  StepPlan plan;
  plan.sequences = std::move(parts);
  std::int32_t row = 0;
  for (const SequencePlan& s : plan.sequences) {
    row += static_cast<std::int32_t>(s.ids.size());
    plan.queries.push_back({.row = row - 1, .query = {.n_candidates = kIds}, .penalties = {}});
  }
  collect(coordinator.run(plan), logits);
}

// The logits after 40 tokens of texts 0, 1, 2: in one chunk, in several, token by token, side by
// side with others; all of which must agree.
Logits logits_every_way(Coordinator& coordinator) {
  Logits whole, chunks, tokens, batch, last;
  for (const int text : {0, 1, 2}) {
    run_parts(coordinator, {part_of_text(text, 0, 40)}, whole);
    Logits unused;
    for (std::int64_t at = 0; at < 33; at += 11)
      run_parts(coordinator, {part_of_text(text, at, at + 11)}, unused);
    run_parts(coordinator, {part_of_text(text, 33, 40)}, chunks);
    for (std::int64_t at = 0; at < 39; ++at)
      run_parts(coordinator, {part_of_text(text, at, at + 1)}, unused);
    run_parts(coordinator, {part_of_text(text, 39, 40)}, tokens);
  }
  run_parts(coordinator, {part_of_text(0, 0, 39), part_of_text(1, 0, 33), part_of_text(2, 0, 8)},
            last);
  run_parts(coordinator, {part_of_text(2, 8, 39), part_of_text(1, 33, 38)}, last);
  run_parts(coordinator, {part_of_text(1, 38, 39)}, last);
  run_parts(coordinator,
            {part_of_text(0, 39, 40), part_of_text(1, 39, 40), part_of_text(2, 39, 40)}, batch);
  EXPECT_EQ(chunks, whole);
  EXPECT_EQ(tokens, whole);
  EXPECT_EQ(batch, whole);
  for (const float logit : whole) EXPECT_FALSE(std::isnan(logit));
  return whole;
}

Logits run_fake(const ModelConfig& config, int ranks, int threads, const Precision& precision,
                Reduction reduction) {
  ThreadRankOptions options;
  options.backend_threads = threads;
  options.precision = precision;
  options.slot_bytes = 4096;  // a row of 256 in fixed point fills half of it: chunks
  Logits logits;
  run_ranks(
      ranks,
      [&](int rank, Communicator& comm, Backend& backend) {
        FakeWeights weights(config);
        Tap silent;
        const Context context{backend, comm, silent, reduction};
        const auto model = make_model(config, weights, context);
        Executor executor(context, *model, model->make_cache(8, 64),
                          std::vector<std::uint8_t>(kIds, 1));
        if (rank != 0) {
          serve(comm, executor);
          return;
        }
        Coordinator coordinator(comm, executor);
        logits = logits_every_way(coordinator);
        coordinator.stop(0);
      },
      options);
  return logits;
}

struct ExactCase {
  std::int64_t n_embd, n_head, n_inner;
  DType weights, kv;
};

class Exact : public testing::TestWithParam<ExactCase> {
 protected:
  ModelConfig config() const {
    return shape(GetParam().n_embd, GetParam().n_head, GetParam().n_inner);
  }
  Precision precision() const { return {GetParam().weights, DType::f32, GetParam().kv}; }
};

TEST_P(Exact, logits_have_the_same_bits_on_any_ranks) {
  const Logits expected = run_fake(config(), 1, 2, precision(), Reduction::exact);
  for (const int ranks : kRanks) {
    if (ranks == 1) continue;
    const int threads = ranks == 3 ? 2 : 1;
    EXPECT_EQ(run_fake(config(), ranks, threads, precision(), Reduction::exact), expected)
        << ranks << " ranks";
  }
}

std::vector<ExactCase> exact_cases() {
  std::vector<ExactCase> cases;
  if (kFewCases) return {{99, 3, 150, DType::f32, DType::i8}, {160, 2, 200, DType::q8, DType::f16}};
  for (const DType weights : {DType::f32, DType::bf16, DType::f16, DType::q8, DType::q4}) {
    cases.push_back({256, 4, 1024, weights, DType::f32});  // heads of 64
    cases.push_back({210, 7, 700, weights, DType::bf16});  // of 30: no 8 ranks have one each
    cases.push_back({160, 2, 200, weights, DType::f16});   // of 80: blocks of 40, or 32
    cases.push_back({99, 3, 150, weights, DType::i8});     // of 33: odd
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, Exact, testing::ValuesIn(exact_cases()), [](const auto& of) {
  return fmt::format("{}_of_{}_{}_{}", of.param.n_embd, of.param.n_embd / of.param.n_head,
                     name(of.param.weights), name(of.param.kv));
});

// The tests above can fail: the sums in order do differ somewhere.
TEST(ExactSums, sums_in_order_have_other_bits_on_other_ranks) {
  const ModelConfig config = shape(256, 4, 1024);
  const Logits one = run_fake(config, 1, 1, {}, Reduction::ordered);
  EXPECT_NE(run_fake(config, 3, 1, {}, Reduction::ordered), one);
}

class ExactGolden : public testing::TestWithParam<std::string> {};

TEST_P(ExactGolden, activations_are_those_of_pytorch_and_equal_on_any_ranks) {
  expect_golden_activations(GetParam(), 3, {.reduction = Reduction::exact});
  const auto folder = golden_folder() / GetParam();
  const std::vector<std::int32_t> ids =
      input_ids(SafetensorsFile::open(folder / "expected.safetensors"));
  std::map<std::string, std::vector<float>> expected;
  for (const int ranks : kRanks) {
    run_model(folder, ranks,
              [&](ModelRank& me) {
                me.coordinator.run(whole_step(ids));
                if (ranks == 1) {
                  for (const auto& name : me.dump->names())
                    expected[name] = me.dump->at(name).values;
                }
                EXPECT_EQ(me.dump->names().size(), expected.size());
                for (const auto& [name, values] : expected) {
                  EXPECT_EQ(me.dump->at(name).values, values)
                      << name << " on " << ranks << " ranks";
                }
              },
              {.dump = true, .reduction = Reduction::exact});
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExactGolden, testing::ValuesIn(golden_cases()));

// A weight of 2^20 in the first layer's attention: its addend cannot be held.
TEST(ExactSums, a_sum_beyond_fixed_point_names_site_row_and_output) {
  class LargeWeights final : public WeightSource {
   public:
    explicit LargeWeights(const ModelConfig& config) : fake_(config), large_(256 * 256, 0x1p24F) {}
    HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& s) override {
      return fake_.tensor(name, s);
    }
    HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) override {
      HostMatrix m = fake_.linear(name, in, out);
      if (name != "h.1.attn.c_proj.weight") return m;
      m.tensor.dtype = DType::f32;
      m.tensor.bytes = std::as_bytes(std::span(large_));
      return m;
    }

   private:
    FakeWeights fake_;
    std::vector<float> large_;
  };
  const auto run = [] {
    run_ranks(2, [&](int rank, Communicator& comm, Backend& backend) {
      const ModelConfig config = shape(256, 4, 1024);
      LargeWeights weights(config);
      Tap silent;
      const Context context{backend, comm, silent, Reduction::exact};
      const auto model = make_model(config, weights, context);
      Executor executor(context, *model, model->make_cache(8, 64),
                        std::vector<std::uint8_t>(kIds, 1));
      if (rank != 0) {
        serve(comm, executor);
        return;
      }
      Coordinator coordinator(comm, executor);
      Logits unused;
      run_parts(coordinator, {part_of_text(0, 0, 5)}, unused);
    });
  };
  try {
    run();
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* word : {"attn_out[1]", "row 0", "output 0", "524288", "--reduction ordered"}) {
      EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
    }
  }
}

}  // namespace
}  // namespace shardlm
