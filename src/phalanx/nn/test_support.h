#pragma once
// What tests of layers share: a batch, parameters, gradients and saved tensors made of the case
// table's operands, and the passes over them as jobs that finite differences can check.

#include <memory>
#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/unit.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/ref/access.h"

namespace phalanx::nn {

// Small, and nowhere square: two layers of the global model, f64.
inline TransformerConfig test_config() {
  return {.num_layers = 2,
          .hidden = 10,
          .ffn_hidden = 14,
          .heads = 4,
          .query_groups = 4,
          .head_size = 3,
          .hidden_dropout = 0.25,
          .attention_dropout = 0.2,
          .dtype = DType::kF64,
          .tensor = {},
          .init_key = random_key(11, RandomPurpose::kInitialisation),
          .dropout_key = random_key(11, RandomPurpose::kDropout)};
}

// Two documents in a sample, positions that restart in the second, and masked tokens.
inline Batch test_batch(ops::Operands& operands, const BatchShape& shape, std::int64_t vocabulary) {
  const Shape extents{shape.sequence, shape.micro_batch};
  const std::int64_t second = shape.sequence / 2;
  std::vector<double> documents, positions, mask;
  for (std::int64_t i = 0; i < extents.count(); ++i) {
    const std::int64_t s = i / shape.micro_batch;
    documents.push_back(s < second ? 0.0 : 1.0);
    positions.push_back(static_cast<double>(s < second ? s : s - second));
    mask.push_back(i % 5 == 3 ? 0.0 : 1.0);
  }
  RowCoordinates rows = operands.rows(shape.sequence, shape.micro_batch);
  rows.document = operands.values(DType::kI32, extents, documents);
  return {.tokens = operands.integers(extents, 0, vocabulary),
          .position_ids = operands.values(DType::kI32, extents, positions),
          .labels = operands.integers(extents, 0, vocabulary),
          .loss_mask = operands.values(operands.full(), extents, mask),
          .rows = rows};
}

// Norm weights around 1, everything else around 0. Padding is not zero: nothing may depend on it.
inline std::vector<Tensor> test_parameters(ops::Operands& operands, const ParamTable& table) {
  std::vector<Tensor> tensors;
  for (const auto& spec : table.specs()) {
    const bool scale =
        spec.initialiser.kind == Initialiser::Kind::kConstant && spec.initialiser.value != 0.0;
    const double centre = scale ? 1.0 : 0.0;
    tensors.push_back(operands.uniform(spec.dtype, spec.local_shape, centre - 0.5, centre + 0.5));
  }
  return tensors;
}

inline std::vector<Tensor> zero_gradients(ops::Operands& operands, const ParamTable& table) {
  std::vector<Tensor> tensors;
  for (const auto& spec : table.specs()) {
    tensors.push_back(operands.filled(full_precision(spec.dtype), spec.local_shape, 0.0));
  }
  return tensors;
}

// An unused accumulator for `vocabulary` rows.
inline SparseGradient empty_sparse_gradient(ops::Operands& operands, std::int64_t vocabulary,
                                            std::int64_t rows, std::int64_t width) {
  return {.slots = operands.filled(DType::kI32, {vocabulary}, -1.0),
          .rows = operands.output(DType::kI32, {rows}),
          .count = operands.filled(DType::kI32, {1}, 0.0),
          .values = operands.output(operands.full(), {rows, width})};
}

inline std::vector<double> values_of(const Tensor& tensor) { return ref::read(tensor).values; }

// What the passes of one layer are given, for as long as a job lives. Build the layer with `table`,
// `owned` and `slots`, then call allocate().
struct LayerFixture {
  ParamTable table;
  std::vector<ParamId> owned;
  SavedSlots slots;
  BatchShape shape{.sequence = 5, .micro_batch = 2};
  TensorRegion region;

  Batch batch;
  std::vector<Tensor> parameters, gradient_tensors, saved_tensors;
  Weights weights;
  Gradients gradients;
  LossSettings loss_settings;
  LossSums losses;

  void allocate(ops::Operands& operands, const std::vector<SavedSlot>& saved_slots,
                std::int64_t vocabulary = 16) {
    batch = test_batch(operands, shape, vocabulary);
    parameters = test_parameters(operands, table);
    gradient_tensors = zero_gradients(operands, table);
    for (const auto& slot : saved_slots) {
      saved_tensors.push_back(operands.output(slot.dtype, slot.shape(shape)));
    }
    weights = {parameters};
    gradients = {gradient_tensors, {}};
    for (const auto& spec : table.specs()) {
      if (!spec.tied_embedding) continue;
      gradients.embedding = empty_sparse_gradient(operands, spec.local_shape[0], 2 * shape.rows(),
                                                  spec.local_shape[1]);
    }
    loss_settings = {.loss_scale = operands.filled(operands.full(), {1}, 8.0),
                     .factor = 1.0 / static_cast<double>(shape.rows())};
    losses = {.sum = operands.filled(DType::kF64, {1}, 0.0),
              .count = operands.filled(DType::kF64, {1}, 0.0)};
  }

  Saved saved() const { return Saved(saved_tensors); }

  Pass pass(Context& context) const {
    return {.ops = context,
            .weights = weights,
            .batch = batch,
            .shape = shape,
            .region = region,
            .training = true,
            .loss_settings = loss_settings,
            .losses = losses,
            .cache = nullptr,
            .logits = {}};
  }

  Tensor stream(ops::Operands& operands, std::int64_t width) const {
    return operands.uniform({shape.sequence, shape.micro_batch, width});
  }
  Tensor empty_stream(ops::Operands& operands, std::int64_t width) const {
    return operands.output({shape.sequence, shape.micro_batch, width});
  }

  // Adds the second accumulator of a tied embedding to the gradient of its table.
  void join(Context& context) const {
    const SparseGradient& sparse = gradients.embedding;
    for (ParamId id = 0; id < table.size(); ++id) {
      if (!table[id].tied_embedding) continue;
      ops::sparse_embedding_join(context, {.dtable = gradients[id],
                                           .slots = sparse.slots,
                                           .rows = sparse.rows,
                                           .count = sparse.count,
                                           .values = sparse.values});
    }
  }

  // Every parameter with its gradient.
  std::vector<ops::GradientJob::Pair> parameter_pairs() const {
    std::vector<ops::GradientJob::Pair> pairs;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      pairs.push_back({parameters[i], gradient_tensors[i]});
    }
    return pairs;
  }
};

// The three passes of a unit with at most one stream in and out. A unit without output is a head:
// its output is the loss sum.
inline ops::GradientJob unit_job(ops::Operands& operands, const std::shared_ptr<LayerFixture>& all,
                                 const std::shared_ptr<Unit>& unit) {
  ops::GradientJob job;
  std::vector<Tensor> in, din, out, dout;
  for (const auto& stream : unit->inputs()) {
    in.push_back(all->stream(operands, stream.width));
    din.push_back(all->empty_stream(operands, stream.width));
    job.operands.push_back({in.back(), din.back()});
  }
  for (const auto& stream : unit->outputs()) {
    out.push_back(all->empty_stream(operands, stream.width));
    dout.push_back(all->stream(operands, stream.width));
    job.outputs.push_back({out.back(), dout.back()});
  }
  if (unit->outputs().empty()) {
    const double seed = 8.0 * all->loss_settings.factor;
    job.outputs.push_back({all->losses.sum, operands.filled(DType::kF64, {1}, seed)});
  }
  for (const auto& pair : all->parameter_pairs()) job.operands.push_back(pair);
  job.forward = [all, unit, in, out](Context& context) {
    ops::fill(context, {.x = all->losses.sum, .value = 0.0});
    Pass pass = all->pass(context);
    unit->forward(pass, in, out, all->saved());
  };
  job.backward = [all, unit, in, dout, din](Context& context) {
    Pass pass = all->pass(context);
    unit->backward_input(pass, in, dout, din, all->saved());
    unit->backward_weight(pass, in, all->saved(), all->gradients);
  };
  return job;
}

}  // namespace phalanx::nn
