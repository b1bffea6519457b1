#pragma once
// Attention of a rank's queries to the keys of all ranks of a ring, whose keys and values go round
// (Liu et al., Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023). Rank r
// starts with its own block; in step i it attends to that of rank r - i, while the next block comes
// from rank r - 1 and the present one goes to rank r + 1. Bytes and their order do not depend on
// what is masked.
//
// Forward merges the parts in the order of steps. Backward sends keys and values round once more;
// what a step adds to the gradients of a block's keys and values goes straight to the block's
// owner, who adds the parts in the order of the ranks after its own.

#include "phalanx/nn/pass.h"
#include "phalanx/ops/attention.h"

namespace phalanx::nn {

// Whose keys and values `rank` has in `step` of a ring of `ranks`: in step 0 its own.
constexpr int ring_source(int rank, int step, int ranks) { return (rank - step + ranks) % ranks; }
// The step in which `rank` has those of `source`.
constexpr int ring_step(int rank, int source, int ranks) {
  return ring_source(rank, source, ranks);
}

// What both passes are given. Of `own` the key rows are not read; `ring_rows` has position and
// document of all ranks' rows [ring size * m, b], in rank order.
struct RingInputs {
  ops::AttentionInputs own;  // m queries, keys and values of this rank
  RowCoordinates ring_rows;
};

// out [m, b, heads, d] and lse [b, heads, m] are in full precision. Scratch: two blocks [2, m, b,
// groups, d] of keys and values, and a part's out and lse.
void ring_attention_forward(Pass& pass, Communicator& ring, const Tensor& out, const Tensor& lse,
                            const RingInputs& inputs);

struct RingGradients {
  Tensor query;          // as the queries, in full precision
  Tensor key_and_value;  // [2, m, b, groups, d], dense, in full precision
};

// `lse` and `delta` [b, heads, m] are of all keys. Scratch: the two blocks, and of key_and_value's
// size one part that comes and two that go (of two ranks: one).
void ring_attention_backward(Pass& pass, Communicator& ring, const RingGradients& gradients,
                             const Tensor& dout, const Tensor& lse, const Tensor& delta,
                             const RingInputs& inputs);

}  // namespace phalanx::nn
