#include "study/energy.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace shardlm {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::string word_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

EnergyMeter::EnergyMeter(const fs::path& root) : why_not_("no powercap counters of a package") {
  std::error_code error;
  for (const auto& zone : fs::directory_iterator(root / "sys/class/powercap", error)) {
    // "package-0"; its parts (cores, memory) have zones of their own, and psys counts it again.
    if (!word_in(zone.path() / "name").starts_with("package")) continue;
    Package package{.counter = zone.path() / "energy_uj"};
    const auto now = number_in(package.counter);
    if (!now) {
      packages_.clear();
      why_not_ = package.counter.string() + " cannot be read (it wants root)";
      return;
    }
    package.last_uj = *now;
    package.range_uj = number_in(zone.path() / "max_energy_range_uj").value_or(0);
    packages_.push_back(package);
  }
  if (works()) why_not_.clear();
}

double EnergyMeter::joules() {
  double sum_uj = 0;
  for (Package& p : packages_) {
    const std::uint64_t now = number_in(p.counter).value_or(p.last_uj);
    const std::uint64_t more = now >= p.last_uj ? now - p.last_uj : p.range_uj - p.last_uj + now;
    p.last_uj = now;
    // A range that is unknown or wrong must not give a number from the other end.
    sum_uj += more <= std::max(p.range_uj, now) ? static_cast<double>(more) : 0;
  }
  return sum_uj * 1e-6;
}

}  // namespace shardlm
