#pragma once
// The messages of a training step in closed form. Symbols: s sequence, b microbatch, h hidden, L
// layers, t tensor- and d data-parallel ranks, c ranks of a context, p pipeline ranks, e bytes of
// an activation, r of an element of the residual stream. With a context, s is the rows of a rank
// but where S is the sample's, and what is over dp is over dp-cp. Payloads are what the rank
// contributes (comm/communicator.h).
//
// Every microbatch, over tp; of layers, embedding and head each rank has those of its stages:
//   broadcast         24 s b + 8 S b, from the first rank: tokens, labels, position ids, mask and
//                     samples, and positions and documents of all rows
//   without sequence parallelism
//     all_reduce      r s b h behind the embedding; e s b h: 4 of each layer, 1 into the head
//   with it
//     reduce_scatter  r s b h behind the embedding; e s b h: 4 of each layer, 1 into the head
//     all_gather      e s b h / t: 4 of each layer and 2 of its inputs again for weight gradients;
//                     2 of the head, 1 of the embedding
//   of the head
//     all_gather      3 numbers of 4 bytes for each of s b rows: maximum, sum and target of the
//                     vocabulary's part (in pieces of 256 rows where logits are not stored in fp32)
//   recomputation of a group of layers of one chunk: its forward once more, without the last
//     reduction; and r s b h / t all-gathered where inputs are distributed
// and over pp, for each end of a chunk that is another rank's business:
//   send              r s b h / t, activation or gradient: with sequence parallelism what the rank
//                     has, without it the rank's share of what all ranks have
//   receive           as often; the payload is the sender's
// and then over tp without sequence parallelism:
//   all_gather        r s b h / t: the shares of what was received
// Every microbatch and layer, over cp, of c ranks, with q = heads * n / t, k = groups * n / t at
// least n, of n numbers each, and "forward" once more where a layer is recomputed:
//   p2p               c - 1 sends of 2 s b k e forward and backward, and of 2 s b k 4 backward
//   all_gather        all_gather of 2 s b k e forward and backward, reduce_scatter of 2 S b k 4
//   a2a               all_to_all, with K = max(k, c n): s b (q + 2 K) e and s b q e forward; s b q
//                     e, 4 s b heads / t and s b (q + 2 K) e backward, the last in two where ranks
//                     share groups: s b q e and 2 s b K 4
//   a2a+p2p           of A x B ranks a2a over A in cp-heads, and p2p over B in cp-ring of A s rows
//                     and max(k / A, n)
// and of the head, where losses are means of microbatches, all_reduce of 8: what a microbatch
//   counts; and every step all_reduce of 16 for each microbatch: sums and counts
// Every step, over dp:
//   sums of gradients: all_reduce of 4 bytes for each element, in buckets of one chunk each; with a
//     distributed optimizer reduce_scatter of as much, and all_gather of e bytes for each element
//     of the shard
//   ZeRO stage 2: the buckets are of one unit each, and the reduce_scatter is every microbatch's
//   ZeRO stage 3: so is the all_gather, of what is cut: of each layer twice, before forward and
//     backward (recomputation is part of backward), of a tied table twice, for embedding and head,
//     of others once; all of these once where what forward gathered stays. (Of layers more than are
//     gathered ahead, and of these fewer than 3.)
//   all_reduce        16: the loss, two numbers of 8 bytes; with a distributed optimizer 8 for each
//                     block of the norm
// Of several copies of the shared states that is over dp-shard, but for the loss; and over
// dp-replica:
//   all_reduce        4 bytes for each element of the shard
// over pp:
//   all_reduce        16: the loss
// over embd, where the embedding is tied to a head on another rank, on these two:
//   all_reduce        4 bytes for each element of the word table
// over mp, the ranks of one copy of the model (without a pipeline: over tp):
//   all_reduce        8 for each parameter of the whole model: the norm
// and over tp with sequence parallelism:
//   all_reduce        4 (6 h L + 2 h): gradients of norms and row-parallel biases
// and over kv, the t / g ranks that have the same of g < t groups of heads of size n:
//   all_reduce        8 n h of each layer, and 8 n: gradients of the key's and the value's rows

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/settings/train_config.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

MessageTotals step_messages(const TrainConfig& config, std::int64_t vocabulary, int rank);

// Of the flat parameter buffer of a rank.
struct FlatSizes {
  std::int64_t parameters = 0;  // tensors of the whole model
  std::int64_t elements = 0;    // gaps and padding included
  // Of what is reduced and gathered together: a chunk or, where gradients or weights are cut, a
  // unit. The last one first.
  struct Region {
    std::int64_t elements = 0;
    std::int64_t gathers = 0;   // of a microbatch
    bool stays = true;          // or is gathered once a step, if at all
    bool has_no_files = false;  // whatever flags say
  };
  std::vector<Region> regions;
  std::int64_t blocks = 0;  // of the norm: of what the rank counts
};
FlatSizes flat_sizes(const TrainConfig& config, std::int64_t vocabulary, int rank = 0);

// Ranks of data parallelism that share one copy of the states.
std::int64_t ranks_of_copy(const TrainConfig& config);
// What is whole for passes alone.
bool cuts_gradients(const TrainConfig& config);
// Elements of the buckets of a region.
std::vector<std::int64_t> buckets_of(const TrainConfig& config, std::int64_t region);

// Bytes that a rank of `size` sends for one message of a payload by the ring algorithms: what
// published volumes count.
double ring_bytes(std::string_view op, double payload, int size);

// One line for each group and op.
std::string describe(const MessageTotals& totals);
std::string describe(const TransferTotals& totals);
// The bytes of all messages together.
std::int64_t payload(const MessageTotals& totals);

}  // namespace phalanx
