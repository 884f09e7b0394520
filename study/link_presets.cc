#include "study/link_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "io/printable.h"

namespace shardlm {
namespace {

constexpr std::array kPresets = {
    LinkPreset{
        "shm", "shm", 0.36, 0.21, 0.05,
        "measured: one-shot of 2 ranks of one socket, 64 B to 16 KiB; o: a cache line between "
        "cores, rule of thumb"},
    LinkPreset{"1gbe", "network", 30, 8, 3, "alpha, o: rule of thumb for TCP; beta: nominal"},
    LinkPreset{"10gbe", "network", 25, 0.8, 3, "alpha, o: rule of thumb for TCP; beta: nominal"},
    LinkPreset{"25gbe", "network", 25, 0.32, 3, "as 10gbe: the kernel's TCP decides alpha and o"},
    LinkPreset{"100gbe", "network", 3, 0.08, 0.3,
               "RoCE; alpha, o: rule of thumb; beta: nominal (over TCP: 25,100,3)"},
    LinkPreset{"400gbe", "network", 3, 0.02, 0.3,
               "RoCE; alpha, o: rule of thumb; beta: nominal (over TCP: 25,400,3)"},
    LinkPreset{"ib-hdr", "network", 1.5, 0.045, 0.3,
               "alpha, o: rule of thumb; beta: nominal 200 Gbit/s, of which 89 % are reached"},
    LinkPreset{"ib-ndr", "network", 1.5, 0.0225, 0.3,
               "alpha, o: as ib-hdr; beta: nominal 400 Gbit/s, of which 89 % are reached"},
    LinkPreset{"nvlink4", "node", 3.3, 0.0028, 0.37,
               "alpha, o: published one-shot sums of 512 B on H100, 2 and 8 GPUs (3.7, 5.9 us); "
               "beta: nominal 450 GB/s one way, of which 80 % are reached, rule of thumb"},
    LinkPreset{"pcie4", "node", 6, 0.038, 0.5,
               "alpha: published NCCL sum of 8 B, 2 GPUs (6.2 us); beta: x16 nominal 31.5 GB/s, of "
               "which 26 are reached; beta, o: rule of thumb"},
    LinkPreset{"pcie5", "node", 6, 0.019, 0.5, "as pcie4, twice its rate"},
};

constexpr std::uint64_t kAnySize = std::uint64_t{1} << 50;

LinkClass class_of(const LinkPreset& preset) {
  LinkClass link;
  link.name = preset.link_class;
  link.transport = preset.link_class == "shm" ? "shm" : "mpi";
  link.segments = {{0, kAnySize, preset.alpha_us * 1e-6, preset.beta_ns_per_byte * 1e-9}};
  link.per_message_s = preset.o_us * 1e-6;
  return link;
}

[[noreturn]] void refuse(const std::string& text) {
  std::vector<std::string_view> names;
  for (const LinkPreset& preset : kPresets) names.push_back(preset.name);
  fail(ExitCode::usage,
       {.what = "link",
        .expected = fmt::format("{}, or ALPHA_US,GBIT of a network (25,10), or ALPHA_US,GBIT,O_US",
                                fmt::join(names, ", ")),
        .found = in_quotes(text)});
}

// "25,10" or "25,10,3": 0 to 1e9 microseconds, more than 0 to 1e6 Gbit/s.
LinkPreset numbers_of(const std::string& text) {
  std::array<double, 3> values = {0, 0, 0};
  std::size_t n = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; n < values.size(); ++n) {
    const auto [stop, error] = std::from_chars(at, end, values[n]);
    const bool last = stop == end;
    if (error != std::errc() || !(values[n] >= 0 && values[n] <= 1e9) || (!last && *stop != ','))
      refuse(text);
    at = last ? stop : stop + 1;
    if (last) break;
  }
  if (at != end || n < 1 || text.back() == ',' || values[1] <= 0 || values[1] > 1e6) refuse(text);
  return {"", "network", values[0], 8 / values[1], values[2], "as given"};
}

}  // namespace

std::span<const LinkPreset> link_presets() { return kPresets; }

Calibration calibration_of_link(const std::string& text) {
  const auto named = std::find_if(kPresets.begin(), kPresets.end(),
                                  [&](const LinkPreset& preset) { return preset.name == text; });
  const bool known = named != kPresets.end();
  const LinkPreset preset = known ? *named : numbers_of(text);
  Calibration c;
  c.source = known ? fmt::format("link {} (documented preset)", text)
                   : fmt::format("link {} (as given: us, Gbit/s)", text);
  c.classes.push_back(class_of(preset));
  if (preset.link_class == "network") c.classes.push_back(class_of(kPresets[0]));
  return c;
}

}  // namespace shardlm
