#include "phalanx/optim/optimizer.h"

#include <algorithm>
#include <array>

#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

constexpr std::size_t kGradient = 2;  // among the accesses of an update; moments follow

}  // namespace

Optimizer::Optimizer(const ParameterStore& parameters, const GradientStore& gradients,
                     const OptimizerSettings& settings, const OptimizerGroups& groups,
                     Arena& states, Arena& scalars, const StateFiles& files,
                     const OptimizerResults& results)
    : parameters_(&parameters),
      gradients_(&gradients),
      settings_(settings),
      groups_(groups),
      ranges_(parameters.states(), scalars),
      results_(results) {
  const StateLayout& layout = parameters.states();
  for (const ReductionDomain domain : kReductionDomains) {
    PHALANX_CHECK((groups.data[domain] != nullptr) == layout.is_sharded(domain),
                  "a group of shards goes with a sharded store");
  }
  const ParamId parameters_of_model = layout.places().parameters;
  PHALANX_CHECK(groups.model.dense != nullptr || groups.model.expert != nullptr ||
                    groups.is_stage_alone || parameters_of_model == parameters.table().size(),
                "a part of a model without the other parts");
  const nn::ParamTable& table = parameters.table();
  const DType full = nn::full_precision(table[0].dtype);
  for (const std::string_view name : state_names()) {
    states_.emplace_back(std::string(name), full, layout, states, files.states);
  }
  block_sums_ = scalars.allocate(DType::kF64, {ranges_.blocks()});
  by_parameter_ = scalars.allocate(DType::kF64, {parameters_of_model});
  if (groups.model.dense != groups.model.expert) {
    of_experts_ = scalars.allocate(DType::kF64, {parameters_of_model});
  }
  factor_ = scalars.allocate(full, {1});
  if (!results_.norm) {
    results_ = {.norm = scalars.allocate(full, {1}),
                .skip = scalars.allocate(full, {1}),
                .zeros = settings.count_zeros ? scalars.allocate(DType::kF64, {1}) : Tensor()};
  }
  PHALANX_CHECK(results_.skip && (results_.zeros || !settings.count_zeros),
                "an optimizer without a place for its results");
  numbers_ = scalars.allocate(DType::kF64, {kNumbers});
  constexpr auto kOfRule = static_cast<std::int64_t>(kRuleNumbers);
  rule_numbers_ = numbers_.slice(0, 0, kOfRule);
  expected_tokens_ = numbers_.slice(0, kOfRule, 1);
  settings_of_groups_ =
      numbers_.slice(0, kOfRule + 1, 2 * SettingGroup::kCount).reshape({SettingGroup::kCount, 2});
}

void Optimizer::initialise(Context& context) const {
  prepare(context);
  std::vector<TileAccess> written;
  for (const StateColumn& state : states_) {
    ops::fill(context, {.x = state.memory(), .value = 0.0});
    written.push_back({.column = &state, .reads = false});
  }
  if (!states().has_files()) return;
  visit_tiles(context, states(), parameters_->staging(), written, [](const auto&, auto) {});
}

const StateColumn& Optimizer::state(std::string_view name) const {
  const auto names = state_names();
  const auto found = std::ranges::find(names, name);
  PHALANX_CHECK(found != names.end(), "the optimizer keeps no {}", name);
  return states_[static_cast<std::size_t>(found - names.begin())];
}

Tensor Optimizer::state(std::string_view name, const Segment& segment) const {
  return state(name).in_memory(segment);
}

void Optimizer::sum_by_block(Context& context, Statistic statistic) const {
  if (states().is_sharded()) ops::fill(context, {.x = block_sums_, .value = 0.0});
  const bool of_weights = statistic == Statistic::kParameterSquares;
  std::vector<TileAccess> read;
  if (of_weights) {
    for (const TileAccess& access : parameters_->accesses(true, false)) read.push_back(access);
  } else {
    read.push_back(gradients_->access(true, false));
  }
  visit_ranges(context, read, false, [&](const UpdateRange& range, Tensors tensors) {
    const Tensor x = of_weights ? main(range, tensors) : gradient(range, tensors[0]);
    const ops::SegmentTable table = ranges_.sums(range);
    const std::int64_t first = range.local.begin;
    if (statistic == Statistic::kZeros) {
      ops::zero_count_segments(context,
                               {.counts = block_sums_, .x = x, .table = table, .first = first});
    } else {
      ops::square_sum_segments(context,
                               {.sums = block_sums_, .x = x, .table = table, .first = first});
    }
  });
  // A block is one rank's, the others add zeros: exact.
  for (const ReductionDomain domain : kReductionDomains) {
    const FlatRange& blocks = ranges_.blocks(domain);
    if (groups_.data[domain] == nullptr || blocks.count == 0) continue;
    const Tensor sums = block_sums_.slice(0, blocks.begin, blocks.count);
    groups_.data[domain]->all_reduce(context, sums, Reduction::kSum).wait(context.queue);
  }
}

void Optimizer::sum_by_parameter(Context& context, Statistic statistic) const {
  sum_by_block(context, statistic);
  if (!of_experts_) {
    return sum_parts(context, by_parameter_, kReductionDomains, groups_.model.dense);
  }
  constexpr std::array kDense = {ReductionDomain::kDense};
  constexpr std::array kExpert = {ReductionDomain::kExpert};
  sum_parts(context, by_parameter_, kDense, groups_.model.dense);
  sum_parts(context, of_experts_, kExpert, groups_.model.expert);
  // A parameter is in one of the two, and 0 in the other: exact.
  ops::accumulate(context, {.destination = by_parameter_, .source = of_experts_});
}

void Optimizer::sum_parts(Context& context, const Tensor& totals,
                          std::span<const ReductionDomain> domains, Communicator* group) const {
  if (group != nullptr || groups_.is_stage_alone || of_experts_) {
    ops::fill(context, {.x = totals, .value = 0.0});
  }
  for (const ReductionDomain domain : domains) {
    if (ranges_.blocks(domain).count == 0) continue;
    ops::total_segments(context,
                        {.totals = totals, .x = block_sums_, .table = ranges_.totals(domain)});
  }
  // A parameter is one stage's, and an expert one rank's; the others add zeros: exact.
  if (group != nullptr) group->all_reduce(context, totals, Reduction::kSum).wait(context.queue);
}

const Tensor& Optimizer::parameter_squares(Context& context) const {
  sum_by_parameter(context, Statistic::kParameterSquares);
  return by_parameter_;
}

void Optimizer::step(Context& context, const StepInputs& inputs) const {
  const TimerScope time(timers_, StepTimer::kOptimizer);
  upload_numbers(context, inputs);
  if (settings_.count_zeros) count_zeros(context);
  measure(context, inputs);
  update(context);
}

void Optimizer::upload_numbers(Context& context, const StepInputs& inputs) const {
  std::array<double, kNumbers> numbers = {};
  const auto of_rule = numbers_of_step(settings_.rule, inputs.step);
  auto* next = std::ranges::copy(of_rule, numbers.begin()).out;
  *next++ = inputs.expected_tokens;
  for (const bool decoupled : {false, true}) {
    for (const bool decays : {false, true}) {
      *next++ = decoupled ? inputs.decoupled_lr.value_or(inputs.lr) : inputs.lr;
      *next++ = decays ? inputs.weight_decay : 0.0;
    }
  }
  context.backend.upload(context.queue, numbers_, std::as_bytes(std::span(numbers)));
}

void Optimizer::count_zeros(Context& context) const {
  const TimerScope time(timers_, StepTimer::kOptimizerCountZeros);
  sum_by_parameter(context, Statistic::kZeros);
  ops::total(context, {.sum = results_.zeros, .x = by_parameter_});
}

void Optimizer::measure(Context& context, const StepInputs& inputs) const {
  const TimerScope time(timers_, StepTimer::kOptimizerClip);
  sum_by_parameter(context, Statistic::kSquares);
  ops::gradient_factor(context, {.norm = results_.norm,
                                 .factor = factor_,
                                 .skip = results_.skip,
                                 .square_sums = by_parameter_,
                                 .tokens = inputs.tokens,
                                 .expected_tokens = expected_tokens_,
                                 .loss_scale = inputs.loss_scale,
                                 .checked = inputs.checked,
                                 .clip = settings_.clip_grad});
}

void Optimizer::update(Context& context) const {
  const TimerScope time(timers_, StepTimer::kOptimizerInnerStep);
  visit_ranges(context, accesses(), fence_ != nullptr,
               [&](const UpdateRange& range, Tensors tensors) {
                 if (fence_ != nullptr) ask_fence(context, range, tensors);
                 update(context, range, tensors);
               });
}

void Optimizer::visit_ranges(Context& context, std::span<const TileAccess> accesses, bool by_tile,
                             const RangeBody& body) const {
  if (by_tile || states().has_files()) {
    visit_tiles(context, states(), parameters_->staging(), accesses,
                [&](const StateLayout::Tile& at, Tensors tensors) {
                  const auto number = static_cast<std::size_t>(&at - states().tiles().data());
                  body(ranges_.tiles()[number], tensors);
                });
    return;
  }
  std::vector<Tensor> tensors;
  for (const UpdateRange& range : ranges_.joined()) {
    tensors.clear();
    for (const TileAccess& access : accesses) {
      tensors.push_back(access.column != nullptr
                            ? access.column->memory().slice(0, range.memory, range.local.count)
                            : Tensor{});
    }
    body(range, tensors);
  }
}

void Optimizer::ask_fence(Context& context, const UpdateRange& tile, Tensors tensors) const {
  const bool has_mains = parameters_->has_main_parameters();
  const auto number = &tile - ranges_.tiles().data();
  const StateLayout::Tile& at = states().tiles()[static_cast<std::size_t>(number)];
  fence_->before_update(
      context, static_cast<int>(number),
      {.main = at.states_in_file ? tensors[0] : Tensor{},
       // With main parameters weights are not read from their file.
       .weight = at.weights_in_file && !has_mains ? tensors[1] : Tensor{},
       .moments = at.states_in_file ? tensors.subspan(kGradient + 1) : Tensors()});
}

// Main parameters and weights, the gradient, and what the rule keeps.
std::vector<TileAccess> Optimizer::accesses() const {
  std::vector<TileAccess> accesses;
  for (const TileAccess& access : parameters_->accesses(true, true)) accesses.push_back(access);
  accesses.push_back(gradients_->access(true, false));
  for (const StateColumn& state : states_) accesses.push_back({.column = &state});
  return accesses;
}

Tensor Optimizer::weight(const UpdateRange& range, Tensors tensors) const {
  return tensors[1] ? tensors[1] : parameters_->flat().slice(0, range.weights, range.local.count);
}

Tensor Optimizer::main(const UpdateRange& range, Tensors tensors) const {
  return tensors[0] ? tensors[0] : weight(range, tensors);
}

Tensor Optimizer::gradient(const UpdateRange& range, const Tensor& tensor) const {
  return tensor ? tensor : gradients_->flat().slice(0, range.flat, range.local.count);
}

void Optimizer::update(Context& context, const UpdateRange& range, Tensors tensors) const {
  const bool has_mains = parameters_->has_main_parameters();
  // A weight that lies in a file was not read: a skipped step too must leave it there.
  const bool is_elsewhere = has_mains && tensors[1];
  const Tensor main_parameters = main(range, tensors);
  update_weights(context, settings_.rule,
                 {.weight = main_parameters,
                  .storage = has_mains && !is_elsewhere ? weight(range, tensors) : Tensor{},
                  .gradient = gradient(range, tensors[kGradient]),
                  .states = tensors.subspan(kGradient + 1),
                  .table = ranges_.updates(range),
                  .first = range.local.begin,
                  .settings = settings_of_groups_,
                  .step_numbers = rule_numbers_,
                  .factor = factor_,
                  .skip = results_.skip});
  if (is_elsewhere) ops::copy(context, {.destination = tensors[1], .source = main_parameters});
}

}  // namespace phalanx
