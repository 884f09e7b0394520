// Which instruction sets the kernels are compiled for. To be included before <hwy/highway.h> by
// every file with kernels.
#pragma once

// Highway's bits of what we leave out, as numbers because old versions lack some of the names:
// 0x70FF on x86 (everything above AVX3 and below SSE4: no use for their extra instructions, much
// compile time), SVE and RVV (vectors of unknown length cannot be array elements).
#define HWY_DISABLED_TARGETS (0x70FFLL | (0xFLL << 24) | (1LL << 37))
