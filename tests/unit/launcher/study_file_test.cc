// A study's YAML: what is read, what is refused and where, what is planned and printed.
#include "launcher/study_file.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "launcher/launch_files.h"
#include "launcher/study_hosts.h"
#include "launcher/study_plan.h"
#include "launcher/study_progress.h"
#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSmall = R"(
study: small
model: {shape: "n_layer=1,n_embd=32,n_head=2,n_positions=64,vocab_size=100"}
factors: {ranks: [1, 2], threads: 1, prompt: 0, generate: 4}
)";

StudySpec study_of(const std::string& yaml) { return parse_study(yaml, "/some/where/s.yaml"); }

std::string error_of(const std::string& yaml) {
  try {
    study_of(yaml);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << "no error: " << yaml;
  return {};
}

SweepPlan plan_of(const std::string& yaml) {
  return make_plan(study_of(yaml), yaml, {.cores = 2}, "/bin/shardlm");
}

TEST(StudyFile, EveryKey) {
  const StudySpec s = study_of(R"(
study: all
model: {path: ../m}
factors:
  ranks: [1, 2, 4]
  nodes: 1
  threads: [1]
  batch: [1, 8]
  prompt: 16
  generate: [4]
  dtype: [f32, int8]
  kv-dtype: [auto]
  allreduce: [auto, ring, "decode=shm-oneshot,mpi"]
  wire: [f32, bf16]
  overlap: [none, poll]
  comm: [auto, mpi]
  reduction: [ordered, exact]
  emulate: [none, "latency_us=100,gbit=1"]
design:
  kind: one-at-a-time
  around: {ranks: 2, emulate: "latency_us=100,gbit=1"}
  full: [[ranks, allreduce]]
coll: {bytes: [64, 4096], algorithms: [ring, mpi], max_seconds: 0.2}
calibrate: {seconds: 0.5}
predict: true
repeat: {launches: 6, repetitions: 10, warmup: 2, most: 50, ci_width: 0.05, max_seconds: 2, order: as-written, seed: 7}
launch:
  by: srun
  options: [--mpi=pmix]
  hosts: [a, "b:4"]
  env: {OMP_NUM_THREADS: 1}
  timeout_s: 60
  slots: 8
  program: bin/shardlm
budget: {minutes: 3}
output: {dir: out, report: false}
)");
  EXPECT_EQ(s.name, "all");
  EXPECT_EQ(s.model, "/some/m");
  EXPECT_EQ(s.factors.size(), 14U);
  EXPECT_THAT(s.factors[8].levels, ElementsAre("auto", "ring", "decode=shm-oneshot,mpi"));
  EXPECT_EQ(s.design.kind, Design::Kind::one_at_a_time);
  EXPECT_EQ(s.design.around.at("ranks"), "2");
  EXPECT_THAT(s.design.full, ElementsAre(ElementsAre("ranks", "allreduce")));
  EXPECT_THAT(s.coll->bytes, ElementsAre(64, 4096));
  EXPECT_TRUE(s.calibrate && s.predict);
  EXPECT_EQ(s.calibrate_seconds, 0.5);
  EXPECT_EQ(s.repeat.launches, 6);
  EXPECT_EQ(s.repeat.most, 50);
  EXPECT_FALSE(s.repeat.random);
  EXPECT_EQ(s.launch.by, LaunchSpec::By::srun);
  EXPECT_THAT(s.launch.hosts, ElementsAre(HostSlots{"a", 0}, HostSlots{"b", 4}));
  EXPECT_EQ(s.launch.env.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(s.launch.program, "/some/where/bin/shardlm");
  EXPECT_EQ(s.budget_minutes, 3);
  EXPECT_EQ(s.output_dir, "/some/where/out");
  EXPECT_FALSE(s.report);
}

TEST(StudyFile, WhatIsNotSaid) {
  const StudySpec s = study_of(kSmall);
  EXPECT_EQ(s.repeat.launches, 3);
  EXPECT_TRUE(s.repeat.random);
  EXPECT_EQ(s.design.kind, Design::Kind::crossed);
  EXPECT_FALSE(s.coll || s.calibrate || s.predict || s.budget_minutes);
  EXPECT_TRUE(s.report);
}

struct BadStudy {
  std::string more;  // behind kSmall, whose last line is 4
  std::string text;
};

TEST(StudyFile, RefusesWithPlaceAndNearestName) {
  const BadStudy cases[] = {
      {"repaet: {}\n", "s.yaml:5: unknown key repaet; did you mean repeat?"},
      {"repeat: {launchs: 3}\n", "s.yaml:5: unknown key launchs of repeat; did you mean launches?"},
      {"repeat: 3\n", "s.yaml:5: repeat: expected a map of launches"},
      {"repeat: {launches: 0}\n", "s.yaml:5: launches"},
      {"repeat: {launches: many}\n", "s.yaml:5: launches"},
      {"repeat: {ci_width: 2}\n", "expected a number from 1e-06 to 1, found 2"},
      {"repeat: {seed: -1}\n", "seed"},
      {"repeat: {order: sorted}\n", "order"},
      {"design: {around: {ranks: 1}}\n", "one-at-a-time"},
      {"design: {kind: one-at-a-time, around: {ranks: 7}}\n", "a level of ranks: 1, 2, found 7"},
      {"design: {kind: one-at-a-time, around: {rank: 1}}\n", "did you mean ranks?"},
      {"design: {kind: one-at-a-time, full: [[ranks, batch]]}\n", "batch is no factor"},
      {"design: {kind: one-at-a-time, full: ranks}\n", "a list of lists"},
      {"design: {paired: [[ranks, prompt]]}\n", "2 of ranks and 1 of prompt"},
      {"design: {paired: [[ranks, ranks]]}\n", "ranks twice"},
      {"predict: true\n", "s.yaml:5: predict: expected calibrate: true"},
      {"predict: perhaps\n", "true or false"},
      {"coll: {bytes: [3]}\n", "bytes"},
      {"coll: {bytes: []}\n", "a list of sizes"},
      {"launch: {by: command}\n", "by: command and command: TEXT together"},
      {"launch: {command: x}\n", "by: command and command: TEXT together"},
      {"launch: {by: command, command: x, options: [y]}\n", "no options beside a command"},
      {"launch: {hosts: [\"a b\"]}\n", "the name of a host"},
      {"launch: {hosts: [\"a:\"]}\n", "the name of a host"},
      {"launch: {hosts: [\"-oProxy\"]}\n", "the name of a host"},
      {"launch: {hostfile: none.txt}\n", "none.txt"},
      {"launch: {timeout_s: 0}\n", "timeout_s"},
      {"launch: {env: {\"A=B\": 1}}\n", "the name of a variable"},
      {"budget: {minutes: -1}\n", "minutes"},
      {"budget: 3\n", "budget: expected a map of minutes"},
      {"study: other\n", "s.yaml:5: study: given twice, first in line 2"},
      {"output: [a]\n", "a path"},
      {"? [a]\n: 1\n", "expected a name"},
      {"---\nstudy: x\n", "one YAML document"},
      {"x: \"\n", "not closed"},
      {"x: [\n", "not valid YAML"},
  };
  for (const BadStudy& bad : cases) EXPECT_THAT(error_of(kSmall + bad.more), HasSubstr(bad.text));
}

TEST(StudyFile, RefusesLevelsThatBenchWouldNotTake) {
  const BadStudy cases[] = {
      {"ranks: [0]", "ranks"},
      {"ranks: [1, 1]", "each level once, found 1 twice"},
      {"ranks: []", "a level or a list"},
      {"ranks: [[1]]", "a whole number, found a list"},
      {"rank: 1", "unknown factor rank; did you mean ranks?"},
      {"temperature: 1", "unknown factor temperature"},
      {"dtype: f33", "f32"},
      {"batch: \"1,2\"", "one value a level"},
      {"allreduce: rign", "rign"},
      {"emulate: \"latency=1\"", "latency"},
      {"shape: \"n_layer=0\"", "n_layer"},
      {"threads: -1", "threads"},
  };
  for (const BadStudy& bad : cases) {
    const std::string yaml = "study: s\nmodel: {shape: gpt2}\nfactors:\n  " + bad.more + "\n";
    EXPECT_THAT(error_of(yaml), AllOf(HasSubstr("s.yaml:4: "), HasSubstr(bad.text))) << yaml;
  }
}

TEST(StudyFile, RefusesWhatIsMissingOrTooMuch) {
  EXPECT_THAT(error_of(""), HasSubstr("a map of study"));
  EXPECT_THAT(error_of("[]"), HasSubstr("a map of study"));
  EXPECT_THAT(error_of("study: a\n"), HasSubstr("the key model"));
  EXPECT_THAT(error_of("study: a\nmodel: {shape: gpt2}\n"), HasSubstr("the key factors"));
  EXPECT_THAT(error_of("study: ../a\n"), HasSubstr("a name of letters"));
  EXPECT_THAT(error_of("study: a\nmodel: {shape: gpt2, path: x}\n"), HasSubstr("both"));
  EXPECT_THAT(error_of("study: a\nmodel: {}\n"), HasSubstr("neither"));
  EXPECT_THAT(error_of("study: a\nmodel: {shape: gpt3x}\n"), HasSubstr("gpt3x"));
  EXPECT_THAT(error_of("study: a\nmodel: {path: x}\nfactors: {shape: [gpt2]}\n"),
              HasSubstr("both"));
}

// No prefix of a file, and no file with a byte changed, does worse than an Error.
TEST(StudyFile, HostileBytes) {
  const std::string whole = kSmall + "repeat: {launches: 2}\nlaunch: {hosts: [a]}\n";
  const auto survives = [](const std::string& yaml) {
    try {
      study_of(yaml);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    }
  };
  for (std::size_t n = 0; n < whole.size(); ++n) survives(whole.substr(0, n));
  for (std::size_t n = 0; n < whole.size(); n += 3) {
    for (const char c : {'\0', '\xff', '[', '&', '*', '!'}) {
      std::string changed = whole;
      changed[n] = c;
      survives(changed);
    }
  }
  survives(std::string(2000, '['));
  survives("a: &a [*a, *a]\n");
}

TEST(StudyPlan, CommandsAndWhatCannotRun) {
  const SweepPlan plan = plan_of(R"(
study: s
model: {shape: "n_layer=1,n_embd=32,n_head=2,n_positions=64,vocab_size=100"}
factors:
  ranks: [2, 9]
  threads: 1
  prompt: [16, 65]
  generate: 0
  wire: [f32, int8]
  reduction: [ordered, exact]
launch: {slots: 4}
repeat: {launches: 2, repetitions: 3}
)");
  ASSERT_EQ(plan.cells.size(), 16U);
  EXPECT_EQ(plan.cells[0].command[0], "mpirun");
  EXPECT_THAT(plan.cells[0].command, testing::IsSupersetOf({"/bin/shardlm", "bench", "--prompt"}));
  EXPECT_EQ(plan.cells[1].skipped, "");
  EXPECT_THAT(plan.cells[3].skipped, HasSubstr("--reduction exact"));  // int8 and exact
  EXPECT_THAT(plan.cells[4].skipped, HasSubstr("65"));                 // a prompt too long
  EXPECT_THAT(plan.cells[8].skipped, HasSubstr("launch.slots"));
  EXPECT_EQ(plan.order.size(), 6U);
  const std::string text = plan_text(plan, "out");
  EXPECT_THAT(text, AllOf(HasSubstr("16 cells (13 skipped), 2 launches each, into out"),
                          HasSubstr("6 jobs, about "), HasSubstr("order: random, seed 1")));
}

TEST(StudyPlan, SaysWhatABudgetDrops) {
  const SweepPlan plan = plan_of(kSmall + "repeat: {launches: 50}\nbudget: {minutes: 1}\n");
  const std::string text = plan_text(plan, "out");
  EXPECT_THAT(text,
              AllOf(HasSubstr("budget 1 min: "), HasSubstr(" of 50 launches of each cell fit"),
                    HasSubstr("jobs are dropped")));
}

TEST(StudyPlan, TooManyJobsAreRefused) {
  EXPECT_THROW(plan_of("study: s\nmodel: {shape: gpt2}\nrepeat: {launches: 10000}\n"
                       "factors: {batch: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}\n"),
               Error);
}

TEST(StudyHosts, OfAFile) {
  const std::string path = write_file("hosts", "# all\nnodeA slots=4\n\nnodeB  # last\n");
  EXPECT_THAT(read_hostfile(path, "w"), ElementsAre(HostSlots{"nodeA", 4}, HostSlots{"nodeB", 0}));
  EXPECT_THROW(read_hostfile(write_file("bad", "a slots=x\n"), "w"), Error);
  EXPECT_THROW(read_hostfile(write_file("empty", "# none\n"), "w"), Error);
}

const std::string kTwoNodes = R"(
study: two
model: {shape: gpt2}
factors: {ranks: [2, 6], nodes: [1, 2], threads: 2, prompt: 0, generate: 4}
launch: {hosts: [nodeA, nodeB], env: {OMP_NUM_THREADS: "2"}}
budget: {minutes: 60}
)";

TEST(LaunchFiles, Slurm) {
  EXPECT_EQ(launch_file(LaunchFile::slurm, study_of(kTwoNodes), "s.yaml"), R"(#!/bin/bash
# made by: shardlm launch --print slurm s.yaml
# Submit with sbatch from the folder that the path below starts at. A job that is cut off goes on with
# study resume in the place of study run.
#SBATCH --job-name=two
#SBATCH --nodes=2
#SBATCH --ntasks=6
#SBATCH --ntasks-per-node=3
#SBATCH --cpus-per-task=2
#SBATCH --time=01:17:00
#SBATCH --exclusive
#SBATCH --output=two-%j.log

set -euo pipefail
export OMP_NUM_THREADS=2

# Each cell is a step of this job. The largest one alone would be:
#   srun --nodes=2 --ntasks=6 --cpus-per-task=2 --nodelist=nodeA,nodeB shardlm bench --shape gpt2 --threads 2 --prompt 0 --generate 4 --format jsonl
shardlm study run s.yaml --by srun
)");
}

TEST(LaunchFiles, Hostfile) {
  EXPECT_EQ(launch_file(LaunchFile::hostfile, study_of(kTwoNodes), "s.yaml"),
            "# made by: shardlm launch --print hostfile s.yaml\n"
            "# mpirun --hostfile FILE -n 6 shardlm ...\n"
            "nodeA slots=3\nnodeB slots=3\n");
  EXPECT_THAT(launch_file(LaunchFile::hostfile, study_of(kSmall), "s.yaml"),
              HasSubstr("localhost slots=2\n"));
}

TEST(LaunchFiles, Rankfile) {
  EXPECT_EQ(launch_file(LaunchFile::rankfile, study_of(kTwoNodes), "s.yaml"),
            "# made by: shardlm launch --print rankfile s.yaml\n"
            "# mpirun --rankfile FILE -n 6 shardlm ...\n"
            "rank 0=nodeA slot=0-1\nrank 1=nodeA slot=2-3\nrank 2=nodeA slot=4-5\n"
            "rank 3=nodeB slot=0-1\nrank 4=nodeB slot=2-3\nrank 5=nodeB slot=4-5\n");
}

TEST(StudyProgressBar, Fills) {
  EXPECT_EQ(bar_text(0, 4, 4), "[....] 0/4");
  EXPECT_EQ(bar_text(3, 4, 4), "[###.] 3/4");
  EXPECT_EQ(bar_text(0, 0, 4), "[####] 0/0");
}

// Each study that ships is read, and has cells that run on any machine.
TEST(StudyFiles, ThatShip) {
  const fs::path folder = fs::path(SHARDLM_MODELS).parent_path() / "configs/studies";
  int n_files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++n_files;
    const StudySpec spec = read_study_file(entry.path().string());
    const SweepPlan plan = make_plan(spec, "", {.cores = 2}, "shardlm");
    EXPECT_FALSE(plan.order.empty()) << entry.path();
    EXPECT_EQ(spec.name, entry.path().stem()) << "the study is named as its file";
    ASSERT_TRUE(spec.budget_minutes.has_value()) << entry.path();
    EXPECT_LE(*spec.budget_minutes, 5) << entry.path();
    for (const Cell& cell : plan.cells) {
      EXPECT_TRUE(cell.runs() || cell.skipped.starts_with("the same as"))
          << entry.path() << " " << factors_text(cell.factors) << ": " << cell.skipped;
    }
  }
  EXPECT_EQ(n_files, 7);
}

}  // namespace
}  // namespace shardlm
