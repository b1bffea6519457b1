#pragma once
// Tensor and sequence parallelism as the layers see it. A sub-layer is a region: it is entered from
// the residual stream by a column-parallel linear and left through a row-parallel one. Inside,
// every rank of the tensor-parallel group works on all rows with its share of the features;
// outside, the stream is whole on every rank, or, with sequence parallelism, each rank holds its
// share of the rows (Korthikanti et al., Reducing Activation Recomputation in Large Transformer
// Models, 2022).
//
//                     without sequence parallelism       with it
//   enter             nothing (copy to tensor-parallel)  all-gather (gather from sequence-parallel)
//   leave             all-reduce (reduce from            reduce-scatter (scatter to
//                     tensor-parallel)                   sequence-parallel)
//
// The backward of entering is leaving, and the other way round. Both work in place on a tensor
// [s, b, h] with the region's rows; the stream's part of it is own().
//
// A stream that is whole on every rank can still be kept or moved in shares, an equal run of its
// elements for each rank, that the group gathers where it is read.

#include "phalanx/comm/communicator.h"

namespace phalanx {

// The layout that layers are built for.
struct TensorParallel {
  int rank = 0;
  int size = 1;
  bool sequence = false;     // the stream is cut along the sequence
  bool async_reduce = true;  // reductions of input gradients overlap with weight gradients

  int sequence_shards() const { return sequence ? size : 1; }
};

class TensorRegion {
 public:
  // One rank: no group, no messages.
  TensorRegion() = default;
  // `group` is null where the layout has one rank.
  TensorRegion(const TensorParallel& layout, Communicator* group);

  const TensorParallel& layout() const { return layout_; }
  bool is_parallel() const { return layout_.size > 1; }
  // Whether weight gradients are computed while a region's input gradient is being reduced.
  bool overlaps() const { return is_parallel() && layout_.async_reduce; }
  // The tensor-parallel group; there must be one.
  Communicator& group() const;

  // The rows of [s, ...] that this rank's stream holds: all, or s / t from rank * s / t on, where t
  // must divide s.
  Tensor own(const Tensor& inside) const;

  // Before: own(inside) is this rank's stream. After: all rows are there.
  Work enter(Context& context, const Tensor& inside) const;
  // Before: inside is this rank's partial sum. After: own(inside) is the stream; other rows are
  // undefined.
  Work leave(Context& context, const Tensor& inside) const;

  // Whether a stream of `count` elements is whole on every rank and can be cut into equal shares.
  bool has_shares(std::int64_t count) const {
    return is_parallel() && !layout_.sequence && count % layout_.size == 0;
  }
  // This rank's share of such a stream, flat.
  Tensor share(const Tensor& stream) const;
  // Before: share(stream) is there. After: all of it.
  Work gather_shares(Context& context, const Tensor& stream) const;

 private:
  TensorParallel layout_;
  Communicator* group_ = nullptr;
};

}  // namespace phalanx
