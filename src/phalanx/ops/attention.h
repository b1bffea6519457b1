#pragma once
// Scaled dot-product attention, softmax(scale q k^T + bias) v, with grouped query heads: query head
// i reads key/value head i / (heads / groups). Queries and keys may differ in number (caches, cross
// attention).
//
// Fused: in tiles, never storing the s x s matrix (Dao et al., FlashAttention, 2022); forward
// returns the log-sum-exp of every row, backward takes the final one and delta = sum(out * dout).
// Unfused: stores the probabilities, which selective recomputation computes again instead. Both
// draw the same dropout masks.
//
// q, k, v and their gradients may be strided views (of a fused QKV tensor) whose last dimension is
// dense. In a fused tensor the queries of a group are neighbours and the groups further apart, so
// queries may be [sq, b, groups, heads / groups, d].
//
// Keys may come in parts, a call of the fused op for each: forward gives the output and the
// log-sum-exp of a part, AttentionMerge joins them, and backward takes the log-sum-exp and delta of
// the joined rows. The sum of its gradients over the parts is that of all keys in one call.
//
// On CUDA, statistics [b, heads, sq] are dense, but for those of AttentionMerge, which may be of
// some queries of a tensor.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// Which keys a query sees: a predicate on the coordinates of both rows. Keys of negative document
// (padding) are never seen. A query that sees no key has output 0 and log-sum-exp -infinity.
struct AttentionMask {
  bool causal = false;     // key position <= query position
  bool documents = false;  // key document == query document
  // Of a causal mask: query position - key position < window; 0: all.
  std::int64_t window = 0;
};

struct AttentionInputs {
  Tensor query;  // [sq, b, heads, d] or [sq, b, groups, heads / groups, d]
  Tensor key;    // [sk, b, groups, d]
  Tensor value;  // [sk, b, groups, d]
  Tensor bias;   // [heads, sq, sk] f32, optional: added to the scaled scores of every sample
  AttentionMask mask;
  RowCoordinates query_rows;  // [sq, b]
  RowCoordinates key_rows;    // [sk, b]; `sample` may be absent: that of the query counts
  double scale = 1.0;
  Dropout dropout;  // of the probabilities; head h uses site + h
};

struct AttentionForward {
  Tensor out;  // [sq, b, heads, d], of the queries' type, or f32: not rounded
  Tensor lse;  // [b, heads, sq], f32
  AttentionInputs in;
};

// delta = sum over d of out * dout.
struct AttentionDelta {
  Tensor delta;  // [b, heads, sq], f32
  Tensor out;    // [sq, b, heads, d]
  Tensor dout;   // [sq, b, heads, d]
};

// A row with a log-sum-exp may see no key here: those that it sees are in other parts.
struct AttentionBackward {
  Tensor dquery, dkey, dvalue;  // as query, key, value, each of their type or f32; overwritten
  Tensor dbias;                 // [heads, sq, sk] f32, optional: accumulated over samples and calls
  Tensor dout;                  // [sq, b, heads, d]
  Tensor lse, delta;            // [b, heads, sq], f32
  AttentionInputs in;
  // dquery, which is then f32, gets the gradient added: one addition for an element.
  bool adds_to_dquery = false;
};

// Joins two parts of attention to different keys, row by row. With outputs o, o' and log-sum-exps
// l, l': L = ln(e^l + e^l'), o = o e^(l - L) + o' e^(l' - L), l = L. A part of log-sum-exp
// -infinity has weight 0, and its output is not read; of two such parts o = 0, l = -infinity.
// Adding parts in another order gives other bits.
struct AttentionMerge {
  Tensor out;       // [sq, b, heads, d], f32; in place
  Tensor lse;       // [b, heads, sq], f32; in place
  Tensor part_out;  // as out
  Tensor part_lse;  // as lse
};

struct UnfusedAttentionForward {
  Tensor out;            // [sq, b, heads, d]
  Tensor probabilities;  // [b, heads, sq, sk], storage type, before dropout
  AttentionInputs in;
};

struct UnfusedAttentionBackward {
  Tensor dquery, dkey, dvalue;
  Tensor dbias;  // optional
  Tensor dout;
  Tensor probabilities;
  AttentionInputs in;
};

OpCost cost(const AttentionForward& op);
OpCost cost(const AttentionDelta& op);
OpCost cost(const AttentionBackward& op);
OpCost cost(const AttentionMerge& op);
OpCost cost(const UnfusedAttentionForward& op);
OpCost cost(const UnfusedAttentionBackward& op);

void attention_forward(Context& context, const AttentionForward& op);
void attention_delta(Context& context, const AttentionDelta& op);
void attention_backward(Context& context, const AttentionBackward& op);
void attention_merge(Context& context, const AttentionMerge& op);
void unfused_attention_forward(Context& context, const UnfusedAttentionForward& op);
void unfused_attention_backward(Context& context, const UnfusedAttentionBackward& op);

}  // namespace phalanx::ops
