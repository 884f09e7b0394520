// A model without arithmetic makes the calls of a real one, with their bytes.
#include <gtest/gtest.h>

#include <tuple>

#include "backend/null/null_backend.h"
#include "comm/borrowed_communicator.h"
#include "engine/bench.h"
#include "engine/coordinator.h"
#include "engine/executor.h"
#include "model/fake_weights.h"
#include "model/model.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

enum class Kind { all_reduce, broadcast, gather, barrier };
using Call = std::tuple<Kind, SiteKind, int, std::size_t>;  // its site's kind and layer; bytes

/// Writes down what goes through it.
class Listening final : public Communicator {
 public:
  Listening(Communicator& to, std::vector<Call>& calls) : to_(to), calls_(calls) {}
  int rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  std::string describe() const override { return to_.describe(); }
  std::optional<Tensor> addend(Site site, std::int64_t rows, std::int64_t cols,
                               DType dtype) override {
    return to_.addend(site, rows, cols, dtype);
  }
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override {
    add(Kind::all_reduce, site,
        static_cast<std::size_t>(addend.elements()) * bits(addend.dtype()) / 8);
    to_.all_reduce(site, addend, update);
  }
  void broadcast(Site site, std::vector<std::byte>& message, int root) override {
    to_.broadcast(site, message, root);
    add(Kind::broadcast, site, message.size());
  }
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override {
    add(Kind::gather, site, mine.size());
    to_.gather(site, mine, all, root);
  }
  void barrier(Site site) override {
    add(Kind::barrier, site, 0);
    to_.barrier(site);
  }

 private:
  void add(Kind kind, Site site, std::size_t bytes) {
    calls_.emplace_back(kind, site.kind, site.layer, bytes);
  }
  Communicator& to_;
  std::vector<Call>& calls_;
};

ModelConfig small_model() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 3;
  c.n_embd = 96;
  c.n_head = 3;
  c.n_inner = 384;
  c.n_positions = 64;
  c.vocab_size = 203;
  return c;
}

/// The calls of each rank in two benchmarks.
std::vector<std::vector<Call>> calls_of(int ranks, bool compute, Reduction reduction) {
  std::vector<std::vector<Call>> calls(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank, Communicator& inner, Backend& cpu) {
    Listening comm(inner, calls[static_cast<std::size_t>(rank)]);
    const auto none = make_null_backend();
    Backend& backend = compute ? cpu : *none;
    const ModelConfig config = small_model();
    FakeWeights weights(config);
    Tap silent;
    const Context context{backend, comm, silent, reduction};
    const auto model = make_model(config, weights, context);
    Executor executor(context, *model, model->make_cache(8, 32), std::vector<std::uint8_t>(203, 1));
    if (rank != 0) {
      serve(comm, executor);
      return;
    }
    Coordinator coordinator(comm, executor);
    const BenchSetup setup{.n_positions = 64, .vocab_size = 203, .prefill_chunk = 16};
    run_bench_test(coordinator, {BenchTest::Kind::prefill, 41, 2}, setup);
    run_bench_test(coordinator, {BenchTest::Kind::decode, 7, 3}, setup);
    coordinator.stop(0);
  });
  return calls;
}

TEST(NullBackend, makes_the_calls_of_a_real_run_with_their_bytes) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const Reduction reduction : {Reduction::ordered, Reduction::exact}) {
      const auto real = calls_of(ranks, true, reduction);
      EXPECT_GT(real[0].size(), 10U * (1 + 2 * 3));
      EXPECT_EQ(calls_of(ranks, false, reduction), real) << ranks << " ranks";
    }
  }
}

TEST(NullBackend, answers_every_kind_of_query_with_what_it_asks_for) {
  const auto backend = make_null_backend();
  const Tensor logits = backend->allocate(1, 5);
  const std::vector<std::uint8_t> allowed = {0, 1, 1, 0, 1};
  const LogitQuery query{.n_candidates = 2, .n_top = 9, .target = 104};
  std::vector<LogitReply> replies(1);
  backend->query_logits(logits, {.begin = 100, .allowed = allowed}, {&query, 1}, replies);
  const LogitReply& r = replies[0];
  EXPECT_EQ(r.first_bad_id, -1);
  EXPECT_EQ(r.raw.sum, 3);
  ASSERT_EQ(r.candidates.size(), 2U);
  EXPECT_EQ(r.candidates[0].id, 101);
  EXPECT_EQ(r.candidates[1].id, 102);
  ASSERT_EQ(r.top.size(), 3U);
  EXPECT_EQ(r.top[2].id, 104);
  EXPECT_EQ(r.target, 0.0F);
}

}  // namespace
}  // namespace shardlm
