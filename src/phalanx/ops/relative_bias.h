#pragma once
// T5's relative position bias (Raffel et al., Exploring the Limits of Transfer Learning, 2020,
// with the buckets and their rounding as Megatron's): a table has a number for every bucket of
// distances and every head, and bias[head][query][key] = table[bucket(key - query)][head] is added
// to the scaled scores of all samples and layers of a stack.

#include "phalanx/ops/rows.h"

namespace phalanx::ops {

// Distances from count / 2 of a side on share buckets on a logarithmic scale; those from
// max_distance on are in the last. A bidirectional stack has half of the buckets for the keys after
// the query; else all of these are in the bucket of distance 0.
struct RelativeBuckets {
  std::int64_t count = 32;          // at least 4, or 2 where it is not bidirectional
  std::int64_t max_distance = 128;  // more than half of a side's buckets
  bool bidirectional = true;

  std::int64_t of_side() const { return bidirectional ? count / 2 : count; }
  // How many distances have their own bucket.
  std::int64_t exact() const { return of_side() / 2; }
  bool are_valid() const { return exact() >= 1 && max_distance > exact(); }
};

// The bucket of `difference` = position of the key - position of the query.
std::int64_t relative_bucket(const RelativeBuckets& buckets, std::int64_t difference);

// Key row j is at position j and query row i at first_query + i (a decoder that has its earlier
// keys in a cache). Heads are [first_head, first_head + heads) of the table's.
struct RelativeBiasForward {
  Tensor bias;   // [heads, sq, sk], f32
  Tensor table;  // [buckets, heads of all ranks], f32 or storage type
  RelativeBuckets buckets;
  std::int64_t first_head = 0;
  std::int64_t first_query = 0;
};

// dtable[bucket][head] += the sum of dbias over the pairs of a bucket. In fp64: for each difference
// over queries in order, then over differences in order; rounded once.
struct RelativeBiasBackward {
  Tensor dtable;  // [buckets, heads of all ranks], f32: of other ranks' heads nothing changes
  Tensor dbias;   // [heads, sq, sk], f32
  RelativeBuckets buckets;
  std::int64_t first_head = 0;
  std::int64_t first_query = 0;
};

OpCost cost(const RelativeBiasForward& op);
OpCost cost(const RelativeBiasBackward& op);

void relative_bias_forward(Context& context, const RelativeBiasForward& op);
void relative_bias_backward(Context& context, const RelativeBiasBackward& op);

}  // namespace phalanx::ops
