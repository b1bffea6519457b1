#pragma once
// Support for tests of layers: a batch, parameters, gradients and saved tensors from the case
// table's operands, and passes as jobs that finite differences can check.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/mlp.h"
#include "phalanx/nn/self_attention.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/nn/unit.h"
#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::nn {

// Small and with different sizes: two layers of the global model, f64.
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

// The same with the norms and the MLP of the Llama family: RMSNorm, SwiGLU, no bias.
inline TransformerConfig llama_config(TransformerConfig config = test_config()) {
  config.norm = NormKind::kRmsNorm;
  config.activation = ops::ActivationKind::kSilu;
  config.gated = true;
  config.linear_bias = false;
  config.qkv_bias = false;
  return config;
}

// A backend with memory for small operands.
struct TestMachine {
  explicit TestMachine(DType storage = DType::kF64,
                       std::unique_ptr<Backend> the_backend = make_ref_backend())
      : backend(std::move(the_backend)), operands(memory, storage, context) {}
  std::unique_ptr<Backend> backend;
  Arena memory{"operands", 32 << 20};
  Arena workspace{"workspace", 8 << 20};
  Context context{.backend = *backend, .workspace = workspace};
  ops::Operands operands;
};

// The columns of test_batch().
inline constexpr EmbeddingColumns kTestEmbeddingColumns{.tokens = 0, .position_ids = 1};
inline constexpr TargetColumns kTestTargetColumns{.labels = 2, .loss_mask = 3};

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
  const Tensor tokens = operands.integers(extents, 0, vocabulary);
  const Tensor position_ids = operands.values(DType::kI32, extents, positions);
  const Tensor labels = operands.integers(extents, 0, vocabulary);
  return {
      .columns = {tokens, position_ids, labels, operands.values(operands.full(), extents, mask)},
      .rows = {rows}};
}

// Norm weights around 1, others around 0. Padding is not zero, because no result may depend on it.
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

// The inputs of one layer's passes, for the life of a job. Build the layer with `table`, `owned`
// and `slots`, then call allocate().
struct LayerFixture {
  ParamTable table;
  std::vector<ParamId> owned;
  SavedSlots slots;
  BatchShape shape{.sequence = 5, .micro_batch = 2};
  TensorRegion region;
  ExpertRegion expert_region;

  Batch batch;
  std::vector<Tensor> parameters, gradient_tensors, saved_tensors;
  std::vector<RoleGradient> role_gradients;
  Weights weights;
  Gradients gradients;
  LossSettings loss_settings;
  LossTerm losses;
  std::vector<AuxiliaryTerm> auxiliary;
  std::vector<Tensor> constants;
  std::vector<Tensor> given, best;  // counts of routers
  Communicator* rows = nullptr;     // those of RouterCounts
  std::int64_t microbatches = 1;

  void allocate(ops::Operands& operands, const std::vector<SavedSlot>& saved_slots,
                std::int64_t vocabulary = 16) {
    batch = test_batch(operands, shape, vocabulary);
    parameters = test_parameters(operands, table);
    gradient_tensors = zero_gradients(operands, table);
    for (const auto& slot : saved_slots) {
      saved_tensors.push_back(operands.output(slot.dtype, slot.shape(shape)));
    }
    weights = {parameters};
    for (const ConstantSpec& spec : table.constants()) {
      constants.push_back(operands.output(spec.dtype, spec.shape));
      spec.fill(operands.preparation(), constants.back());
    }
    for (const RouterState& router : table.routers()) {
      given.push_back(operands.filled(DType::kI32, {router.experts}, 0.0));
      best.push_back(operands.filled(DType::kI32, {router.experts}, 0.0));
    }
    for (const ParamTable::Role& role : table.roles()) {
      const Shape& extents = table[role.id].local_shape;
      RoleGradient& gradient = role_gradients.emplace_back();
      if (role.role.gradient == ParamRole::Gradient::kRows) {
        gradient.rows = empty_sparse_gradient(operands, extents[0], 2 * shape.rows(), extents[1]);
      } else {
        gradient.dense = gradient_tensors[static_cast<std::size_t>(role.id)];
      }
    }
    gradients = {gradient_tensors, role_gradients};
    loss_settings = {.loss_scale = operands.filled(operands.full(), {1}, 8.0)};
    losses = {.sum = operands.filled(DType::kF64, {1}, 0.0),
              .count = operands.filled(DType::kF64, {1}, 0.0),
              .factor = 1.0 / static_cast<double>(shape.rows())};
  }

  Saved saved() const { return Saved(saved_tensors); }

  Pass pass(Context& context) const {
    return {
        .ops = context,
        .weights = weights,
        .batch = batch,
        .shapes = shape,
        .region = region,
        .expert_region = expert_region,
        .training = true,
        .loss_settings = loss_settings,
        .losses = {&losses, 1},
        .auxiliary = auxiliary,
        .router_counts = {.given = given, .best = best, .rows = rows, .microbatches = microbatches},
        .constants = constants};
  }

  // The losses of a router, each with another factor.
  void add_auxiliary(ops::Operands& operands, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auxiliary.push_back({.sum = operands.filled(DType::kF64, {1}, 0.0),
                           .factor = 0.5 / static_cast<double>(i + 1)});
    }
  }

  Tensor stream(ops::Operands& operands, std::int64_t width) const {
    return operands.uniform({shape.sequence, shape.micro_batch, width});
  }
  Tensor empty_stream(ops::Operands& operands, std::int64_t width) const {
    return operands.output({shape.sequence, shape.micro_batch, width});
  }

  // Adds gradients that roles keep by rows to the gradients of their tables.
  void join(Context& context) const {
    for (std::size_t r = 0; r < role_gradients.size(); ++r) {
      const SparseGradient& sparse = role_gradients[r].rows;
      if (!sparse.count) continue;
      ops::sparse_embedding_join(context, {.dtable = gradients[table.roles()[r].id],
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

// The three passes of a unit with at most one input and one output stream. A unit without output is
// a head: its output is the loss sum.
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
    const double seed = 8.0 * all->losses.factor;
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

// A sub-layer as a unit.
class SublayerUnit final : public Unit {
 public:
  using Make = std::function<Sublayer(ParamTable& table, std::vector<ParamId>& owned,
                                      SavedSlots& slots, const TransformerConfig& config)>;
  SublayerUnit(ParamTable& table, const TransformerConfig& config, const Make& make)
      : Unit("sub-layer"), sublayer_(make(table, parameters_, slots_, config)) {
    inputs_ = {{"hidden states", config.stream_dtype(), config.hidden}};
    outputs_ = inputs_;
  }
  void forward(Pass& pass, Tensors inputs, Tensors outputs, const Saved& saved) const override {
    sublayer_.forward({.pass = pass, .saved = saved}, outputs[0], inputs[0]);
  }
  void backward_input(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                      const Saved& saved) const override {
    sublayer_.backward_input({.pass = pass, .saved = saved}, input_gradients[0],
                             output_gradients[0], inputs[0]);
  }
  void backward_weight(Pass& pass, Tensors inputs, const Saved& saved,
                       const Gradients& gradients) const override {
    sublayer_.backward_weight({.pass = pass, .saved = saved}, inputs[0], gradients);
  }
  void backward(Pass& pass, Tensors inputs, Tensors output_gradients, Tensors input_gradients,
                const Saved& saved, const Gradients& gradients) const override {
    sublayer_.backward({.pass = pass, .saved = saved}, input_gradients[0], output_gradients[0],
                       inputs[0], gradients);
  }
  bool recomputable() const override { return true; }
  void recompute(Pass& pass, Tensors inputs, const Saved& saved) const override {
    sublayer_.recompute({.pass = pass, .saved = saved}, inputs[0]);
  }

 private:
  Sublayer sublayer_;
};

inline Sublayer make_test_attention(ParamTable& table, std::vector<ParamId>& owned,
                                    SavedSlots& slots, const TransformerConfig& config) {
  return self_attention_sublayer(table, owned, slots, "decoder.layers.1", 1, 0, config);
}

inline Sublayer make_test_mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                              const TransformerConfig& config) {
  return mlp_sublayer(table, owned, slots, "decoder.layers.1", 1, config);
}

// Recomputation writes everything that backward reads of the forward pass. `unit` is built with
// `all` and has streams of 10 features.
inline void expect_recomputed_gradients(TestMachine& machine, LayerFixture& all, const Unit& unit) {
  ops::Operands& operands = machine.operands;
  all.allocate(operands, unit.saved_slots());
  const std::vector<Tensor> in = {all.stream(operands, 10)};
  const std::vector<Tensor> out = {all.empty_stream(operands, 10)};
  const std::vector<Tensor> dout = {all.stream(operands, 10)};
  const std::vector<Tensor> din = {all.empty_stream(operands, 10)};
  Pass pass = all.pass(machine.context);
  const auto backward = [&] {
    for (const Tensor& gradient : all.gradient_tensors) {
      ops::fill(machine.context, {.x = gradient, .value = 0.0});
    }
    unit.backward_input(pass, in, dout, din, all.saved());
    unit.backward_weight(pass, in, all.saved(), all.gradients);
    std::vector<std::vector<double>> values = {values_of(din[0])};
    for (const Tensor& gradient : all.gradient_tensors) values.push_back(values_of(gradient));
    return values;
  };
  unit.forward(pass, in, out, all.saved());
  const auto expected = backward();
  for (const Tensor& saved : all.saved_tensors) operands.poison(saved);
  unit.recompute(pass, in, all.saved());
  EXPECT_EQ(backward(), expected);
}

// Passes over `parts` of the positions (begin and count), with cached keys and values, give the
// rows of one pass over all five.
inline void expect_cached_is_whole(TestMachine& machine, const TransformerConfig& config,
                                   const std::vector<std::pair<int, int>>& parts) {
  ops::Operands& operands = machine.operands;
  LayerFixture all;
  const TransformerLayer layer(all.table, 0, 0, config);
  all.allocate(operands, layer.saved_slots());
  const std::vector<Tensor> in = {all.stream(operands, 10)};
  const std::vector<Tensor> out = {all.empty_stream(operands, 10)};
  Pass whole = all.pass(machine.context);
  whole.training = false;
  layer.forward(whole, in, out, all.saved());

  const Shape cached{5, 1, config.query_groups, config.head_size};
  std::vector<KeyValueCache> caches;
  for (const std::int64_t sample : {0, 1}) {
    const RowCoordinates& rows = all.batch.rows[0];
    caches.push_back({.keys = {operands.output(cached)},
                      .values = {operands.output(cached)},
                      .rows = {.sample = rows.sample.slice(1, sample, 1),
                               .position = rows.position.slice(1, sample, 1),
                               .document = rows.document.slice(1, sample, 1)},
                      .length = 0});
  }
  const std::array<KeyValueCache*, 2> of_samples = {&caches[0], &caches[1]};
  for (const auto& [begin, count] : parts) {
    const BatchShape shape{.sequence = count, .micro_batch = 2};
    Batch batch = all.batch;
    for (Tensor& column : batch.columns) column = column.slice(0, begin, count);
    RowCoordinates& rows = batch.rows[0];
    rows = {.sample = rows.sample.slice(0, begin, count),
            .position = rows.position.slice(0, begin, count),
            .document = rows.document.slice(0, begin, count)};
    std::vector<Tensor> saved;
    for (const auto& slot : layer.saved_slots()) {
      saved.push_back(operands.output(slot.dtype, slot.shape(shape)));
    }
    const std::vector<Tensor> part = {operands.output({count, 2, 10})};
    Pass pass{.ops = machine.context,
              .weights = all.weights,
              .batch = batch,
              .shapes = shape,
              .region = {},
              .training = false,
              .loss_settings = {},
              .losses = {},
              .constants = all.constants};
    InferencePass inference{.pass = pass, .caches = of_samples};
    for (KeyValueCache& cache : caches) cache.length = begin;
    layer.infer(inference, std::vector<Tensor>{in[0].slice(0, begin, count)}, part, Saved(saved));
    const auto expected = values_of(out[0].slice(0, begin, count));
    const auto actual = values_of(part[0]);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-12) << begin;
    }
  }
}

}  // namespace phalanx::nn
