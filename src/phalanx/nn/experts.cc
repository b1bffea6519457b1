#include "phalanx/nn/experts.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "phalanx/ops/grouped_activation.h"
#include "phalanx/ops/grouped_linear.h"

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

}  // namespace

Experts::Experts(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                 const std::string& name, const TransformerConfig& config)
    : config_(config),
      fc1_(add_fc1(table, owned, name)),
      fc2_(add_fc2(table, owned, name)),
      dispatcher_(make_dispatcher(slots, config, last_reader_if(trains()))) {
  const auto add_slot = [&](std::string slot, DType dtype, Born born, LastReader last,
                            std::optional<std::int64_t> width) {
    return slots.add({.name = std::move(slot),
                      .dtype = dtype,
                      .born = born,
                      .last_reader = last,
                      .shape = [dispatcher = dispatcher_, width](const BatchShape& batch) {
                        const std::int64_t rows = dispatcher->rows(batch.stream_rows());
                        return width ? Shape{rows, *width} : Shape{rows};
                      }});
  };
  using enum LastReader;
  fc1_output_ = add_slot("fc1 output", config.dtype, Born::kForward, last_reader_if(fc2_.trains),
                         fc1_width());
  dfc1_output_ = add_slot("fc1 output gradient", config.dtype, Born::kInputGradient,
                          last_reader_if(fc1_.trains), fc1_width());
  if (!dispatcher_->has_messages()) return;
  probabilities_ = add_slot("probabilities of rows", full_precision(config.dtype), Born::kForward,
                            last_reader_if(fc2_.trains), {});
  if (fc1_.trains) {
    rows_ =
        add_slot("rows of experts", config.dtype, Born::kForward, kWeightGradient, config.hidden);
  }
  if (fc2_.trains) {
    drows_ = add_slot("gradients of rows", config.dtype, Born::kInputGradient, kWeightGradient,
                      config.hidden);
  }
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

Tensor Experts::scratch_rows(const Pass& pass, std::int64_t width) const {
  return pass.scratch(config_.dtype, {dispatcher_->rows(pass.shape.stream_rows()), width});
}

Tensor Experts::scratch_numbers(const Pass& pass) const {
  return pass.scratch(full_precision(config_.dtype), {dispatcher_->rows(pass.shape.stream_rows())});
}

Tensor Experts::rows(const Pass& pass, SavedId id, const Saved& saved) const {
  return id < 0 ? scratch_rows(pass, config_.hidden) : saved[id];
}

Tensor Experts::numbers(const Pass& pass, const Saved& saved) const {
  return probabilities_ < 0 ? scratch_numbers(pass) : saved[probabilities_];
}

Experts::Round Experts::first_round(const Pass& pass, const Saved& saved) const {
  return {.x = rows(pass, rows_, saved),
          .dy = {},
          .probabilities = numbers(pass, saved),
          .fc1 = saved[fc1_output_],
          .dfc1 = {}};
}

Experts::Round Experts::later_round(const Pass& pass, bool is_backward) const {
  if (!takes_rounds(pass)) return {};
  Round later{.x = scratch_rows(pass, config_.hidden),
              .dy = {},
              .probabilities = scratch_numbers(pass),
              .fc1 = scratch_rows(pass, fc1_width()),
              .dfc1 = {}};
  if (is_backward) {
    later.dy = scratch_rows(pass, config_.hidden);
    later.dfc1 = scratch_rows(pass, fc1_width());
  }
  return later;
}

Experts::Leaving Experts::leaving(Dispatch& dispatch, const Tensor& x, const Routing& routing) {
  return {.x = x ? dispatch.leaving_rows(x) : Tensor{},
          .dy = {},
          .probabilities = dispatch.leaving_numbers(routing.probabilities)};
}

Experts::Leaving Experts::leaving_again(const Pass& pass, Dispatch& dispatch, const Tensor& x,
                                        const Routing& routing) const {
  if (dispatcher_->has_messages() && !takes_rounds(pass)) return {};
  return leaving(dispatch, x, routing);
}

void Experts::compute_fc1(Pass& pass, Dispatch& dispatch, int number, const Leaving& from,
                          const Round& round, const Tensor& offsets) const {
  if (number == 0) {
    dispatch.clear_rest(number, round.fc1);
    if (rows_ >= 0) dispatch.clear_rest(number, round.x);
    if (probabilities_ >= 0) dispatch.clear_rest(number, round.probabilities);
  }
  dispatch.fetch(number, {from.x, round.x}, {from.probabilities, round.probabilities});
  ops::grouped_linear_forward(pass.ops, {.y = round.fc1,
                                         .x = round.x,
                                         .weight = weights(pass, fc1_.weights),
                                         .offsets = offsets,
                                         .bias = {},
                                         .bias_factors = {},
                                         .expected_rows = dispatch.expected_rows(number)});
}

Tensor Experts::activated(Pass& pass, const Round& round, const Tensor& offsets) const {
  const Tensor y = scratch_rows(pass, ffn_hidden());
  ops::grouped_activation_forward(pass.ops, {.y = y,
                                             .x = round.fc1,
                                             .offsets = offsets,
                                             .bias = weights(pass, fc1_.biases),
                                             .probabilities = round.probabilities,
                                             .kind = config_.activation,
                                             .gated = config_.gated});
  return y;
}

void Experts::compute_dfc1(Pass& pass, Dispatch& dispatch, int number, const Leaving& from,
                           const Round& round, const Tensor& offsets, const Tensor& dots) const {
  const WorkspaceScope scope(pass.ops.workspace);
  if (number == 0) {
    dispatch.clear_rest(number, round.dfc1);
    if (drows_ >= 0) dispatch.clear_rest(number, round.dy);
  }
  // With messages the probabilities have come with x.
  const bool fetches_numbers = !dispatcher_->has_messages();
  dispatch.fetch(number, {from.dy, round.dy},
                 fetches_numbers ? Freight{from.probabilities, round.probabilities} : Freight{});
  const Tensor dactivated = scratch_rows(pass, ffn_hidden());
  ops::grouped_linear_input_gradient(pass.ops, {.dx = dactivated,
                                                .dy = round.dy,
                                                .weight = weights(pass, fc2_.weights),
                                                .offsets = offsets,
                                                .expected_rows = dispatch.expected_rows(number)});
  ops::grouped_activation_backward(pass.ops, {.dx = round.dfc1,
                                              .dprobabilities = dots,
                                              .dy = dactivated,
                                              .x = round.fc1,
                                              .offsets = offsets,
                                              .bias = weights(pass, fc1_.biases),
                                              .probabilities = round.probabilities,
                                              .kind = config_.activation,
                                              .gated = config_.gated});
  if (!adds_bias()) return;
  ops::grouped_bias_dots(
      pass.ops,
      {.dots = dots, .dy = round.dy, .bias = weights(pass, fc2_.biases), .offsets = offsets});
}

void Experts::recompute(Pass& pass, Dispatch& dispatch, const Tensor& x, const Routing& routing,
                        const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Leaving from = leaving(dispatch, x, routing);
  compute_fc1(pass, dispatch, 0, from, first_round(pass, saved), dispatch.offsets(0));
}

void Experts::forward(Pass& pass, Dispatch& dispatch, const Tensor& y, const Tensor& x,
                      const Routing& routing, const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const Leaving from = leaving(dispatch, x, routing);
  const Round first = first_round(pass, saved);
  const Round later = later_round(pass, false);
  // Rows that are not saved are not read after fc1.
  const Tensor results = rows_ < 0 ? first.x : scratch_rows(pass, config_.hidden);
  const Tensor coming = dispatch.coming_rows(results);
  for (int number = 0; number < dispatch.rounds(); ++number) {
    const WorkspaceScope of_round(pass.ops.workspace);
    const Round& round = number == 0 ? first : later;
    const Tensor offsets = dispatch.offsets(number);
    compute_fc1(pass, dispatch, number, from, round, offsets);
    ops::grouped_linear_forward(pass.ops,
                                {.y = results,
                                 .x = activated(pass, round, offsets),
                                 .weight = weights(pass, fc2_.weights),
                                 .offsets = offsets,
                                 .bias = adds_bias() ? weights(pass, fc2_.biases) : Tensor{},
                                 .bias_factors = adds_bias() ? round.probabilities : Tensor{},
                                 .expected_rows = dispatch.expected_rows(number)});
    dispatch.give_back(number, {coming, results}, {});
  }
  dispatch.add_up_rows(y, coming);
}

void Experts::backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities,
                             const Tensor& dy, const Tensor& x, const Routing& routing,
                             const Saved& saved) const {
  const WorkspaceScope scope(pass.ops.workspace);
  const std::unique_ptr<Dispatch> dispatch = dispatcher_->resume(pass, saved);
  Leaving from = leaving_again(pass, *dispatch, x, routing);
  from.dy = dispatch->leaving_rows(dy);
  const Round first{.x = {},
                    .dy = rows(pass, drows_, saved),
                    .probabilities = numbers(pass, saved),
                    .fc1 = saved[fc1_output_],
                    .dfc1 = saved[dfc1_output_]};
  const Round later = later_round(pass, true);
  const Tensor dots = scratch_numbers(pass);
  // Gradients of results that are not saved are not read after dfc1.
  const Tensor drows = drows_ < 0 ? first.dy : scratch_rows(pass, config_.hidden);
  const Tensor coming = dispatch->coming_rows(drows);
  const Tensor coming_dots = dispatch->coming_numbers(dots);
  for (int number = 0; number < dispatch->rounds(); ++number) {
    const WorkspaceScope of_round(pass.ops.workspace);
    const Round& round = number == 0 ? first : later;
    const Tensor offsets = dispatch->offsets(number);
    if (number > 0) compute_fc1(pass, *dispatch, number, from, round, offsets);
    compute_dfc1(pass, *dispatch, number, from, round, offsets, dots);
    ops::grouped_linear_input_gradient(pass.ops,
                                       {.dx = drows,
                                        .dy = round.dfc1,
                                        .weight = weights(pass, fc1_.weights),
                                        .offsets = offsets,
                                        .expected_rows = dispatch->expected_rows(number)});
    dispatch->give_back(number, {coming, drows}, {coming_dots, dots});
  }
  dispatch->add_up_rows(dx, coming);
  dispatch->add_up_numbers(dprobabilities, coming_dots);
}

void Experts::add_gradients(Pass& pass, const Linears& linears, const LinearRows& rows,
                            const Gradients& gradients) {
  const auto gradient_of = [&](const std::vector<ParamId>& ids, bool& adds) {
    adds = gradients.is_written(ids.front());
    for (const ParamId id : ids) gradients.mark_written(id);
    return stacked(gradients.tensors, ids);
  };
  bool adds = false;
  const Tensor dweight = gradient_of(linears.weights, adds);
  ops::grouped_linear_weight_gradient(pass.ops, {.dweight = dweight,
                                                 .dy = rows.dy,
                                                 .x = rows.x,
                                                 .offsets = rows.offsets,
                                                 .accumulate = adds,
                                                 .expected_rows = rows.expected});
  if (linears.biases.empty()) return;
  const Tensor dbias = gradient_of(linears.biases, adds);
  ops::grouped_bias_gradient(pass.ops, {.dbias = dbias,
                                        .dy = rows.dy,
                                        .offsets = rows.offsets,
                                        .factors = rows.bias_factors,
                                        .accumulate = adds});
}

void Experts::backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Routing& routing,
                              const Saved& saved, const Gradients& gradients) const {
  if (!trains()) return;
  const WorkspaceScope scope(pass.ops.workspace);
  const bool has_messages = dispatcher_->has_messages();
  const std::unique_ptr<Dispatch> dispatch = dispatcher_->resume(pass, saved);
  Leaving from = leaving_again(pass, *dispatch, x, routing);
  if (from.x) from.dy = dispatch->leaving_rows(dy);
  const Round later = later_round(pass, true);
  const Tensor dots = takes_rounds(pass) ? scratch_numbers(pass) : Tensor{};
  for (int number = 0; number < dispatch->rounds(); ++number) {
    const WorkspaceScope of_round(pass.ops.workspace);
    const Tensor offsets = dispatch->offsets(number);
    Round round = later;
    if (number == 0) {
      round = {.x = {},
               .dy = {},
               .probabilities = {},
               .fc1 = saved[fc1_output_],
               .dfc1 = saved[dfc1_output_]};
    } else {
      compute_fc1(pass, *dispatch, number, from, round, offsets);
      compute_dfc1(pass, *dispatch, number, from, round, offsets, dots);
    }
    if (fc2_.trains) {
      const WorkspaceScope of_linear(pass.ops.workspace);
      if (number == 0) {
        round.probabilities = numbers(pass, saved);
        round.dy = rows(pass, drows_, saved);
      }
      if (!has_messages) {
        dispatch->fetch(0, {from.dy, round.dy}, {from.probabilities, round.probabilities});
      }
      add_gradients(pass, fc2_,
                    {.dy = round.dy,
                     .x = activated(pass, round, offsets),
                     .offsets = offsets,
                     .bias_factors = round.probabilities,
                     .expected = dispatch->expected_rows(number)},
                    gradients);
    }
    if (fc1_.trains) {
      const WorkspaceScope of_linear(pass.ops.workspace);
      if (number == 0) round.x = rows(pass, rows_, saved);
      if (!has_messages) dispatch->fetch(0, {from.x, round.x}, {});
      add_gradients(pass, fc1_,
                    {.dy = round.dfc1,
                     .x = round.x,
                     .offsets = offsets,
                     .bias_factors = {},
                     .expected = dispatch->expected_rows(number)},
                    gradients);
    }
  }
}

}  // namespace phalanx::nn
