#pragma once
// Loops of multiply-adds, which measure a core's peak rate: on registers alone, if not said
// otherwise. Each runs for about a tenth of a millisecond and returns the number of floating-point
// operations.

namespace phalanx::cpu {

double multiply_adds_f32();
// Dot products of pairs of bf16, accumulated in fp32; the processor must have AVX512_BF16.
double multiply_adds_bf16();
// The same on AMX's tiles; the process must have permission to use them (target.h).
double multiply_adds_amx();
// The same, where every four products load four tiles of random numbers from the first-level cache:
// the most that a product can reach. A processor slows its clock for such tiles, not for zeros.
double multiply_adds_loaded_amx();

}  // namespace phalanx::cpu
