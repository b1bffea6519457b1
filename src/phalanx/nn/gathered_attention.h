#pragma once
// Attention of a rank's queries to the keys of all ranks of a context, which every rank gathers.
// Keys are in the order of the sample where each rank's rows are two chunks of it: then a query's
// output and its gradient have the bits that they have on one rank.

#include "phalanx/nn/pass.h"
#include "phalanx/ops/attention.h"

namespace phalanx::nn {

// Of the inputs key, value and key rows are this rank's: [n, b, groups, d]. out [n, b, heads, d],
// lse [b, heads, n]. Scratch: the keys and values of all ranks, twice while they are put in order.
void gathered_attention_forward(Pass& pass, const Tensor& out, const Tensor& lse,
                                const ops::AttentionInputs& own, bool in_chunks);

// The op's gradients are those of this rank's queries, keys and values; so are its inputs. The
// gradients of keys and values are summed over the ranks in full precision and rounded once.
// Scratch: the keys and values of all ranks, and twice their gradients in full precision.
void gathered_attention_backward(Pass& pass, const ops::AttentionBackward& own, bool in_chunks);

}  // namespace phalanx::nn
