// Commands of launchers, and processes that are watched.
#include <gmock/gmock.h>

#include <csignal>

#include "base/error.h"
#include "study/sweep/launch_words.h"
#include "study/sweep/process.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using By = LaunchSpec::By;

const std::vector<std::string> kProgram = {"/bin/shardlm", "bench"};

std::string words_of(const LaunchSpec& launch, const Factors& factors, LauncherFacts facts = {}) {
  return shell_text(launch_words(launch, facts, factors, kProgram));
}

TEST(LaunchWords, OpenMpiOnThisMachine) {
  EXPECT_EQ(words_of({}, {{"ranks", "2"}, {"threads", "1"}}, {.cores = 2}),
            "mpirun -n 2 --oversubscribe /bin/shardlm bench");
  // More threads than cores, or more than one a rank, are not to be tied to one core.
  EXPECT_EQ(words_of({}, {{"ranks", "4"}, {"threads", "1"}}, {.root = true, .cores = 2}),
            "mpirun -n 4 --allow-run-as-root --oversubscribe --bind-to none /bin/shardlm bench");
  EXPECT_THAT(words_of({}, {{"ranks", "1"}, {"threads", "2"}}, {.cores = 2}),
              HasSubstr("--bind-to none"));
  LaunchSpec bound;
  bound.options = {"--bind-to", "socket"};
  EXPECT_EQ(words_of(bound, {{"ranks", "4"}, {"threads", "1"}}, {.cores = 2}),
            "mpirun -n 4 --oversubscribe --bind-to socket /bin/shardlm bench");
}

TEST(LaunchWords, HostsAndEnvironment) {
  LaunchSpec launch;
  launch.hosts = {{"a", 4}, {"b", 4}, {"c", 4}};
  launch.env = {{"OMP_NUM_THREADS", "1"}};
  const Factors factors = {{"ranks", "3"}, {"nodes", "2"}, {"threads", "1"}};
  EXPECT_EQ(words_of(launch, factors),
            "mpirun -n 3 --host a:2,b:1 -x OMP_NUM_THREADS /bin/shardlm bench");
  EXPECT_EQ(words_of(launch, factors, {.open_mpi = false}),
            "mpirun -n 3 -hosts a:2,b:1 /bin/shardlm bench");
  launch.by = By::srun;
  EXPECT_EQ(words_of(launch, factors),
            "srun --nodes=2 --ntasks=3 --cpus-per-task=1 --nodelist=a,b /bin/shardlm bench");
}

TEST(LaunchWords, ACommandOfTheStudysOwn) {
  LaunchSpec launch;
  launch.by = By::command;
  launch.command = "env 'A=b c' run -np {ranks} -H {hosts} -t{threads} {program} --more";
  EXPECT_EQ(words_of(launch, {{"ranks", "2"}}),
            "env 'A=b c' run -np 2 -H localhost:2 -t1 /bin/shardlm bench --more");
  launch.command = "run {nodes}x{ranks_per_node}";
  EXPECT_EQ(words_of(launch, {{"ranks", "5"}, {"nodes", "2"}}), "run 2x3 /bin/shardlm bench");
  for (const char* bad : {"run {rank}", "run {ranks", "run 'x"}) {
    launch.command = bad;
    EXPECT_THROW(words_of(launch, {{"ranks", "2"}}), Error) << bad;
  }
}

TEST(LaunchWords, WhatCannotBeStarted) {
  LaunchSpec launch;
  EXPECT_EQ(launch_refusal(launch, {{"ranks", "64"}}), "");
  EXPECT_THAT(launch_refusal(launch, {{"ranks", "2"}, {"nodes", "2"}}), HasSubstr("names none"));
  EXPECT_THAT(launch_refusal(launch, {{"ranks", "1"}, {"nodes", "2"}}), HasSubstr("1 ranks"));
  launch.slots = 2;
  EXPECT_THAT(launch_refusal(launch, {{"ranks", "3"}}), HasSubstr("launch.slots, 2"));
  launch = {};
  launch.hosts = {{"a", 2}, {"b", 1}};
  EXPECT_EQ(launch_refusal(launch, {{"ranks", "3"}, {"nodes", "2"}}), "");
  EXPECT_THAT(launch_refusal(launch, {{"ranks", "4"}, {"nodes", "2"}}), HasSubstr("on b"));
  EXPECT_THAT(launch_refusal(launch, {{"ranks", "4"}, {"nodes", "3"}}),
              HasSubstr("more than the 2"));
}

TEST(LaunchWords, ShellTextIsReadBackAsTheSameWords) {
  const std::vector<std::string> words = {"a", "", "b c", "--x=1,2", "decode=ring,<=5=mpi"};
  EXPECT_EQ(split_words(shell_text(words)), words);
  EXPECT_EQ(shell_text({"it's"}), "'it'\\''s'");
  EXPECT_THAT(split_words("  a\t'b \"c'\n"), ElementsAre("a", "b \"c"));
}

ProcessEnd run_shell(
    const std::string& script, double timeout_s = 20,
    const std::function<bool(double)>& tick = [](double) { return false; }) {
  return run_process({.command = {"sh", "-c", script},
                      .env = {{"STUDY_TEST", "set"}},
                      .timeout_s = timeout_s,
                      .grace_s = 0.3},
                     tick, [](int) {});
}

TEST(Process, OutputMessagesAndExitCode) {
  const ProcessEnd end = run_shell("echo out $STUDY_TEST; echo err >&2; exit 3");
  EXPECT_EQ(end.output, "out set\n");
  EXPECT_EQ(end.messages, "err\n");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_FALSE(end.ok());
  EXPECT_TRUE(run_shell("true").ok());
}

TEST(Process, MuchOutputIsReadAndOfMessagesTheEnd) {
  const ProcessEnd end =
      run_shell("head -c 300000 /dev/zero; yes x | head -c 5000 >&2; echo END >&2");
  EXPECT_EQ(end.output.size(), 300000U);
  EXPECT_EQ(end.messages.size(), 2000U);
  EXPECT_TRUE(end.messages.ends_with("x\nEND\n"));
}

TEST(Process, ASignalIsToldFromAnExitCode) {
  const ProcessEnd end = run_shell("kill -9 $$");
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_FALSE(end.exit_code);
}

// What ignores SIGTERM is killed, and so is what has left the group.
TEST(Process, ATimeoutEndsAllThatWasStarted) {
  const ProcessEnd end = run_shell(
      "trap '' TERM; setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000", /*timeout_s=*/0.3);
  EXPECT_TRUE(end.timed_out);
  EXPECT_FALSE(end.ok());
  const int stray = std::stoi(end.output);
  EXPECT_FALSE(process_start_time(stray)) << "still there";
}

TEST(Process, ATickCanEndIt) {
  const ProcessEnd end = run_shell("sleep 1000", 20, [](double t) { return t > 0.1; });
  EXPECT_TRUE(end.stopped);
  EXPECT_FALSE(end.timed_out);
  EXPECT_EQ(end.signal, SIGTERM);
}

TEST(Process, AProgramThatDoesNotExistIsRefused) {
  EXPECT_THROW(run_process(
                   {.command = {"/no/such/program"}}, [](double) { return false; }, [](int) {}),
               Error);
}

TEST(Process, StartTimesNameAProcess) {
  EXPECT_TRUE(process_start_time(::getpid()));
  EXPECT_FALSE(process_start_time(0x3fffffff));
}

}  // namespace
}  // namespace shardlm
