#pragma once
// Include before any Highway header. Kernels are compiled for the baseline, AVX2 and AVX-512 only.
// Vectors of unknown length (SVE, RVV) are excluded, because kernels keep vectors in structs.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
