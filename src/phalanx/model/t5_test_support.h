#pragma once
// A tiny T5 on any number of pipeline stages and tensor-parallel ranks, for tests: its weights are
// a function of names and places, so that all layouts have the same.

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/model/t5.h"
#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/ops/embedding.h"

namespace phalanx {

inline nn::TransformerConfig small_transformer() {
  nn::TransformerConfig transformer = nn::test_config();
  transformer.hidden = 6;
  transformer.ffn_hidden = 8;
  transformer.heads = 4;  // of 3: not hidden in all
  transformer.query_groups = 4;
  return transformer;
}

inline T5Config test_t5_config(T5Positions positions, bool tied) {
  return {.transformer = small_transformer(),
          .encoder_layers = 2,
          .decoder_layers = 2,
          .vocabulary = 11,
          .padded_vocabulary = 12,
          .max_positions = 9,
          .sequence = 8,
          .decoder_sequence = 4,
          .positions = positions,
          .relative_buckets = 8,
          .relative_max_distance = 16,
          .tied_embedding = tied,
          .recompute = {}};
}

// Sample by sample; id 0 is padding, and so is label -1.
struct T5Samples {
  std::vector<std::vector<double>> encoder, decoder, labels;
};

inline T5Samples test_t5_samples() {
  return {.encoder = {{3, 9, 1, 4, 4, 7, 10, 2}, {5, 8, 2, 6, 1, 0, 0, 0}},
          .decoder = {{1, 6, 2, 9}, {7, 3, 10, 0}},
          .labels = {{6, 2, 9, 5}, {3, 10, 4, -1}}};
}

// [s, b] of columns [b][s].
inline Tensor transposed(ops::Operands& operands, DType dtype,
                         const std::vector<std::vector<double>>& samples,
                         const std::function<double(double, std::size_t, std::size_t)>& value) {
  std::vector<double> values;
  for (std::size_t s = 0; s < samples[0].size(); ++s) {
    for (std::size_t b = 0; b < samples.size(); ++b) {
      values.push_back(value(samples[b][s], s, b));
    }
  }
  return operands.values(dtype, {std::ssize(samples[0]), std::ssize(samples)}, values);
}

inline RowCoordinates coordinates_of(ops::Operands& operands,
                                     const std::vector<std::vector<double>>& tokens) {
  const auto position = [](double, std::size_t s, std::size_t) { return static_cast<double>(s); };
  return {
      .sample = transposed(operands, DType::kI64, tokens,
                           [](double, std::size_t, std::size_t b) { return b == 0 ? 7.0 : 10.0; }),
      .position = transposed(operands, DType::kI32, tokens, position),
      .document =
          transposed(operands, DType::kI32, tokens,
                     [](double id, std::size_t, std::size_t) { return id == 0.0 ? -1.0 : 0.0; })};
}

inline nn::Batch t5_test_batch(ops::Operands& operands, const T5Samples& samples) {
  const auto same = [](double id, std::size_t, std::size_t) { return id; };
  const auto mask = [](double id, std::size_t, std::size_t) { return id < 0.0 ? 0.0 : 1.0; };
  const BatchSchema schema = t5_batch_schema(1, 1);
  std::vector<Tensor> columns(schema.columns().size());
  const auto set = [&](const std::string& name, const Tensor& column) {
    columns[schema.index(name)] = column;
  };
  for (const auto& [prefix, tokens] :
       {std::pair<std::string, const std::vector<std::vector<double>>&>{"", samples.encoder},
        {"decoder_", samples.decoder}}) {
    const RowCoordinates rows = coordinates_of(operands, tokens);
    set(prefix + "tokens", transposed(operands, DType::kI32, tokens, same));
    set(prefix + "sample", rows.sample);
    set(prefix + "position", rows.position);
    set(prefix + "position_ids", rows.position);
    set(prefix + "document", rows.document);
  }
  set("labels", transposed(operands, DType::kI32, samples.labels, same));
  set("loss_mask", transposed(operands, operands.full(), samples.labels, mask));
  return bind_batch(schema, std::move(columns));
}

using WeightAt = std::function<double(const std::string& name, std::int64_t index)>;

inline double noise_weight(const std::string& name, std::int64_t index) {
  return (name.ends_with("norm.weight") ? 1.0 : 0.0) + nn::noise_at(name, index);
}

// One stage's chunk with its tensors.
struct T5Stage {
  T5Stage(const T5Config& config, const StageRange& range)
      : chunk(T5Model(config).build_chunk(range, table)) {}
  T5Stage(const T5Stage&) = delete;
  T5Stage& operator=(const T5Stage&) = delete;

  nn::ParamTable table;
  Chunk chunk;
  std::vector<Tensor> parameters, gradient_tensors, tensors;
  std::vector<nn::RoleGradient> roles;
  nn::Weights weights;
  nn::Gradients gradients;
};

// All stages of a pipeline on one tensor-parallel rank, one after the other.
class T5Fixture {
 public:
  using Stages = std::vector<StageRange>;

  T5Fixture(ops::Operands& operands, const T5Config& config, const Stages& ranges,
            Communicator* group = nullptr, const T5Samples& samples = test_t5_samples(),
            const WeightAt& weight = noise_weight)
      : config_(config),
        region_(config.transformer.tensor, group),
        batch_(t5_test_batch(operands, samples)),
        loss_scale_(operands.filled(operands.full(), {1}, 8.0)) {
    const int shards = config.transformer.tensor.sequence_shards();
    const auto samples_count = std::ssize(samples.encoder);
    shapes_ = {{.sequence = std::ssize(samples.encoder[0]),
                .micro_batch = samples_count,
                .sequence_shards = shards},
               {.sequence = std::ssize(samples.decoder[0]),
                .micro_batch = samples_count,
                .sequence_shards = shards}};
    loss_ = {.sum = operands.filled(DType::kF64, {1}, 0.0),
             .count = operands.filled(DType::kF64, {1}, 0.0),
             .factor = 1.0 / 16.0};
    for (const StageRange& range : ranges) {
      stages_.push_back(std::make_unique<T5Stage>(config, range));
      allocate(operands, *stages_.back(), weight);
    }
  }

  nn::LossTerm& loss() { return loss_; }
  nn::Batch& batch() { return batch_; }
  Tensor& column(const std::string& name) {
    return batch_.columns[t5_batch_schema(1, 1).index(name)];
  }
  const nn::BatchShapes& shapes() const { return shapes_; }
  T5Stage& stage(std::size_t s) { return *stages_[s]; }
  std::size_t num_stages() const { return stages_.size(); }
  bool training = true;

  nn::Pass pass(Context& context, const T5Stage& stage) {
    return {.ops = context,
            .weights = stage.weights,
            .batch = batch_,
            .shapes = shapes_,
            .region = region_,
            .training = training,
            .loss_settings = {.loss_scale = loss_scale_},
            .losses = {&loss_, 1}};
  }

  void forward(Context& context) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      T5Stage& stage = *stages_[s];
      if (s > 0) {
        send(context, stages_[s - 1]->chunk.output_streams(stages_[s - 1]->tensors),
             stage.chunk.input_streams(stage.tensors));
      }
      nn::Pass here = pass(context, stage);
      stage.chunk.forward(here, stage.tensors, hooks_, 0);
    }
  }

  void backward(Context& context, bool split = false) {
    for (std::size_t s = stages_.size(); s-- > 0;) {
      T5Stage& stage = *stages_[s];
      if (s + 1 < stages_.size()) {
        send(context, stages_[s + 1]->chunk.input_gradients(stages_[s + 1]->tensors),
             stage.chunk.output_gradients(stage.tensors));
      }
      nn::Pass here = pass(context, stage);
      if (split) {
        stage.chunk.backward_input(here, stage.tensors, hooks_, 0);
        stage.chunk.backward_weight(here, stage.tensors, stage.gradients, hooks_, 0);
      } else {
        stage.chunk.backward(here, stage.tensors, stage.gradients, hooks_, 0);
      }
    }
  }

  // What this rank has of each parameter's gradient: the sums of its roles in their order.
  std::map<std::string, nn::Values> gradients(Context& context, ops::Operands& operands) {
    std::map<std::string, std::map<int, nn::Values>> parts;
    for (const auto& stage : stages_) {
      const auto& held = stage->table.roles();
      std::set<ParamId> shared;
      for (std::size_t r = 0; r < held.size(); ++r) {
        const ParamSpec& spec = stage->table[held[r].id];
        shared.insert(held[r].id);
        const nn::RoleGradient& gradient = stage->roles[r];
        Tensor dense = gradient.dense;
        if (gradient.rows.count) {
          dense = operands.filled(nn::full_precision(spec.dtype), spec.local_shape, 0.0);
          ops::sparse_embedding_join(context, {.dtable = dense,
                                               .slots = gradient.rows.slots,
                                               .rows = gradient.rows.rows,
                                               .count = gradient.rows.count,
                                               .values = gradient.rows.values});
        }
        EXPECT_TRUE(parts[spec.name].emplace(held[r].role.order, nn::values_of(dense)).second);
      }
      for (ParamId id = 0; id < stage->table.size(); ++id) {
        if (shared.contains(id)) continue;
        const auto values = nn::values_of(stage->gradient_tensors[static_cast<std::size_t>(id)]);
        EXPECT_TRUE(parts[stage->table[id].name].emplace(0, values).second);
      }
    }
    std::map<std::string, nn::Values> sums;
    for (const auto& [name, roles] : parts) {
      for (const auto& [order, values] : roles) {
        nn::Values& sum = sums[name];
        if (sum.empty()) {
          sum = values;
          continue;
        }
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      }
    }
    return sums;
  }
  const ParamSpec& spec(const std::string& name) const {
    for (const auto& stage : stages_) {
      for (const ParamSpec& spec : stage->table.specs()) {
        if (spec.name == name) return spec;
      }
    }
    throw std::out_of_range(name);
  }

 private:
  void allocate(ops::Operands& operands, T5Stage& stage, const WeightAt& weight) {
    stage.parameters = nn::test_parameters(operands, stage.table);
    for (ParamId id = 0; id < stage.table.size(); ++id) {
      const ParamSpec& spec = stage.table[id];
      nn::for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
        nn::write_element(stage.parameters[static_cast<std::size_t>(id)], local,
                          weight(spec.name, global));
      });
    }
    stage.gradient_tensors = nn::zero_gradients(operands, stage.table);
    for (const nn::ParamTable::Role& role : stage.table.roles()) {
      const Shape& extents = stage.table[role.id].local_shape;
      nn::RoleGradient& gradient = stage.roles.emplace_back();
      if (role.role.gradient == ParamRole::Gradient::kRows) {
        gradient.rows =
            nn::empty_sparse_gradient(operands, extents[0], 2 * shapes_.of[0].rows(), extents[1]);
      } else {
        gradient.dense = operands.filled(operands.full(), extents, 0.0);
      }
    }
    stage.weights = {stage.parameters};
    stage.gradients = {stage.gradient_tensors, stage.roles};
    for (const SavedTensor& saved : stage.chunk.saved_tensors(shapes_, false)) {
      stage.tensors.push_back(saved.same_as < 0
                                  ? operands.output(saved.dtype, saved.shape)
                                  : stage.tensors[static_cast<std::size_t>(saved.same_as)]);
    }
  }
  static void send(Context& context, Tensors from, Tensors to) {
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      ops::copy(context, {.destination = to[i], .source = from[i]});
    }
  }

  T5Config config_;
  TensorRegion region_;
  nn::Batch batch_;
  nn::BatchShapes shapes_;
  Tensor loss_scale_;
  nn::LossTerm loss_;
  nn::UnitHooks hooks_;
  std::vector<std::unique_ptr<T5Stage>> stages_;
};

// The stages of a pipeline of `stages`, the decoder from `split` on.
inline T5Fixture::Stages t5_stages(const T5Config& config, int stages = 1, int split = 0) {
  return encoder_decoder_stages({.encoder_layers = config.encoder_layers,
                                 .decoder_layers = config.decoder_layers,
                                 .stages = stages,
                                 .split = split});
}

}  // namespace phalanx
