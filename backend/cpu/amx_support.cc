#include "backend/cpu/amx_support.h"

#include <cstdlib>
#include <string_view>

#include "backend/cpu/amx_tiles.h"
#include "base/error.h"
#include "base/log.h"

#if defined(SHARDLM_HAS_AMX_TILES) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace shardlm {
namespace {

#if defined(SHARDLM_HAS_AMX_TILES) && defined(__linux__)
AmxSupport machine() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kOsXsave = 1U << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return {};
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3U << 17;
  if ((low & kTileState) != kTileState) return {};
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & 1U << 24) == 0) return {};
  return {.bf16 = (d & 1U << 22) != 0, .int8 = (d & 1U << 25) != 0};
}

// Linux hands out the tiles' 8 KiB of state a thread on request only, once for a process.
bool permission() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
AmxSupport machine() { return {}; }
bool permission() { return false; }
#endif

AmxSupport trial() { return {.bf16 = amx_bf16_is_right(), .int8 = amx_int8_is_right()}; }

bool is_off(const char* wish) {
  if (wish == nullptr || std::string_view(wish) == "auto") return false;
  if (std::string_view(wish) == "off") return true;
  fail(ExitCode::usage, {.what = "environment variable SHARDLM_AMX",
                         .expected = "off or auto",
                         .found = "\"" + std::string(wish) + "\""});
}

}  // namespace

AmxSupport decide_amx(const AmxQuestions& questions) {
  const bool off = is_off(questions.wish);
  const AmxSupport has = questions.machine();
  if (off || (!has.bf16 && !has.int8)) return {};
  if (!questions.permission()) return {.reason = "the system does not let this process use it"};
  const AmxSupport right = questions.trial();
  AmxSupport use{.bf16 = has.bf16 && right.bf16, .int8 = has.int8 && right.int8};
  if (use.bf16 != has.bf16) use.reason = "products of bfloat16 fail a trial";
  if (use.int8 != has.int8) {
    use.reason += std::string(use.reason.empty() ? "" : ", ") + "products of bytes fail a trial";
  }
  return use;
}

const AmxSupport& amx_support() {
  static const AmxSupport support = [] {
    AmxSupport use = decide_amx({.wish = std::getenv("SHARDLM_AMX"),
                                 .machine = machine,
                                 .permission = permission,
                                 .trial = trial});
    if (!use.reason.empty()) log::warning("AMX is not used, or not for all: " + use.reason);
    return use;
  }();
  return support;
}

}  // namespace shardlm
