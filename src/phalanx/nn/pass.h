#pragma once
// What a pass over one microbatch is given: where to compute, the parameters and gradients that the
// caller resolved for one (chunk, weight version), the batch, and the sums that become the loss.

#include <span>
#include <utility>
#include <vector>

#include "phalanx/mesh/param_spec.h"
#include "phalanx/nn/saved.h"
#include "phalanx/ops/backend.h"
#include "phalanx/parallel/tensor_region.h"

namespace phalanx::nn {

// One microbatch on the device. Everything is [s, b].
struct Batch {
  Tensor tokens;        // i32
  Tensor position_ids;  // i32: rows of the position table
  Tensor labels;        // i32
  Tensor loss_mask;     // f32
  RowCoordinates rows;
};

// Parameters by id, in storage type.
struct Weights {
  std::span<const Tensor> tensors;
  const Tensor& operator[](ParamId id) const { return tensors[static_cast<std::size_t>(id)]; }
};

// The second accumulator of a tied embedding: rows that occurred on its input side
// (ops/embedding.h).
struct SparseGradient {
  Tensor slots, rows, count, values;
};

// fp32 main gradients by id.
struct Gradients {
  std::span<const Tensor> tensors;
  SparseGradient embedding;  // where the embedding is tied
  // By id: whether passes of this update have left a sum, to which others add. Empty: all have one.
  std::span<bool> begun = {};
  // Whether a pass adds to this gradient. The first of an update does not: it overwrites what is
  // left of the last one. Asking makes the next pass add.
  bool adds_to(ParamId id) const {
    return begun.empty() || std::exchange(begun[static_cast<std::size_t>(id)], true);
  }
  const Tensor& operator[](ParamId id) const { return tensors[static_cast<std::size_t>(id)]; }
};

// How the head turns row losses into the gradient that backward starts from.
struct LossSettings {
  Tensor loss_scale;    // [1]
  double factor = 1.0;  // 1 / (global batch * sequence), or 1 / microbatches
  bool mean_of_microbatch =
      false;  // also divide by the microbatch's unmasked tokens (Megatron's mean of means)
};

// Named sums of a loss over the microbatches so far: {name, sum, count}.
struct LossSums {
  Tensor sum;    // [1], f64
  Tensor count;  // [1], f64
};

// Keys and values of earlier positions, for generation. One entry per layer of the chunk.
struct KeyValueCache {
  std::vector<Tensor> keys, values;  // each [capacity, b, groups, d]
  RowCoordinates rows;               // [capacity, b]; filled by the owner
  std::int64_t length = 0;           // positions cached before this pass
};

struct Pass {
  Context& ops;
  const Weights& weights;
  const Batch& batch;
  BatchShape shape;
  TensorRegion region;
  bool training = true;  // dropout; gradients of the loss
  LossSettings loss_settings;
  LossSums losses;
  KeyValueCache* cache = nullptr;  // generation only
  // Generation and scoring only, one sequence at a time: [1, V] f32, of the last position. Without
  // row_losses nothing else is computed of the logits.
  Tensor logits;
  Tensor row_losses = {};  // scoring only: [s*b] f32, where the head leaves the loss of every row

  // The coordinates of the residual stream's rows.
  RowCoordinates stream_rows() const {
    return {.sample = region.own(batch.rows.sample),
            .position = region.own(batch.rows.position),
            .document = region.own(batch.rows.document)};
  }
  // Runs a message to its end.
  void finish(const Work& work) const { work.wait(ops.stream); }

  // Scratch until the enclosing WorkspaceScope ends.
  Tensor scratch(DType dtype, const Shape& extents) const {
    return ops.workspace.allocate(dtype, extents);
  }
  Tensor scratch_rows(DType dtype, std::int64_t width) const {
    return scratch(dtype, {shape.sequence, shape.micro_batch, width});
  }
  Tensor scratch_stream(DType dtype, std::int64_t width) const {
    return scratch(dtype, {shape.stream_sequence(), shape.micro_batch, width});
  }
};

}  // namespace phalanx::nn
