#include "comm/emulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

constexpr double kMost_us = 1e9;  // 1000 s: more is a slip

[[noreturn]] void refuse(std::string_view text, const std::string& expected,
                         std::string_view found) {
  fail(ExitCode::usage,
       {.what = fmt::format("emulated network '{}'", text),
        .expected = expected,
        .found = fmt::format("'{}'", found),
        .remedy = "write for example latency_us=100,gbit=1,jitter_us=5,slow_rank=2,slow_us=300"});
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

struct Field {
  std::string_view name;
  double Emulation::*value;
  double most;
};
constexpr std::array kFields = {Field{"latency_us", &Emulation::latency_us, kMost_us},
                                Field{"gbit", &Emulation::gbit_per_s, 1e6},
                                Field{"jitter_us", &Emulation::jitter_us, kMost_us},
                                Field{"slow_us", &Emulation::slow_us, kMost_us}};

void set(Emulation& emulation, std::string_view text, std::string_view name,
         std::string_view value) {
  for (const Field& field : kFields) {
    if (name != field.name) continue;
    double number = 0;
    if (!read_number(value, number) || !(number >= 0 && number <= field.most)) {
      refuse(text, fmt::format("{} from 0 to {:g}", name, field.most), value);
    }
    emulation.*field.value = number;
    return;
  }
  if (name == "slow_rank") {
    if (!read_number(value, emulation.slow_rank) || emulation.slow_rank < 0) {
      refuse(text, "slow_rank, a rank's number from 0", value);
    }
  } else if (name == "seed") {
    if (!read_number(value, emulation.seed)) refuse(text, "seed, a whole number from 0", value);
  } else {
    refuse(text, "latency_us, gbit, jitter_us, slow_rank, slow_us or seed", name);
  }
}

}  // namespace

Emulation parse_emulation(std::string_view text) {
  Emulation emulation;
  std::set<std::string_view> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(text, "NAME=VALUE with commas between", part);
    const std::string_view name = part.substr(0, equals);
    set(emulation, text, name, part.substr(equals + 1));
    if (!seen.insert(name).second) refuse(text, "each name once", part);
  }
  if (seen.contains("slow_rank") != seen.contains("slow_us")) {
    refuse(text, "slow_rank and slow_us together",
           seen.contains("slow_rank") ? "slow_rank alone" : "slow_us alone");
  }
  if (seen.contains("seed") && emulation.jitter_us == 0) {
    refuse(text, "a seed only with jitter_us", "seed");
  }
  return emulation;
}

std::string emulation_text(const Emulation& emulation) {
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  };
  if (emulation.latency_us > 0) add("latency_us", emulation.latency_us);
  if (emulation.gbit_per_s > 0) add("gbit", emulation.gbit_per_s);
  if (emulation.jitter_us > 0) add("jitter_us", emulation.jitter_us);
  if (emulation.slow_rank >= 0) add("slow_rank", emulation.slow_rank);
  if (emulation.slow_rank >= 0) add("slow_us", emulation.slow_us);
  if (emulation.seed != 0) add("seed", emulation.seed);
  return text;
}

std::int64_t network_ns(const Emulation& emulation, const NetworkLoad& load, std::uint64_t call,
                        std::uint32_t part) {
  double us = load.rounds * emulation.latency_us;
  if (emulation.gbit_per_s > 0) us += load.bytes * 8e-3 / emulation.gbit_per_s;
  if (emulation.jitter_us > 0) {
    const auto random = philox4x32_10(
        {part, static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32), 0},
        {static_cast<std::uint32_t>(emulation.seed),
         static_cast<std::uint32_t>(emulation.seed >> 32)});
    us += emulation.jitter_us * (random[0] * 0x1p-32);
  }
  return std::llround(us * 1e3);
}

}  // namespace shardlm
