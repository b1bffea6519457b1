#pragma once
// Loops of multiply-adds on registers alone, for measuring what a core can do at most. Each runs
// for about a tenth of a millisecond and returns the floating-point operations it did.

namespace phalanx::cpu {

double multiply_adds_f32();
// Dot products of pairs of bf16, accumulated in fp32; the processor must have AVX512_BF16.
double multiply_adds_bf16();
// The same on AMX's tiles; the process must have been given them (target.h).
double multiply_adds_amx();

}  // namespace phalanx::cpu
