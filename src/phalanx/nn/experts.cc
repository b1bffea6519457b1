#include "phalanx/nn/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "phalanx/ops/elementwise.h"
#include "phalanx/ops/grouped_activation.h"
#include "phalanx/ops/grouped_linear.h"
#include "phalanx/ops/permute.h"

namespace phalanx::nn {
namespace {

// Tensors that lie at one distance from each other, as parts of one.
Tensor stacked(Tensors tensors, const std::vector<ParamId>& ids) {
  const auto at = [&](std::size_t i) -> const Tensor& {
    return tensors[static_cast<std::size_t>(ids[i])];
  };
  Tensor all = at(0);
  const std::int64_t distance = ids.size() > 1 ? at(1).offset - all.offset : all.bytes();
  for (std::size_t i = 1; i < ids.size(); ++i) {
    PHALANX_CHECK(at(i).arena == all.arena && at(i).shape == all.shape &&
                      at(i).offset - at(i - 1).offset == distance,
                  "the parameters of experts are not evenly apart");
  }
  Shape shape{static_cast<std::int64_t>(ids.size())};
  Shape strides{distance / size_of(all.dtype)};
  for (int dim = 0; dim < all.shape.rank(); ++dim) {
    shape.push_back(all.shape[dim]);
    strides.push_back(all.strides[dim]);
  }
  all.shape = shape;
  all.strides = strides;
  return all;
}

// Pairs that experts compute at most, of `tokens` tokens.
std::int64_t most_rows(const ExpertSettings& settings, std::int64_t tokens) {
  const std::int64_t pairs = tokens * settings.chosen;
  if (settings.capacity_factor <= 0.0) return pairs;
  return std::min(pairs,
                  settings.experts * ops::expert_capacity(tokens, settings.chosen, settings.experts,
                                                          settings.capacity_factor));
}

}  // namespace

Experts::Experts(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                 const std::string& name, const TransformerConfig& config)
    : config_(config), fc1_(add_fc1(table, owned, name)), fc2_(add_fc2(table, owned, name)) {
  const auto add_slot = [&](std::string slot, DType dtype, Born born, LastReader last,
                            std::function<Shape(std::int64_t tokens)> shape) {
    return slots.add({.name = std::move(slot),
                      .dtype = dtype,
                      .born = born,
                      .last_reader = last,
                      .shape = [shape = std::move(shape)](const BatchShape& batch) {
                        return shape(batch.stream_rows());
                      }});
  };
  const LastReader last = last_reader_if(trains());
  const std::int64_t k = config.experts.chosen;
  const auto pairs = [k](std::int64_t tokens) { return Shape{tokens, k}; };
  const auto of_rows = [settings = config.experts](std::int64_t width) {
    return [settings, width](std::int64_t tokens) {
      return Shape{most_rows(settings, tokens), width};
    };
  };
  offsets_ = add_slot("offsets of experts", DType::kI32, Born::kForward, last,
                      [e = config.experts.experts](std::int64_t) { return Shape{e + 1}; });
  pair_of_row_ = add_slot("pair of row", DType::kI32, Born::kForward, last,
                          [k](std::int64_t tokens) { return Shape{tokens * k}; });
  row_of_pair_ =
      add_slot("row of pair", DType::kI32, Born::kForward, LastReader::kInputGradient, pairs);
  fc1_output_ = add_slot("fc1 output", config.dtype, Born::kForward, last_reader_if(fc2_.trains),
                         of_rows(fc1_width()));
  dfc1_output_ = add_slot("fc1 output gradient", config.dtype, Born::kInputGradient,
                          last_reader_if(fc1_.trains), of_rows(fc1_width()));
}

Experts::Linears Experts::add_linears(ParamTable& table, std::vector<ParamId>& owned,
                                      const std::string& name, const std::string& linear,
                                      const SpecMaker& make_weight,
                                      const SpecMaker& make_bias) const {
  Linears linears;
  const ExpertParallel& layout = config_.expert_parallel;
  const std::int64_t first = layout.first_expert(config_.experts.experts);
  const auto add = [&](std::vector<ParamId>& ids, const std::string& what, const SpecMaker& make) {
    for (std::int64_t i = 0; i < layout.local_experts(config_.experts.experts); ++i) {
      ParamSpec spec = make(fmt::format("{}.{}.{}.{}", name, first + i, linear, what));
      spec.domain = ReductionDomain::kExpert;
      ids.push_back(table.add(std::move(spec)));
      owned.push_back(ids.back());
      linears.trains = table.trains(ids.front());
      if (table.trains(ids.back()) != linears.trains) {
        throw ConfigError(
            "--trainable and --freeze: {} is trained or not, and {} is different; name {} of all "
            "experts or of none",
            table[ids.front()].name, table[ids.back()].name, linear);
      }
    }
  };
  add(linears.weights, "weight", make_weight);
  if (!config_.linear_bias) return linears;
  const bool trains_weights = linears.trains;
  add(linears.biases, "bias", make_bias);
  if (linears.trains != trains_weights) {
    throw ConfigError(
        "--trainable and --freeze: {} is trained or not, and {} is different; name both or none",
        table[linears.weights.front()].name, table[linears.biases.front()].name);
  }
  return linears;
}

// Each expert's features are cut over the expert-tensor ranks, as a dense MLP's are over
// tensor-parallel ranks: fc1 by rows (of [gate; up] by rows of both), fc2 by columns.
Experts::Linears Experts::add_fc1(ParamTable& table, std::vector<ParamId>& owned,
                                  const std::string& name) const {
  const ExpertParallel& layout = config_.expert_parallel;
  const std::int64_t ffn = config_.experts.ffn_hidden;
  const std::int64_t part = ffn / layout.tensor_size;
  const std::int64_t first = layout.tensor_rank * part;
  std::vector<RowRange> features = {{first, part}};
  if (config_.gated) features.push_back({ffn + first, part});
  const std::int64_t width = (config_.gated ? 2 : 1) * ffn;
  const auto make = [&](const Shape& shape, const Initialiser& initialiser) {
    return [&, shape, initialiser](std::string parameter) {
      return row_ranges_parameter(std::move(parameter), shape, config_.dtype, initialiser, features,
                                  layout.tensor_size);
    };
  };
  return add_linears(
      table, owned, name, "linear_fc1",
      make({width, config_.hidden}, {Initialiser::Kind::kNormal, config_.init_deviation}),
      make({width}, {}));
}

Experts::Linears Experts::add_fc2(ParamTable& table, std::vector<ParamId>& owned,
                                  const std::string& name) const {
  const ExpertParallel& layout = config_.expert_parallel;
  const Initialiser normal{Initialiser::Kind::kNormal, config_.exit_deviation()};
  return add_linears(
      table, owned, name, "linear_fc2",
      [&](std::string weight) {
        return column_cut_parameter(std::move(weight), {config_.hidden, config_.experts.ffn_hidden},
                                    config_.dtype, normal, layout.tensor_rank, layout.tensor_size);
      },
      [&](std::string bias) {
        return whole_parameter(std::move(bias), {config_.hidden}, config_.dtype, {});
      });
}

Tensor Experts::weights(const Pass& pass, const std::vector<ParamId>& ids) {
  return ids.empty() ? Tensor{} : stacked(pass.weights.tensors, ids);
}

Tensor Experts::gathered(Pass& pass, const Tensor& of_tokens, const Saved& saved) const {
  const std::int64_t count = saved[fc1_output_].shape[0];
  const Tensor rows = pass.scratch(of_tokens.dtype, {count, of_tokens.shape[1]});
  ops::permute_rows(pass.ops, {.to = rows,
                               .from = of_tokens,
                               .pair_of_row = saved[pair_of_row_].slice(0, 0, count),
                               .probabilities = {},
                               .k = config_.experts.chosen});
  return rows;
}

Tensor Experts::row_probabilities(Pass& pass, const Routing& routing, const Saved& saved) const {
  const std::int64_t count = saved[fc1_output_].shape[0];
  const Tensor of_rows = pass.scratch(routing.probabilities.dtype, {count});
  ops::gather_elements(pass.ops, {.to = of_rows,
                                  .from = routing.probabilities,
                                  .index = saved[pair_of_row_].slice(0, 0, count)});
  return of_rows;
}

Tensor Experts::activated(Pass& pass, const Tensor& probabilities, const Saved& saved) const {
  const Tensor& x = saved[fc1_output_];
  const Tensor y = pass.scratch(config_.dtype, {x.shape[0], config_.experts.ffn_hidden});
  ops::grouped_activation_forward(pass.ops, {.y = y,
                                             .x = x,
                                             .offsets = saved[offsets_],
                                             .bias = weights(pass, fc1_.biases),
                                             .probabilities = probabilities,
                                             .kind = config_.activation,
                                             .gated = config_.gated});
  return y;
}

void Experts::recompute(Pass& pass, const Tensor& x, const Routing& routing,
                        const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  ops::sort_pairs(pass.ops, {.offsets = saved[offsets_],
                             .pair_of_row = saved[pair_of_row_],
                             .row_of_pair = saved[row_of_pair_],
                             .chosen = routing.experts});
  // Rows behind the last pair are not written.
  if (config_.experts.capacity_factor > 0.0) {
    ops::fill(pass.ops, {.x = saved[fc1_output_], .value = 0.0});
  }
  ops::grouped_linear_forward(pass.ops, {.y = saved[fc1_output_],
                                         .x = gathered(pass, x, saved),
                                         .weight = weights(pass, fc1_.weights),
                                         .offsets = saved[offsets_],
                                         .bias = {},
                                         .bias_factors = {}});
}

void Experts::forward(Pass& pass, const Tensor& y, const Tensor& x, const Routing& routing,
                      const Saved& saved) const {
  recompute(pass, x, routing, saved);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor probabilities = row_probabilities(pass, routing, saved);
  const Tensor rows = pass.scratch(config_.dtype, {probabilities.shape[0], config_.hidden});
  const bool has_bias = !fc2_.biases.empty();
  ops::grouped_linear_forward(pass.ops, {.y = rows,
                                         .x = activated(pass, probabilities, saved),
                                         .weight = weights(pass, fc2_.weights),
                                         .offsets = saved[offsets_],
                                         .bias = weights(pass, fc2_.biases),
                                         .bias_factors = has_bias ? probabilities : Tensor{}});
  ops::unpermute_rows(
      pass.ops, {.y = y, .rows = rows, .row_of_pair = saved[row_of_pair_], .probabilities = {}});
}

void Experts::backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities,
                             const Tensor& dy, const Routing& routing, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor& offsets = saved[offsets_];
  const Tensor& dfc1 = saved[dfc1_output_];
  const Tensor probabilities = row_probabilities(pass, routing, saved);
  const Tensor dots = pass.scratch(probabilities.dtype, probabilities.shape);
  const Tensor rows = gathered(pass, dy, saved);
  const Tensor dactivated =
      pass.scratch(config_.dtype, {rows.shape[0], config_.experts.ffn_hidden});
  ops::grouped_linear_input_gradient(
      pass.ops,
      {.dx = dactivated, .dy = rows, .weight = weights(pass, fc2_.weights), .offsets = offsets});
  if (config_.experts.capacity_factor > 0.0) ops::fill(pass.ops, {.x = dfc1, .value = 0.0});
  ops::grouped_activation_backward(pass.ops, {.dx = dfc1,
                                              .dprobabilities = dots,
                                              .dy = dactivated,
                                              .x = saved[fc1_output_],
                                              .offsets = offsets,
                                              .bias = weights(pass, fc1_.biases),
                                              .probabilities = probabilities,
                                              .kind = config_.activation,
                                              .gated = config_.gated});
  if (!fc2_.biases.empty()) {
    ops::grouped_bias_dots(
        pass.ops,
        {.dots = dots, .dy = rows, .bias = weights(pass, fc2_.biases), .offsets = offsets});
  }
  ops::gather_elements(pass.ops,
                       {.to = dprobabilities, .from = dots, .index = saved[row_of_pair_]});
  // The rows of y's gradient are not read any more.
  ops::grouped_linear_input_gradient(
      pass.ops,
      {.dx = rows, .dy = dfc1, .weight = weights(pass, fc1_.weights), .offsets = offsets});
  ops::unpermute_rows(
      pass.ops, {.y = dx, .rows = rows, .row_of_pair = saved[row_of_pair_], .probabilities = {}});
}

void Experts::add_gradients(Pass& pass, const Linears& linears, const Tensor& dy, const Tensor& x,
                            const Tensor& offsets, const Tensor& bias_factors,
                            const Gradients& gradients) {
  const auto gradient_of = [&](const std::vector<ParamId>& ids, bool& adds) {
    adds = gradients.is_written(ids.front());
    for (const ParamId id : ids) gradients.mark_written(id);
    return stacked(gradients.tensors, ids);
  };
  bool adds = false;
  const Tensor dweight = gradient_of(linears.weights, adds);
  ops::grouped_linear_weight_gradient(
      pass.ops, {.dweight = dweight, .dy = dy, .x = x, .offsets = offsets, .accumulate = adds});
  if (linears.biases.empty()) return;
  const Tensor dbias = gradient_of(linears.biases, adds);
  ops::grouped_bias_gradient(
      pass.ops,
      {.dbias = dbias, .dy = dy, .offsets = offsets, .factors = bias_factors, .accumulate = adds});
}

void Experts::backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Routing& routing,
                              const Saved& saved, const Gradients& gradients) const {
  if (fc2_.trains) {
    const WorkspaceScope scope(pass.ops.workspace);
    const Tensor probabilities = row_probabilities(pass, routing, saved);
    add_gradients(pass, fc2_, gathered(pass, dy, saved), activated(pass, probabilities, saved),
                  saved[offsets_], probabilities, gradients);
  }
  if (!fc1_.trains) return;
  const WorkspaceScope scope(pass.ops.workspace);
  add_gradients(pass, fc1_, saved[dfc1_output_], gathered(pass, x, saved), saved[offsets_], {},
                gradients);
}

}  // namespace phalanx::nn
