#include "phalanx/optim/optimizer.h"

#include <algorithm>

#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

constexpr std::size_t kGradient = 2;  // among the accesses of an update; moments follow

}  // namespace

Optimizer::Optimizer(const ParameterStore& parameters, const GradientStore& gradients,
                     const OptimizerSettings& settings, const OptimizerGroups& groups,
                     Arena& states, Arena& scalars, const StateFiles& files)
    : parameters_(&parameters), gradients_(&gradients), settings_(settings), groups_(groups) {
  const StateLayout& layout = parameters.states();
  PHALANX_CHECK((groups.data != nullptr) == layout.is_sharded(),
                "a group of shards goes with a sharded store");
  const ParamId parameters_of_model = layout.places().parameters;
  PHALANX_CHECK(groups.model != nullptr || groups.is_stage_alone ||
                    parameters_of_model == parameters.table().size(),
                "a part of a model without the other parts");
  const nn::ParamTable& table = parameters.table();
  const DType full = nn::full_precision(table[0].dtype);
  for (const std::string_view name : state_names()) {
    states_.emplace_back(std::string(name), full, layout, states, files.states);
  }
  std::int64_t blocks = 0;
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t offset = layout.flat().offsets[static_cast<std::size_t>(id)];
    const std::int64_t count =
        layout.is_summed_by_stage(id)
            ? ops::sum_blocks(offset % ops::kSumBlock, layout.summed_elements(id))
            : 0;
    blocks_.push_back({blocks, count});
    blocks += count;
  }
  block_sums_ = scalars.allocate(DType::kF64, {blocks});
  by_parameter_ = scalars.allocate(DType::kF64, {parameters_of_model});
  norm_ = scalars.allocate(full, {1});
  factor_ = scalars.allocate(full, {1});
  skip_ = scalars.allocate(full, {1});
  if (settings.count_zeros) zeros_ = scalars.allocate(DType::kF64, {1});
}

void Optimizer::initialise(Context& context) const {
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
  if (groups_.data != nullptr) ops::fill(context, {.x = block_sums_, .value = 0.0});
  const auto sum = [&](const Segment& segment, const Tensor& x) {
    const auto id = static_cast<std::size_t>(segment.id);
    const std::int64_t count =
        std::min(segment.count, states().summed_elements(segment.id) - segment.begin);
    if (count <= 0) return;
    const std::int64_t lead = segment.flat % ops::kSumBlock;
    const std::int64_t first_block =
        segment.flat / ops::kSumBlock - states().flat().offsets[id] / ops::kSumBlock;
    const Tensor sums =
        block_sums_.slice(0, blocks_[id].begin + first_block, ops::sum_blocks(lead, count));
    const Tensor counted = x.slice(0, 0, count);
    if (statistic == Statistic::kZeros) {
      ops::zero_count(context, {.counts = sums, .x = counted, .lead = lead});
    } else {
      ops::square_sum(context, {.sums = sums, .x = counted, .lead = lead});
    }
  };
  const bool of_weights = statistic == Statistic::kParameterSquares;
  std::vector<TileAccess> read;
  if (of_weights) {
    for (const TileAccess& access : parameters_->accesses(true, false)) read.push_back(access);
  } else {
    read.push_back(gradients_->access(true, false));
  }
  visit_tiles(context, states(), parameters_->staging(), read, [&](const auto& at, auto tensors) {
    for (const Segment& segment : at.segments) {
      sum(segment, of_weights ? parameters_->main(segment, tensors)
                              : gradients_->gradient(segment, tensors[0]));
    }
  });
  // A block is one rank's, the others add zeros: exact.
  if (groups_.data != nullptr) {
    groups_.data->all_reduce(context, block_sums_, Reduction::kSum).wait(context.queue);
  }
}

void Optimizer::sum_by_parameter(Context& context, Statistic statistic) const {
  sum_by_block(context, statistic);
  if (groups_.model != nullptr || groups_.is_stage_alone) {
    ops::fill(context, {.x = by_parameter_, .value = 0.0});
  }
  for (ParamId id = 0; id < parameters_->table().size(); ++id) {
    const auto i = static_cast<std::size_t>(id);
    if (!states().counts(id) || blocks_[i].count == 0) continue;
    ops::total(context, {.sum = by_parameter_.slice(0, states().places().global[i], 1),
                         .x = block_sums_.slice(0, blocks_[i].begin, blocks_[i].count)});
  }
  // A parameter is one stage's, the others add zeros: exact.
  if (groups_.model != nullptr) {
    groups_.model->all_reduce(context, by_parameter_, Reduction::kSum).wait(context.queue);
  }
}

const Tensor& Optimizer::parameter_squares(Context& context) const {
  sum_by_parameter(context, Statistic::kParameterSquares);
  return by_parameter_;
}

void Optimizer::step(Context& context, const StepInputs& inputs) const {
  const TimerScope time(timers_, StepTimer::kOptimizer);
  if (settings_.count_zeros) count_zeros(context);
  measure(context, inputs);
  update(context, inputs);
}

void Optimizer::count_zeros(Context& context) const {
  const TimerScope time(timers_, StepTimer::kOptimizerCountZeros);
  sum_by_parameter(context, Statistic::kZeros);
  ops::total(context, {.sum = zeros_, .x = by_parameter_});
}

void Optimizer::measure(Context& context, const StepInputs& inputs) const {
  const TimerScope time(timers_, StepTimer::kOptimizerClip);
  sum_by_parameter(context, Statistic::kSquares);
  ops::gradient_factor(context, {.norm = norm_,
                                 .factor = factor_,
                                 .skip = skip_,
                                 .square_sums = by_parameter_,
                                 .tokens = inputs.tokens,
                                 .loss_scale = inputs.loss_scale,
                                 .expected_tokens = inputs.expected_tokens,
                                 .clip = settings_.clip_grad});
}

void Optimizer::update(Context& context, const StepInputs& inputs) const {
  const TimerScope time(timers_, StepTimer::kOptimizerInnerStep);
  visit_tiles(context, states(), parameters_->staging(), accesses(),
              [&](const auto& at, auto tensors) {
                if (fence_ != nullptr) ask_fence(context, at, tensors);
                for (const Segment& segment : at.segments) {
                  update(context, inputs, segment, tensors);
                }
              });
}

void Optimizer::ask_fence(Context& context, const StateLayout::Tile& at, Tensors tile) const {
  const bool has_mains = parameters_->has_main_parameters();
  const auto moments = tile.subspan(kGradient + 1);
  fence_->before_update(context, static_cast<int>(&at - states().tiles().data()),
                        {.main = at.states_in_file ? tile[0] : Tensor{},
                         // With main parameters weights are not read from their file.
                         .weight = at.weights_in_file && !has_mains ? tile[1] : Tensor{},
                         .moments = at.states_in_file ? moments : Tensors()});
}

// Main parameters and weights, the gradient, and what the rule keeps.
std::vector<TileAccess> Optimizer::accesses() const {
  std::vector<TileAccess> accesses;
  for (const TileAccess& access : parameters_->accesses(true, true)) accesses.push_back(access);
  accesses.push_back(gradients_->access(true, false));
  for (const StateColumn& state : states_) accesses.push_back({.column = &state});
  return accesses;
}

void Optimizer::update(Context& context, const StepInputs& inputs, const Segment& segment,
                       Tensors tile) const {
  std::vector<Tensor> states;
  for (const Tensor& state : tile.subspan(kGradient + 1)) {
    states.push_back(part_of(state, parameters_->states(), segment));
  }
  const ParamSpec& spec = parameters_->table()[segment.id];
  const bool has_mains = parameters_->has_main_parameters();
  // A weight that lies in a file was not read: a skipped step too must leave it there.
  const bool is_elsewhere = has_mains && parameters_->states().tile(segment).weights_in_file;
  const Tensor main = parameters_->main(segment, tile);
  const Tensor stored = has_mains ? parameters_->weight(segment, tile) : Tensor{};
  update_weights(context, settings_.rule,
                 {.weight = main,
                  .storage = is_elsewhere ? Tensor{} : stored,
                  .gradient = gradients_->gradient(segment, tile[kGradient]),
                  .states = states,
                  .factor = factor_,
                  .skip = skip_,
                  .lr = spec.decoupled_rate ? inputs.decoupled_lr.value_or(inputs.lr) : inputs.lr,
                  .weight_decay = spec.decays ? inputs.weight_decay : 0.0,
                  .step = inputs.step});
  if (is_elsewhere) ops::copy(context, {.destination = stored, .source = main});
}

}  // namespace phalanx
