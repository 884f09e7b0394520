// Whether the matrix tiles of AMX are used: decided once for a process.
#pragma once

#include <string>

namespace shardlm {

struct AmxSupport {
  bool bf16 = false, int8 = false;
  std::string reason =
      {};  ///< why AMX that is there and wanted is not used, or in part; else empty
};

/// This process's. Where the processor and the system have AMX and SHARDLM_AMX is not "off", asks
/// Linux for the tiles and tries small products of known results. A warning says what the machine
/// has and we do not use.
const AmxSupport& amx_support();

/// What to ask a machine, in this order.
struct AmxQuestions {
  const char* wish = nullptr;  ///< SHARDLM_AMX: "off", "auto", or null for auto
  AmxSupport (*machine)();     ///< the processor and the registers that the system saves
  bool (*permission)();
  AmxSupport (*trial)();  ///< runs the kernels: which ones are right
};
AmxSupport decide_amx(const AmxQuestions& questions);

/// Multiplies small whole numbers with the kernels of amx_matmul.h and compares. `guarded`: an
/// illegal instruction or a fault of memory, which is what wrong use of tiles makes, counts as a
/// wrong result.
bool amx_bf16_is_right(bool guarded = true);
bool amx_int8_is_right(bool guarded = true);

}  // namespace shardlm
