#include "tests/unit/backend/amx_trap.h"

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/unit/backend/amx_emulation.h"

namespace shardlm {
namespace {

std::atomic<long> g_instructions{0};
std::atomic<bool> g_swaps{false};
struct sigaction g_before = {};

/// One instruction with a three-byte VEX prefix, as the processor's manual lays it out.
class Instruction {
 public:
  explicit Instruction(const mcontext_t& machine) : machine_(machine) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(machine.gregs[REG_RIP]);
    if (bytes[0] != 0xC4 || (bytes[1] & 0x1F) != 2) return;  // the map 0F38
    if ((bytes[2] & 0x84) != 0) return;                      // W0, 128 bits
    x_ = (bytes[1] & 0x40) == 0 ? 8 : 0;
    b_ = (bytes[1] & 0x20) == 0 ? 8 : 0;
    third = ~(bytes[2] >> 3) & 15;
    prefix = bytes[2] & 3;
    opcode = bytes[3];
    mode = bytes[4] >> 6;
    reg = (bytes[4] >> 3 & 7) | ((bytes[1] & 0x80) == 0 ? 8 : 0);
    rm = (bytes[4] & 7) | (mode == 3 ? b_ : 0);
    length = 5;
    if (mode != 3) read_address(bytes + 5);
  }

  int length = 0;  // 0: not one of these
  int prefix = 0, opcode = 0, mode = 0, reg = 0, rm = 0, third = 0;
  std::uint64_t base = 0, index = 0;  // the address is base + index

 private:
  std::uint64_t value(int number) const {
    constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uint64_t>(machine_.gregs[kOrder[number]]);
  }

  void read_address(const std::uint8_t* rest) {
    int base_number = rm | b_, displaced = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    bool has_base = true;
    if (rm == 4) {
      const int sib = *rest++;
      ++length;
      const int index_number = (sib >> 3 & 7) | x_;
      if (index_number != 4) index = value(index_number) << (sib >> 6);
      base_number = (sib & 7) | b_;
      if ((sib & 7) == 5 && mode == 0) has_base = false;
    } else if (rm == 5 && mode == 0) {
      has_base = false;
    }
    if (!has_base) displaced = 4;
    std::int32_t displacement = 0;
    if (displaced == 1) displacement = static_cast<std::int8_t>(*rest);
    if (displaced == 4) std::memcpy(&displacement, rest, 4);
    length += displaced;
    if (has_base) base = value(base_number);
    if (rm == 5 && mode == 0) {  // relative to the next instruction
      base =
          static_cast<std::uint64_t>(machine_.gregs[REG_RIP]) + static_cast<std::uint64_t>(length);
    }
    base += static_cast<std::uint64_t>(std::int64_t{displacement});
  }

  const mcontext_t& machine_;
  int x_ = 0, b_ = 0;
};

EmulatedTiles& tiles_of_thread() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

constexpr int kNone = 0, kF3 = 2, kF2 = 3;  // prefixes

/// False if it is no instruction that our kernels have.
bool carry_out(const Instruction& i) {
  EmulatedTiles& tiles = tiles_of_thread();
  if (i.length == 0) return false;
  if (i.opcode == 0x49 && i.mode == 3 && i.prefix == kF2) {
    tiles.zero(i.reg);
  } else if (i.opcode == 0x49 && i.mode == 3 && i.prefix == kNone && i.reg == 0 && i.rm == 0) {
    tiles.release();
  } else if (i.opcode == 0x49 && i.mode != 3 && i.prefix == kNone) {
    tiles.configure(*reinterpret_cast<const AmxConfig*>(i.base + i.index));
  } else if (i.opcode == 0x4B && i.mode != 3 && i.prefix == kF2) {
    tiles.load(i.reg, reinterpret_cast<const void*>(i.base), static_cast<std::int64_t>(i.index));
  } else if (i.opcode == 0x4B && i.mode != 3 && i.prefix == kF3) {
    tiles.store(i.reg, reinterpret_cast<void*>(i.base), static_cast<std::int64_t>(i.index));
  } else if (i.opcode == 0x5C && i.mode == 3 && i.prefix == kF3) {
    g_swaps ? tiles.dot_bf16(i.reg, i.third, i.rm) : tiles.dot_bf16(i.reg, i.rm, i.third);
  } else if (i.opcode == 0x5E && i.mode == 3 && i.prefix == kF2) {
    tiles.dot_int8(i.reg, i.rm, i.third);
  } else {
    return false;
  }
  ++g_instructions;
  return true;
}

void on_illegal(int, siginfo_t*, void* context) noexcept {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const Instruction instruction(machine);
  if (!carry_out(instruction)) std::abort();
  machine.gregs[REG_RIP] += instruction.length;
}

}  // namespace

bool AmxTrap::available() { return true; }

AmxTrap::AmxTrap(bool swaps) {
  g_swaps = swaps;
  struct sigaction ours = {};
  ours.sa_sigaction = on_illegal;
  ours.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &ours, &g_before);
}

AmxTrap::~AmxTrap() { sigaction(SIGILL, &g_before, nullptr); }

long AmxTrap::instructions() { return g_instructions; }

}  // namespace shardlm

#else

namespace shardlm {

bool AmxTrap::available() { return false; }
AmxTrap::AmxTrap(bool) {}
AmxTrap::~AmxTrap() = default;
long AmxTrap::instructions() { return 0; }

}  // namespace shardlm

#endif
