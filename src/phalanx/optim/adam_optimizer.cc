#include "phalanx/optim/adam_optimizer.h"

#include "phalanx/nn/config.h"

namespace phalanx {

AdamOptimizer::AdamOptimizer(const ParameterStore& parameters, const GradientStore& gradients,
                             const AdamSettings& settings, const OptimizerGroups& groups,
                             Arena& states, Arena& scalars)
    : parameters_(&parameters), gradients_(&gradients), settings_(settings), groups_(groups) {
  PHALANX_CHECK((groups.data != nullptr) == parameters.is_sharded(),
                "a group of shards goes with a sharded store");
  const ParamId parameters_of_model = parameters.places().parameters;
  PHALANX_CHECK(groups.model != nullptr || groups.is_stage_alone ||
                    (groups.first_tensor_rank && parameters_of_model == parameters.table().size()),
                "a part of a model without the other parts");
  const nn::ParamTable& table = parameters.table();
  const DType full = nn::full_precision(table[0].dtype);
  const Shape shard{total_count(parameters.shard())};
  exp_avg_ = states.allocate(full, shard);
  exp_avg_sq_ = states.allocate(full, shard);
  std::int64_t blocks = 0;
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t offset = parameters.layout().offsets[static_cast<std::size_t>(id)];
    const std::int64_t count =
        table[id].copy == EmbeddingCopy::kLast
            ? 0
            : ops::sum_blocks(offset % ops::kSumBlock, table[id].local_shape.count());
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

void AdamOptimizer::initialise(Context& context) const {
  ops::fill(context, {.x = exp_avg_, .value = 0.0});
  ops::fill(context, {.x = exp_avg_sq_, .value = 0.0});
}

bool AdamOptimizer::counts(ParamId id) const {
  const bool has_blocks = blocks_[static_cast<std::size_t>(id)].count > 0;
  return has_blocks && (parameters_->table()[id].tensor_parallel || groups_.first_tensor_rank);
}

void AdamOptimizer::sum_by_block(Context& context, Statistic statistic) const {
  if (groups_.data != nullptr) ops::fill(context, {.x = block_sums_, .value = 0.0});
  for (const Segment& segment : parameters_->segments()) {
    const auto id = static_cast<std::size_t>(segment.id);
    if (blocks_[id].count == 0) continue;
    const std::int64_t lead = segment.flat % ops::kSumBlock;
    const std::int64_t first_block =
        segment.flat / ops::kSumBlock - parameters_->layout().offsets[id] / ops::kSumBlock;
    const Tensor sums =
        block_sums_.slice(0, blocks_[id].begin + first_block, ops::sum_blocks(lead, segment.count));
    const Tensor gradient = gradients_->gradient(segment);
    if (statistic == Statistic::kSquares) {
      ops::square_sum(context, {.sums = sums, .x = gradient, .lead = lead});
    } else {
      ops::zero_count(context, {.counts = sums, .x = gradient, .lead = lead});
    }
  }
  // A block is one rank's, the others add zeros: exact.
  if (groups_.data != nullptr) {
    groups_.data->all_reduce(context, block_sums_, Reduction::kSum).wait(context.stream);
  }
}

void AdamOptimizer::sum_by_parameter(Context& context, Statistic statistic) const {
  sum_by_block(context, statistic);
  if (groups_.model != nullptr || groups_.is_stage_alone) {
    ops::fill(context, {.x = by_parameter_, .value = 0.0});
  }
  for (ParamId id = 0; id < parameters_->table().size(); ++id) {
    if (!counts(id)) continue;
    const auto i = static_cast<std::size_t>(id);
    ops::total(context, {.sum = by_parameter_.slice(0, parameters_->places().global[i], 1),
                         .x = block_sums_.slice(0, blocks_[i].begin, blocks_[i].count)});
  }
  // A parameter is one stage's, the others add zeros: exact.
  if (groups_.model != nullptr) {
    groups_.model->all_reduce(context, by_parameter_, Reduction::kSum).wait(context.stream);
  }
}

void AdamOptimizer::step(Context& context, const StepInputs& inputs) const {
  if (settings_.count_zeros) {
    sum_by_parameter(context, Statistic::kZeros);
    ops::total(context, {.sum = zeros_, .x = by_parameter_});
  }
  sum_by_parameter(context, Statistic::kSquares);
  ops::gradient_factor(context, {.norm = norm_,
                                 .factor = factor_,
                                 .skip = skip_,
                                 .square_sums = by_parameter_,
                                 .tokens = inputs.tokens,
                                 .loss_scale = inputs.loss_scale,
                                 .expected_tokens = inputs.expected_tokens,
                                 .clip = settings_.clip_grad});
  const nn::ParamTable& table = parameters_->table();
  for (const Segment& segment : parameters_->segments()) {
    ops::adam(context, {.weight = parameters_->main(segment),
                        .storage = parameters_->has_main_parameters() ? parameters_->weight(segment)
                                                                      : Tensor{},
                        .gradient = gradients_->gradient(segment),
                        .exp_avg = exp_avg(segment),
                        .exp_avg_sq = exp_avg_sq(segment),
                        .factor = factor_,
                        .skip = skip_,
                        .lr = inputs.lr,
                        .beta1 = settings_.beta1,
                        .beta2 = settings_.beta2,
                        .epsilon = settings_.epsilon,
                        .weight_decay = table[segment.id].decays ? inputs.weight_decay : 0.0,
                        .step = inputs.step});
  }
}

}  // namespace phalanx
