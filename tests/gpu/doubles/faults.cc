#include "tests/gpu/doubles/faults.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/emulation/sanitizers.h"

namespace shardlm::doubles {
namespace {

struct Fault {
  std::string function;
  int countdown = 0, error = 0;
};

struct Faults {
  std::mutex mutex;
  std::atomic<bool> set{false};
  std::string text;
  std::vector<Fault> list;
};
Faults& faults() {
  static Faults f;
  return f;
}

int number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1)
    throw std::invalid_argument("SHARDLM_FAKE_GPU_FAULT: expected call:nth:error, two numbers");
  return value;
}

std::vector<Fault> parse(const std::string& text) {
  std::vector<Fault> list;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t first = part.find(':'), last = part.rfind(':');
    if (first == std::string::npos || first == last)
      throw std::invalid_argument("SHARDLM_FAKE_GPU_FAULT: expected call:nth:error");
    list.push_back({part.substr(0, first),
                    number(std::string_view(part).substr(first + 1, last - first - 1)),
                    number(std::string_view(part).substr(last + 1))});
  }
  return list;
}

}  // namespace

int injected_fault(const char* function) {
  const char* text = std::getenv("SHARDLM_FAKE_GPU_FAULT");
  Faults& f = faults();
  if (text == nullptr && !f.set) return 0;
  const emu::Unordered unordered;
  const std::lock_guard lock(f.mutex);
  f.set = text != nullptr;
  if (text == nullptr) f.text.clear();  // the same text set again counts from the start
  if (text == nullptr) return 0;
  if (f.text != text) {
    f.list = parse(text);
    f.text = text;
  }
  for (Fault& fault : f.list)
    if (fault.function == function && --fault.countdown == 0) return fault.error;
  return 0;
}

}  // namespace shardlm::doubles
