#pragma once
// The inputs of a pass over one microbatch: the device, the parameters and gradients of one (chunk,
// weight version), the batch, and the sums for the loss.

#include <array>
#include <span>
#include <vector>

#include "phalanx/nn/param_table.h"
#include "phalanx/nn/saved.h"
#include "phalanx/ops/backend.h"
#include "phalanx/regions/context_region.h"
#include "phalanx/regions/expert_region.h"
#include "phalanx/regions/tensor_region.h"

namespace phalanx::nn {

// What all batches of a model keep to, by Sequence.
using RowPatterns = std::array<RowPattern, kMostSequences>;

// One microbatch on the device: the columns of the model's schema (base/batch_schema.h) in order,
// each [extents..., b]. A unit gets the numbers of its columns when it is built.
struct Batch {
  std::vector<Tensor> columns;
  std::array<RowCoordinates, kMostSequences> rows;  // by Sequence: of this rank's rows
  // Where a sample's rows lie on several ranks: position and document of all of them, [s, b], first
  // those of rank 0. There are no samples then: all rows of a column have the same.
  RowCoordinates all_rows = {};
  const Tensor& operator[](std::size_t column) const { return columns[column]; }
};

// Parameters by id, in storage type.
struct Weights {
  Tensors tensors;
  const Tensor& operator[](ParamId id) const { return tensors[static_cast<std::size_t>(id)]; }
  // An absent tensor for -1, a parameter that the layer does not have.
  Tensor if_any(ParamId id) const { return id < 0 ? Tensor{} : (*this)[id]; }
};

// Sums for the rows of a table that occurred (ops/embedding.h).
struct SparseGradient {
  Tensor slots, rows, count, values;
};

// The accumulator of a shared parameter's role: dense or by rows.
struct RoleGradient {
  Tensor dense;
  SparseGradient rows;
};

// fp32 main gradients by id, and accumulators of roles by their numbers in the table. A use without
// a role adds to the main gradient.
struct Gradients {
  Tensors tensors;
  std::span<const RoleGradient> roles = {};
  // By id, then by role: whether a pass of this update has written the gradient. Empty: all are.
  std::span<bool> written = {};

  // A pass adds to a written gradient. The first pass of an update overwrites the old gradient and
  // marks it as written.
  bool is_written(const ParamUse& use) const { return written.empty() || written[index(use)]; }
  bool is_written(ParamId id) const { return is_written(ParamUse{.id = id}); }
  void mark_written(const ParamUse& use) const {
    if (!written.empty()) written[index(use)] = true;
  }
  void mark_written(ParamId id) const { mark_written(ParamUse{.id = id}); }
  // Adds a microbatch's sum, or overwrites with it.
  void add(Context& ops, const ParamUse& use, const Tensor& sum) const {
    const Tensor& gradient = (*this)[use];
    if (is_written(use)) {
      ops::accumulate(ops, {.destination = gradient, .source = sum});
    } else {
      ops::copy(ops, {.destination = gradient, .source = sum});
    }
    mark_written(use);
  }
  const Tensor& operator[](ParamId id) const { return tensors[static_cast<std::size_t>(id)]; }
  const Tensor& operator[](const ParamUse& use) const {
    return use.role < 0 ? (*this)[use.id] : roles[static_cast<std::size_t>(use.role)].dense;
  }
  // Whether the use's gradient is kept by rows. Passes always add to rows.
  bool has_rows(const ParamUse& use) const {
    return use.role >= 0 && roles[static_cast<std::size_t>(use.role)].rows.count;
  }
  const SparseGradient& rows(const ParamUse& use) const {
    return roles[static_cast<std::size_t>(use.role)].rows;
  }

 private:
  std::size_t index(const ParamUse& use) const {
    return use.role < 0 ? static_cast<std::size_t>(use.id)
                        : tensors.size() + static_cast<std::size_t>(use.role);
  }
};

// The factors of the gradients with which backward starts.
struct LossSettings {
  Tensor loss_scale;  // [1]
  // Also divide by the microbatch's unmasked rows (Megatron's mean of means).
  bool mean_of_microbatch = false;
};

// One of a model's losses: its sums over the microbatches so far, and the factor of each row's
// gradient beside the loss scale. The factor is 1 / (global batch * sequence); for a model with
// several losses, 1 / the rows of the global batch that count for this one; with
// mean_of_microbatch, 1 / microbatches.
struct LossTerm {
  Tensor sum;    // [1], f64
  Tensor count;  // [1], f64
  double factor = 1.0;
};

// A loss that layers add to those of the model (nn/expert_settings.h): where its values are added,
// and the factor of its gradient beside the loss scale and its coefficient, which makes it the mean
// over the microbatches of an update.
struct AuxiliaryTerm {
  Tensor sum;  // [1], f64
  double factor = 1.0;
};

// A pass over one sequence of the batch.
struct Pass {
  Context& ops;
  const Weights& weights;
  const Batch& batch;
  BatchShapes shapes;
  TensorRegion region;
  ContextRegion context = {};
  ExpertRegion expert_region = {};
  bool training = true;  // dropout; gradients of the loss
  // A second forward pass (Chunk): kept slots are there, and sums are not added to again.
  bool recomputing = false;
  LossSettings loss_settings;
  std::span<const LossTerm> losses;  // in the model's order
  // By number; empty where they are left out, as in an evaluation.
  std::span<const AuxiliaryTerm> auxiliary = {};
  RouterCounts router_counts = {};
  Tensors constants = {};  // by ConstantId
  Sequence sequence = Sequence::kOnly;
  BatchShape shape = shapes[sequence];  // of the sequence

  // The same over another sequence.
  Pass of(Sequence other) const {
    Pass pass = *this;
    pass.sequence = other;
    pass.shape = shapes[other];
    return pass;
  }
  // The coordinates of the sequence's rows, and of the residual stream's rows.
  const RowCoordinates& rows() const { return batch.rows[static_cast<std::size_t>(sequence)]; }
  RowCoordinates stream_rows() const {
    return {.sample = region.own(rows().sample),
            .position = region.own(rows().position),
            .document = region.own(rows().document)};
  }
  // Waits for a message.
  void finish(const Work& work) const { work.wait(ops.queue); }

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
