#pragma once
// Loops of multiply-adds on registers alone, which measure a core's peak rate. Each runs for about
// a tenth of a millisecond and returns the number of floating-point operations.

namespace phalanx::cpu {

double multiply_adds_f32();
// Dot products of pairs of bf16, accumulated in fp32; the processor must have AVX512_BF16.
double multiply_adds_bf16();
// The same on AMX's tiles; the process must have permission to use them (target.h).
double multiply_adds_amx();

}  // namespace phalanx::cpu
