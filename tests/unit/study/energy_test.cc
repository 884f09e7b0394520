// The energy counters, on made-up trees of files.
#include "study/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace shardlm {
namespace {

namespace fs = std::filesystem;

/// /sys/class/powercap of a made-up machine.
class Powercap : public testing::Test {
 protected:
  Powercap() {
    fs::remove_all(root_);
    fs::create_directories(zones());
  }
  ~Powercap() override { fs::remove_all(root_); }
  fs::path zones() const { return root_ / "sys/class/powercap"; }
  void zone(const std::string& folder, const std::string& name, std::uint64_t uj,
            std::uint64_t range) {
    write(folder, "name", name);
    write(folder, "energy_uj", std::to_string(uj));
    write(folder, "max_energy_range_uj", std::to_string(range));
  }
  void write(const std::string& folder, const std::string& file, const std::string& text) {
    fs::create_directories(zones() / folder);
    std::ofstream(zones() / folder / file) << text << '\n';
  }
  const fs::path root_ = fs::path(testing::TempDir()) / ("shardlm_powercap-" + std::to_string(::getpid()));
};

TEST_F(Powercap, AddsUpPackagesAndNothingElse) {
  zone("intel-rapl:0", "package-0", 5'000'000, 1'000'000'000);
  zone("intel-rapl:1", "package-1", 0, 1'000'000'000);
  zone("intel-rapl:0:0", "core", 100, 1'000'000'000);
  zone("intel-rapl:2", "psys", 100, 1'000'000'000);
  EnergyMeter meter(root_);
  EXPECT_TRUE(meter.works());
  EXPECT_EQ(meter.packages(), 2U);
  EXPECT_EQ(meter.joules(), 0);
  write("intel-rapl:0", "energy_uj", "7500000");
  write("intel-rapl:1", "energy_uj", "1000000");
  write("intel-rapl:0:0", "energy_uj", "99000000");
  write("intel-rapl:2", "energy_uj", "99000000");
  EXPECT_DOUBLE_EQ(meter.joules(), 3.5);
  EXPECT_EQ(meter.joules(), 0);
}

TEST_F(Powercap, ACounterStartsAgainAtItsRange) {
  zone("intel-rapl:0", "package-0", 9'000'000, 10'000'000);
  EnergyMeter meter(root_);
  write("intel-rapl:0", "energy_uj", "2000000");
  EXPECT_DOUBLE_EQ(meter.joules(), 3);
  write("intel-rapl:0", "energy_uj", "2500000");
  EXPECT_DOUBLE_EQ(meter.joules(), 0.5);
}

TEST_F(Powercap, SaysWhyThereIsNothing) {
  EXPECT_FALSE(EnergyMeter(root_ / "none").works());
  EXPECT_EQ(EnergyMeter(root_ / "none").why_not(), "no powercap counters of a package");
  EXPECT_FALSE(EnergyMeter(root_).works());
  write("intel-rapl:0", "name", "package-0");  // without a counter that this user may read
  EnergyMeter meter(root_);
  EXPECT_FALSE(meter.works());
  EXPECT_NE(meter.why_not().find("energy_uj cannot be read"), std::string::npos);
  EXPECT_EQ(meter.joules(), 0);
}

}  // namespace
}  // namespace shardlm
