// NCCL's double: ranks as threads, each with a device and a communicator of its own.
#include <gmock/gmock.h>
#include <nccl.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

using ::testing::HasSubstr;

/// One rank's communicator; aborted at the end unless finish() was called.
class Rank {
 public:
  Rank(int rank, int size, const ncclUniqueId& id, bool blocking = false) : rank_(rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    result_ = ncclCommInitRankConfig(&comm_, size, id, rank, &config);
  }
  ~Rank() { abort(); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ncclComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  ncclResult_t result() const { return result_; }
  ncclResult_t poll() const {
    ncclResult_t state = ncclInProgress;
    EXPECT_EQ(ncclCommGetAsyncError(comm_, &state), ncclSuccess);
    return state;
  }
  ncclResult_t wait() const {
    ncclResult_t state = ncclInProgress;
    while ((state = poll()) == ncclInProgress) std::this_thread::yield();
    return state;
  }
  void abort() { EXPECT_EQ(ncclCommAbort(std::exchange(comm_, nullptr)), ncclSuccess); }
  void finish() {
    EXPECT_EQ(ncclCommFinalize(comm_), ncclInProgress);
    EXPECT_EQ(wait(), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(std::exchange(comm_, nullptr)), ncclSuccess);
  }

 private:
  ncclComm_t comm_ = nullptr;
  int rank_;
  ncclResult_t result_;
};

ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

/// f(rank) on n threads; rank r has device r.
void on_ranks(int n, const std::function<void(Rank&)>& f) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      EXPECT_EQ(cudaSetDevice(r), cudaSuccess);
      Rank rank(r, n, id);
      EXPECT_EQ(rank.result(), ncclInProgress);
      EXPECT_EQ(rank.wait(), ncclSuccess);
      f(rank);
    });
  for (std::thread& t : threads) t.join();
}

TEST(Nccl, AllReduceOfEveryType) {
  for (const int n : {1, 2, 3}) {
    on_ranks(n, [n](Rank& rank) {
      const TestStream stream;
      const auto r = static_cast<float>(rank.rank());
      const DeviceArray<float> f(std::vector<float>{1, r, 100 * r});
      const DeviceArray<__half> h(std::vector<__half>{__float2half_rn(r + 1)});
      const DeviceArray<long long> i(std::vector<long long>{rank.rank()});
      const auto reduce = [&](void* p, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
        EXPECT_EQ(ncclAllReduce(p, p, count, type, op, rank.comm(), stream), ncclInProgress);
        EXPECT_EQ(rank.wait(), ncclSuccess);
      };
      reduce(f.data(), 3, ncclFloat32, ncclSum);
      reduce(h.data(), 1, ncclFloat16, ncclSum);
      reduce(i.data(), 1, ncclInt64, ncclMax);
      EXPECT_EQ(stream.finish(), cudaSuccess);
      const float ranks = static_cast<float>(n * (n - 1) / 2);
      EXPECT_EQ(f.read(), (std::vector<float>{static_cast<float>(n), ranks, 100 * ranks}));
      EXPECT_EQ(__half2float(h.read()[0]), ranks + static_cast<float>(n));
      EXPECT_EQ(i.read()[0], n - 1);
      rank.finish();
    });
  }
}

TEST(Nccl, LargeMessagesComeInPieces) {
  constexpr std::size_t kCount = (std::size_t{1} << 18) + 5;  // a slot holds 2^18 floats
  on_ranks(2, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> x(std::vector<float>(kCount, static_cast<float>(rank.rank() + 1)));
    ncclAllReduce(x.data(), x.data(), kCount, ncclFloat32, ncclSum, rank.comm(), stream);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    const std::vector<float> sums = x.read();
    EXPECT_EQ(std::count(sums.begin(), sums.end(), 3.0F), static_cast<std::ptrdiff_t>(kCount));
    rank.finish();
  });
}

TEST(Nccl, OtherCollectives) {
  on_ranks(2, [](Rank& rank) {
    const TestStream stream;
    const int r = rank.rank();
    const DeviceArray<int> mine(std::vector<int>{r + 1, r + 10}), all(4), share(1), root(2);
    EXPECT_EQ(ncclAllGather(mine.data(), all.data(), 2, ncclInt32, rank.comm(), stream),
              ncclInProgress);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    ncclReduceScatter(mine.data(), share.data(), 1, ncclInt32, ncclSum, rank.comm(), stream);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    ncclBroadcast(mine.data(), root.data(), 2, ncclInt32, 1, rank.comm(), stream);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    EXPECT_EQ(all.read(), (std::vector<int>{1, 10, 2, 11}));
    EXPECT_EQ(share.read()[0], r == 0 ? 3 : 21);
    EXPECT_EQ(root.read(), (std::vector<int>{2, 11}));
    rank.finish();
  });
}

TEST(Nccl, BetweenProcesses) {
  const ncclUniqueId id = new_id();
  const auto texts = in_processes(2, [&id](int r) -> std::string {
    GPU_CHECK(cudaSetDevice(r));
    Rank rank(r, 2, id);
    if (rank.wait() != ncclSuccess) return "no communicator";
    const TestStream stream;
    const DeviceArray<float> x(std::vector<float>{static_cast<float>(r + 1)});
    ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, rank.comm(), stream);
    if (rank.wait() != ncclSuccess) return "no sum";
    GPU_CHECK(stream.finish());
    rank.finish();
    return x.read()[0] == 3 ? "" : "a wrong sum";
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST(Nccl, NothingIsIssuedBeforeThePoll) {
  on_ranks(1, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> from(std::vector<float>{7}), to(std::vector<float>{0});
    const auto reduce = [&] {
      return ncclAllReduce(from.data(), to.data(), 1, ncclFloat32, ncclSum, rank.comm(), stream);
    };
    EXPECT_EQ(reduce(), ncclInProgress);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    EXPECT_EQ(to.read()[0], 0) << "a caller that does not poll has no result";
    EXPECT_EQ(reduce(), ncclInvalidArgument);
    EXPECT_THAT(ncclGetLastError(rank.comm()), HasSubstr("before the previous operation"));
    EXPECT_EQ(rank.wait(), ncclSuccess);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    EXPECT_EQ(to.read()[0], 7);
    rank.finish();
  });
}

TEST(Nccl, GroupsAndArguments) {
  on_ranks(1, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> x(std::vector<float>{7, 8});
    float host = 0;
    const auto reduce = [&](float* p, std::size_t n) {
      return ncclAllReduce(p, p, n, ncclFloat32, ncclSum, rank.comm(), stream);
    };
    EXPECT_EQ(reduce(&host, 1), ncclInvalidArgument);
    EXPECT_EQ(reduce(x.data(), 3), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(reduce(x.data(), 1), ncclSuccess);
    EXPECT_EQ(reduce(x.data() + 1, 1), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    rank.finish();
  });
}

TEST(Nccl, RefusesTwoRanksOnOneDevice) {
  const ncclUniqueId id = new_id();
  Rank a(0, 2, id), b(1, 2, id);
  EXPECT_EQ(a.wait(), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(a.comm()), HasSubstr("Duplicate GPU detected"));
  EXPECT_EQ(b.wait(), ncclInvalidUsage);
}

TEST(Nccl, DifferentHostIdsGetPastTheDuplicateCheck) {
  const ncclUniqueId id = new_id();
  setenv("NCCL_HOSTID", "rank0", 1);
  Rank a(0, 2, id);
  setenv("NCCL_HOSTID", "rank1", 1);
  Rank b(1, 2, id);
  unsetenv("NCCL_HOSTID");
  EXPECT_EQ(a.wait(), ncclSuccess);
  EXPECT_EQ(b.wait(), ncclSuccess);
}

TEST(Nccl, RefusesARankNumberThatIsTaken) {
  const ncclUniqueId id = new_id();
  const Rank a(0, 2, id), b(0, 2, id);
  EXPECT_EQ(a.result(), ncclInProgress);
  EXPECT_EQ(b.result(), ncclInvalidUsage);
}

TEST(Nccl, DifferentCollectivesAreAnErrorWithAText) {
  on_ranks(2, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> x(4);
    ncclAllReduce(x.data(), x.data(), rank.rank() == 0 ? 4 : 3, ncclFloat32, ncclSum, rank.comm(),
                  stream);
    rank.wait();  // until it is issued; the ranks may have met already
    EXPECT_NE(stream.finish(), cudaSuccess);
    EXPECT_EQ(rank.poll(), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(rank.comm()), HasSubstr("ranks issued different collectives"));
  });
  EXPECT_THAT(doubles::take_async_error(), HasSubstr("all-reduce of 4 elements"));
}

TEST(Nccl, ADeadPeerIsWaitedForUntilTheAbort) {
  on_ranks(2, [](Rank& rank) {
    if (rank.rank() == 1) return;  // goes without a word
    const TestStream stream;
    const DeviceArray<float> x(4);
    ncclAllReduce(x.data(), x.data(), 4, ncclFloat32, ncclSum, rank.comm(), stream);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // as long as you like
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(rank.poll(), ncclSuccess) << "NCCL does not notice";
    rank.abort();
    EXPECT_EQ(stream.finish(), cudaSuccess);
  });
}

TEST(Nccl, AMissingPeerIsWaitedForUntilTheAbort) {
  const Rank alone(0, 2, new_id());
  EXPECT_EQ(alone.poll(), ncclInProgress);
}

TEST(Nccl, CollectivesInGraphs) {
  on_ranks(2, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> x(std::vector<float>{1});
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, rank.comm(), stream);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(stream.finish(), cudaSuccess);
    EXPECT_EQ(x.read()[0], 8);
    EXPECT_EQ(ncclCommFinalize(rank.comm()), ncclInProgress);
    EXPECT_EQ(rank.wait(), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(rank.comm()), ncclInvalidUsage) << "NCCL would wait for ever";
    EXPECT_THAT(ncclGetLastError(rank.comm()), HasSubstr("destroy them first"));
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  });
}

TEST(Nccl, InjectedFaults) {
  const ScopedVariable fault("SHARDLM_FAKE_GPU_FAULT", "ncclAllReduce:1:6");
  on_ranks(1, [](Rank& rank) {
    const TestStream stream;
    const DeviceArray<float> x(1);
    EXPECT_EQ(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, rank.comm(), stream),
              ncclRemoteError);
    EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
                 "remote process exited or there was a network error");
  });
}

}  // namespace
}  // namespace shardlm::bench_test
