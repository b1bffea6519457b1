#pragma once
// From tokens to rows sorted by expert, and back. A token has k pairs, one for each expert that it
// chose: pair t k + i is the i-th of token t. Pairs sorted by (expert, pair) are the rows; a pair
// that was dropped has none. Sums over a token's rows are by ascending row, so by ascending expert,
// in fp32, rounded once.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// The most pairs of a token.
inline constexpr std::int64_t kMostPairs = 64;

// An expert that does not exist is a fault (ops/fault.h); on a device its pair counts as dropped.
struct SortPairs {
  Tensor offsets;      // [n + 1], i32: expert first + e has rows [offsets[e], offsets[e + 1])
  Tensor pair_of_row;  // [tokens k], or [n padded], i32; -1: a row of no pair
  Tensor row_of_pair;  // [tokens, k], i32; -1: the pair has no row
  Tensor chosen;       // [tokens, k], i32: an expert; negative: dropped
  // n of `experts` experts (0: there are n) have rows, from this one on; pairs of others have none.
  std::int64_t first = 0;
  std::int64_t experts = 0;
  // Above 0: each expert has this many rows. Those behind its pairs are of no pair, and pairs that
  // are too many have no row.
  std::int64_t padded = 0;

  std::int64_t all_experts() const { return experts == 0 ? offsets.shape[0] - 1 : experts; }
};

// to[r] = (p of its pair) from[token of its pair]. Rows of no pair stay as they are.
struct PermuteRows {
  Tensor to;             // [rows, h]
  Tensor from;           // [tokens, h]
  Tensor pair_of_row;    // [rows], i32
  Tensor probabilities;  // [tokens, k], f32, optional
  std::int64_t k = 1;    // pairs of a token
};

// y[t] = the sum over t's pairs of (p) rows[row of the pair]: zeros where all are dropped. Of
// PermuteRows with the same operands it is the gradient by `from`, and the other way round.
struct UnpermuteRows {
  Tensor y;              // [tokens, h]; f32 is allowed for 16-bit rows
  Tensor rows;           // [rows, h]
  Tensor row_of_pair;    // [tokens, k], i32
  Tensor probabilities;  // [tokens, k], f32, optional
};

// dots[t, i] = rows[row of the pair] . x[t], 0 for a dropped pair: the gradient by probabilities of
// both (of PermuteRows with `to`'s gradient as rows, of UnpermuteRows with y's as x).
struct PairDots {
  Tensor dots;         // [tokens, k], f32
  Tensor rows;         // [rows, h]
  Tensor x;            // [tokens, h]
  Tensor row_of_pair;  // [tokens, k], i32
};

// to[i] = from[index[i]], 0 for an index outside: probabilities from pairs to rows (pair_of_row)
// and their gradients back (row_of_pair). Shapes do not matter.
struct GatherElements {
  Tensor to;     // [n], f32
  Tensor from;   // [m], f32
  Tensor index;  // [n], i32
};

OpCost cost(const SortPairs& op);
OpCost cost(const PermuteRows& op);
OpCost cost(const UnpermuteRows& op);
OpCost cost(const PairDots& op);
OpCost cost(const GatherElements& op);

void sort_pairs(Context& context, const SortPairs& op);
void permute_rows(Context& context, const PermuteRows& op);
void unpermute_rows(Context& context, const UnpermuteRows& op);
void pair_dots(Context& context, const PairDots& op);
void gather_elements(Context& context, const GatherElements& op);

}  // namespace phalanx::ops
