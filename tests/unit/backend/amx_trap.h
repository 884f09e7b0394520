// Carries out AMX instructions on a machine without them: each ends in an illegal instruction,
// whose signal is answered by emulated tiles. So the very machine code of amx_matmul.cc is tested.
#pragma once

namespace shardlm {

/// While it lives, for all threads. One at a time.
class AmxTrap {
 public:
  /// False where the signal cannot be answered: not on Linux, not on x86-64.
  static bool available();

  /// `swaps`: the second and third tile of a product are taken for each other, as by an assembler
  /// with the wrong order of operands.
  explicit AmxTrap(bool swaps = false);
  ~AmxTrap();
  AmxTrap(const AmxTrap&) = delete;
  AmxTrap& operator=(const AmxTrap&) = delete;

  /// Instructions so far, of all threads.
  static long instructions();
};

}  // namespace shardlm
