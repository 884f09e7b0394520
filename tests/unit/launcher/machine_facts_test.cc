// The environment record, on made-up machines.
#include "launcher/machine_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "launcher/environment_record.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

class Machine : public testing::Test {
 protected:
  Machine() { fs::remove_all(root_); }
  ~Machine() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << '\n';
  }
  std::string get(const std::string& name) const { return fact(machine_facts(root_), name); }
  const fs::path root_ = fs::path(testing::TempDir()) / ("shardlm_machine-" + std::to_string(::getpid()));
};

TEST_F(Machine, IsReadFromItsFiles) {
  write("proc/cpuinfo", "model name\t: Some CPU\nflags\t\t: fpu hypervisor avx2");
  write("proc/sys/kernel/osrelease", "6.1.0-test");
  write("proc/1/cgroup", "0::/docker/abc");
  write("sys/devices/system/node/online", "0-1");
  write("sys/devices/system/cpu/smt/active", "1");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  EXPECT_EQ(get("cpu"), "Some CPU");
  EXPECT_EQ(get("numa_nodes"), "2 (0-1)");
  EXPECT_EQ(get("governor"), "performance");
  EXPECT_EQ(get("smt"), "on");
  EXPECT_EQ(get("kernel"), "6.1.0-test");
  EXPECT_EQ(get("virtual_machine"), "yes");
  EXPECT_EQ(get("container"), "yes");
  EXPECT_EQ(get("huge_pages"), "madvise");
  write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave");
  EXPECT_EQ(get("governor"), "performance 1, powersave 1");
  write("sys/devices/system/cpu/smt/active", "0");
  EXPECT_EQ(get("smt"), "off");
  write("proc/cpuinfo", "model name\t: Some CPU\nflags\t\t: fpu avx2");
  write("proc/1/cgroup", "0::/init.scope");
  EXPECT_EQ(get("virtual_machine"), "no");
  EXPECT_EQ(get("container"), "none found");
}

TEST_F(Machine, NeverLeavesOutWhatItDoesNotKnow) {
  const Facts facts = machine_facts(root_);
  for (const char* name : {"cpu", "numa_nodes", "governor", "smt", "kernel", "virtual_machine",
                           "container", "huge_pages"}) {
    EXPECT_EQ(fact(facts, name), "unknown") << name;
  }
  EXPECT_EQ(facts.size(), 8U);
}

TEST(Variables, AreThoseThatChangeARun) {
  const char* const environment[] = {"UCX_TLS=tcp",
                                     "HOME=/root",
                                     "OMPI_MCA_btl=self,tcp",
                                     "OMPI_COMM_WORLD_RANK=1",
                                     "OMPI_MCA_orte_hnp_uri=1.0;tcp://10.0.0.1:9",
                                     "NCCL_DEBUG=INFO",
                                     "OMP_NUM_THREADS=2",
                                     "PMIX_RANK=1",
                                     nullptr};
  EXPECT_EQ(relevant_variables(environment),
            "NCCL_DEBUG=INFO OMPI_MCA_btl=self,tcp OMP_NUM_THREADS=2 UCX_TLS=tcp");
  const char* const none[] = {nullptr};
  EXPECT_EQ(relevant_variables(none), "none");
}

TEST(Facts, OfSeveralResultsAreJoined) {
  Facts facts;
  add_fact(facts, "clock", "one machine");
  add_fact(facts, "clock", "one machine");
  add_fact(facts, "table", "");
  EXPECT_EQ(fact(facts, "clock"), "one machine");
  add_fact(facts, "clock", "two");
  add_fact(facts, "clock", "two");
  EXPECT_EQ(fact(facts, "clock"), "one machine; two");
  EXPECT_EQ(fact(facts, "table"), "unknown");
  EXPECT_EQ(fact(facts, "none"), "unknown");
}

}  // namespace
}  // namespace shardlm
