#pragma once
// The innermost computations of attention in the family `amx2`, for strips of 32 query rows: the
// lanes. Scores are [keys][32 lanes], keys come in 32s. amx_attention_forward.cc and
// amx_attention_backward.cc order them.
//
// Products have the instruction's order of sums (amx_tiles.h), steps of depth in order. Every
// operation rounds to nearest even and treats subnormal numbers as zeros. 2^x = 2^floor(x) times a
// polynomial of degree 5 in the fraction, rounded down (relative error 2e-7); scores of -infinity
// have probability 0.
//
// As for products there are two programs for the same bits: AMX with AVX-512, and a twin in plain
// C++.

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

inline constexpr int kTileLanes = 32;

// sums[rows][columns] (+)= left right, in tiles of 16 x 16. Strides are in bytes.
struct TileProduct {
  std::int64_t row_tiles = 0, column_tiles = 0;
  std::int64_t steps = 0;           // of 32 elements of depth
  const std::byte* left = nullptr;  // [rows][depth] bf16
  std::int64_t left_stride = 0;
  const std::byte* right = nullptr;  // [depth / 2][columns], pairs of bf16
  std::int64_t right_stride = 0;
  float* sums = nullptr;
  std::int64_t sums_stride = 0;
  bool add = false;
};
// Products that are computed between the vectors of a softmax or of gradients, while those keep the
// other units of the processor busy. Neither touches what the other writes.
using TileProducts = std::span<const TileProduct>;

// A step of the online softmax (attention_scores-inl.h) over the keys of a span. With x = factor *
// score: maximum = max(maximum, x), shrink = 2^(maximum before - maximum), sum = sum * shrink +
// the 2^(x - maximum), which are written as bf16, dropped ones as 0.
struct TileSoftmax {
  std::int64_t keys = 0;
  std::int64_t lanes = kTileLanes;      // 16 or 32
  const float* scores = nullptr;        // [keys][32]
  float factor = 1.0F;                  // positive
  const std::uint32_t* kept = nullptr;  // [keys], bit l: lane l is kept; null: all are
  float* maximum = nullptr;             // [32], as the next two
  float* sum = nullptr;
  float* shrink = nullptr;
  std::byte* pairs = nullptr;  // [keys / 2][32]: bf16 of two keys
};

// Probabilities p = 2^(factor * score - lse) and gradients of the scores, p * (dp - delta), where
// dp = kept_factor * dvalues, 0 where p is dropped.
struct TileGradients {
  std::int64_t keys = 0;
  const float* scores = nullptr;   // [keys][32]
  const float* dvalues = nullptr;  // [keys][32]: dout v'
  float factor = 1.0F;
  const std::uint32_t* kept = nullptr;
  float kept_factor = 1.0F;
  const float* lse = nullptr;          // [32], in base 2
  const float* delta = nullptr;        // [32]
  std::byte* probabilities = nullptr;  // [keys][32] bf16, rows `stride` bytes apart; after dropout
  std::byte* gradients = nullptr;      // the same
  std::int64_t stride = 0;
  std::byte* pairs = nullptr;  // [keys / 2][32 columns]: gradients of two keys, see pair_column()
  float* exact_gradients = nullptr;  // [keys][32]; null: not wanted
};

// The column of a lane in the pairs of gradients. Rows of two keys are interleaved within groups of
// 8 lanes, the first halves of the groups, then the second: a step of one instruction each.
constexpr std::int64_t pair_column(std::int64_t lane) {
  const std::int64_t group = lane / 8, place = lane % 8;
  return place < 4 ? 4 * group + place : 16 + 4 * group + place - 4;
}

struct AttentionKernel {
  // Called on a thread before its first product and after its last.
  void (*prepare)();
  void (*release)();
  void (*multiply)(const TileProduct& product);
  void (*softmax)(const TileSoftmax& step, TileProducts beside);
  void (*gradients)(const TileGradients& step, TileProducts beside);
};

// AMX's and AVX-512's instructions if the target has them, else the twin.
const AttentionKernel& attention_kernel(Target target);
// For tests.
const AttentionKernel& attention_kernel_twin();

// ---- for the two programs

// 2^f for 0 <= f <= 1, through the values at 0 and 1.
inline constexpr float kTilePower[6] = {1.0F,          0.693151236F,   0.240157738F,
                                        0.0558360219F, 0.00895988848F, 0.00189510733F};

}  // namespace phalanx::cpu
