// The energy that a machine's processors take, by the counters of Linux's powercap (RAPL).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardlm {

/// All processor packages of this machine together. Reading costs some ten microseconds a package.
/// A package's counter starts again at its range; a meter that is not read within a range (about a
/// minute of full power at worst) cannot tell how often it did.
class EnergyMeter {
 public:
  /// `root`: where /sys is, for tests.
  explicit EnergyMeter(const std::filesystem::path& root = "/");

  bool works() const { return !packages_.empty(); }
  std::size_t packages() const { return packages_.size(); }
  /// Why it does not: "no powercap counters", "… cannot be read (needs root)".
  const std::string& why_not() const { return why_not_; }
  /// Joules since the last call, or since the meter was made. 0 if it does not work.
  double joules();

 private:
  struct Package {
    std::filesystem::path counter;
    std::uint64_t range_uj = 0, last_uj = 0;
  };
  std::vector<Package> packages_;
  std::string why_not_;
};

}  // namespace shardlm
