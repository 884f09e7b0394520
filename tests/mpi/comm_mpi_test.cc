// The collectives over the real transports, at the rank count of mpirun. The tests are collective:
// every rank runs them all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/agreement.h"
#include "comm/make_communicator.h"
#include "comm/mpi_world.h"
#include "tests/support/comm_checks.h"

namespace shardlm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Site kSum{SiteKind::mlp_out, 1};

// Set by main before the tests run: GoogleTest hands nothing to them.
const MpiWorld* g_world = nullptr;

struct Way {
  std::string transport, rules;
};

struct Transport {
  Way way;
  std::function<std::unique_ptr<Communicator>(Backend&, const Deadlines&)> make;
};

CommSettings settings_of(const std::string& transport, const std::string& rules,
                         const Deadlines& deadlines) {
  CommSettings settings;
  settings.transport = transport;
  settings.deadlines = deadlines;
  if (!rules.empty()) settings.table = parse_algorithm_table(rules);
  return settings;
}

Transport by_name(const Way& way) {
  return {way, [way](Backend& backend, const Deadlines& deadlines) {
            return make_communicator(*g_world, backend,
                                     settings_of(way.transport, way.rules, deadlines));
          }};
}

// What a user gets by default over messages is in rank order only where that is the quickest.
bool in_rank_order(const Way& way) {
  if (way.rules.empty()) return way.transport == "shm" || g_world->size() <= 2;
  const AllReduceChoice choice = parse_choice(way.rules);
  return exactness(choice.algorithm, choice.wire, false) == Exactness::exact;
}

// Ranks that wait for each other only by way of others name the one next to them; the MPI library
// names none.
bool names_the_missing(const Way& way) {
  return way.rules == "direct" || way.rules == "shm-twoshot" ||
         (way.rules.empty() && in_rank_order(way)) || (way.rules != "mpi" && g_world->size() == 2);
}

class Transports : public testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Communicator> make(double limit_s = 60) {
    return GetParam().make(*backend_, {limit_s, limit_s});
  }
  void TearDown() override {
    // The other ranks would wait for the failed one until their deadline.
    if (HasFailure()) g_world->abort(ExitCode::bug);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
};

TEST_P(Transports, SumsAreExactAtAnySize) {
  const auto comm = make();
  // 32 KiB (two-shot above), 256 KiB (a slot of shared memory) and 4 MiB (a chunk) in between.
  for (const auto& [rows, cols] : std::vector<std::array<std::int64_t, 2>>{{0, 4},
                                                                           {1, 1},
                                                                           {1, 2},
                                                                           {1, 3},
                                                                           {3, 5},
                                                                           {1, 768},
                                                                           {1, 8192},
                                                                           {1, 8193},
                                                                           {11, 801},
                                                                           {100, 1001},
                                                                           {2, 70001},
                                                                           {1400, 768}}) {
    check_exact_sums(*comm, *backend_, rows, cols);
  }
}

TEST_P(Transports, RandomSumsHaveTheBitsOfTheRankOrder) {
  if (!in_rank_order(GetParam().way)) GTEST_SKIP() << "sums in another order";
  const auto comm = make();
  check_rank_order(*comm, *backend_, 1, 768, 1);
  check_rank_order(*comm, *backend_, 13, 801, 2);
  check_rank_order(*comm, *backend_, 1, 70001, 3);
}

TEST_P(Transports, MessagesOfAnyLengthFromAnyRoot) {
  const auto comm = make();
  for (const std::size_t bytes : {0, 1, 3991, 3992, 3993, 5000, 300000, 1000000}) {
    for (int root = 0; root < comm->size(); ++root) check_messages(*comm, bytes, root);
  }
}

TEST_P(Transports, MixedCallsInRandomOrder) {
  const auto comm = make();
  check_mixed_calls(*comm, *backend_, 800, 5, 20000);
}

TEST_P(Transports, AMissingRankIsNamed) {
  if (g_world->size() == 1) GTEST_SKIP() << "one rank misses nobody";
  if (!names_the_missing(GetParam().way) && GetParam().way.rules != "ring")
    GTEST_SKIP() << "as ring: some rank waits 5 s longer";
  const auto comm = make(0.3);
  const int absent = g_world->size() - 1;
  check_exact_sums(*comm, *backend_, 1, 8);
  if (g_world->rank() != absent) {
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_of([&] { check_exact_sums(*comm, *backend_, 1, 768); });
    const std::string who =
        names_the_missing(GetParam().way) ? "rank " + std::to_string(absent) : "";
    EXPECT_THAT(error, HasSubstr(who + " did not come to all_reduce at attn_out[3] (call 2)"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(Transports, AMissingRootIsNamed) {
  if (g_world->size() == 1) GTEST_SKIP() << "one rank misses nobody";
  if (!GetParam().way.rules.empty()) GTEST_SKIP() << "no sum is taken";
  const auto comm = make(0.2);
  if (g_world->rank() != 0) {
    std::vector<std::byte> message;
    EXPECT_THAT(error_of([&] { comm->broadcast(kSum, message, 0); }),
                HasSubstr("rank 0 did not come to broadcast at mlp_out[1] (call 1)"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(Transports, RanksOutOfStepAreAnErrorAndNotWrongData) {
  if (g_world->size() == 1) GTEST_SKIP() << "one rank is always in step";
  if (!names_the_missing(GetParam().way)) GTEST_SKIP() << "only some neighbours can see it";
  const auto comm = make(1);
  comm->barrier(kSum);
  const std::string error = error_of([&] {
    if (g_world->rank() == 0) comm->barrier(kSum);  // one too many
    check_exact_sums(*comm, *backend_, 1, 1);
    comm->barrier(kSum);
  });
  EXPECT_THAT(error, HasSubstr("out of step")) << "rank " << g_world->rank();
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(Transports, AgreementReachesAllRanks) {
  const auto comm = make();
  agree(*comm, std::nullopt);
  const int culprit = g_world->size() - 1;
  std::optional<Error> mine;
  if (g_world->rank() == culprit) mine = Error(ExitCode::model_files, "no such file");
  try {
    agree(*comm, mine);
    ADD_FAILURE() << "agree() returned";
  } catch (const AgreedFailure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::model_files);
    const std::string whose = culprit == 0 ? "" : "rank " + std::to_string(culprit) + ": ";
    EXPECT_EQ(failure.what(), whose + "no such file");
    EXPECT_EQ(failure.quiet(), g_world->rank() != 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Transports,
                         testing::Values(by_name({"shm", ""}), by_name({"shm", "shm-twoshot"}),
                                         by_name({"mpi", ""}), by_name({"mpi", "direct"}),
                                         by_name({"mpi", "recdbl"}),
                                         by_name({"mpi", "rabenseifner"}), by_name({"mpi", "ring"}),
                                         by_name({"mpi", "star"}), by_name({"mpi", "tree"}),
                                         by_name({"shm", "two-level"}), by_name({"mpi", "mpi"})),
                         [](const auto& test) {
                           std::string name = test.param.way.transport + "_" + test.param.way.rules;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(MakeCommunicator, ChoosesByName) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const int ranks = g_world->size();
  const auto described = [&](const char* name) {
    return make_communicator(*g_world, *backend, settings_of(name, "", {}))->describe();
  };
  const std::string count = std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  EXPECT_THAT(described("shm"),
              AllOf(StartsWith("shared memory, " + count + ": "), HasSubstr("shm-oneshot")));
  EXPECT_THAT(described("mpi"),
              AllOf(StartsWith("MPI messages, " + count + " on 1 node: "), HasSubstr("direct")));
  EXPECT_THAT(described("auto"), StartsWith(ranks == 1 ? "1 rank, no communication"
                                                       : "shared memory, " + count + ": "));
  const std::string error = error_of([&] { described("smh"); });
  EXPECT_THAT(error, AllOf(HasSubstr("'smh'"), HasSubstr("auto, shm or mpi")));
}

// A launcher that is not known for one would make every rank a job of its own.
TEST(MpiWorld, IsAsLargeAsTheLauncherMadeIt) {
  const char* ranks = std::getenv("SHARDLM_TEST_RANKS");
  if (ranks == nullptr) GTEST_SKIP() << "not run by ctest, which says how many ranks there are";
  EXPECT_EQ(std::to_string(g_world->size()), ranks);
  EXPECT_TRUE(started_by_mpi_launcher());
}

TEST(MpiWorld, KnowsWhereItRuns) {
  EXPECT_TRUE(g_world->one_node());
  EXPECT_EQ(g_world->node_size(), g_world->size());
  EXPECT_EQ(g_world->node_rank(), g_world->rank());
  const CoreShare& share = g_world->core_share();
  EXPECT_GE(share.cores, 1);
  EXPECT_GE(share.node_cores, share.cores);
  EXPECT_GE(share.sharers, 1);
  EXPECT_LE(share.sharers, g_world->size());
  EXPECT_EQ(g_world->oversubscribed(), g_world->size() > share.node_cores);
  EXPECT_FALSE(g_world->host_name().empty());
  EXPECT_FALSE(mpi_library_version().empty());
}

// "0.93 us": the median over the calls of an all_reduce of 1 x 768. For people, not a test.
void measure(const std::string& name) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const auto comm = make_communicator(*g_world, *backend, settings_of(name, "", {}));
  const Tensor addend = backend->allocate(1, 768);
  backend->upload(std::vector<float>(768, 0.5F), addend);
  Tensor residual = backend->allocate(1, 768);
  backend->upload(std::vector<float>(768, 0.5F), residual);
  ResidualUpdate update;
  update.residual = &residual;
  std::vector<double> times;
  for (int i = 0; i < 6000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    comm->all_reduce(kSum, addend, update);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    if (i >= 1000) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  if (comm->rank() == 0) {
    std::printf("all_reduce 1 x 768, %s: median %.2f us, 99 %% %.2f us\n", comm->describe().c_str(),
                times[times.size() / 2], times[times.size() * 99 / 100]);
  }
}

}  // namespace
}  // namespace shardlm

int main(int argc, char** argv) {
  // Before the start: the version of the library needs none.
  if (shardlm::mpi_library_version().empty()) return 1;
  shardlm::MpiWorld world(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  shardlm::g_world = &world;
  if (argc > 1 && std::string(argv[1]) == "--measure") {
    for (const char* name : {"shm", "mpi"}) shardlm::measure(name);
    return 0;
  }
  if (world.rank() != 0) {
    // Passed tests are reported once; failures by every rank that has them.
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    class FailuresOnly : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed()) return;
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        std::fprintf(stderr, "[rank %d] %s.%s: %s:%d: %s\n", shardlm::g_world->rank(),
                     test == nullptr ? "" : test->test_suite_name(),
                     test == nullptr ? "" : test->name(), result.file_name(), result.line_number(),
                     result.message());
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  return RUN_ALL_TESTS();
}
