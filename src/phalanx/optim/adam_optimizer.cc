#include "phalanx/optim/adam_optimizer.h"

#include "phalanx/nn/config.h"

namespace phalanx {

AdamOptimizer::AdamOptimizer(const ParameterStore& parameters, const GradientStore& gradients,
                             const AdamSettings& settings, const OptimizerGroups& groups,
                             Arena& states, Arena& scalars)
    : parameters_(&parameters), gradients_(&gradients), settings_(settings), groups_(groups) {
  PHALANX_CHECK((groups.data != nullptr) == parameters.is_sharded(),
                "a group of shards goes with a sharded store");
  const nn::ParamTable& table = parameters.table();
  const DType full = nn::full_precision(table[0].dtype);
  const Shape shard{total_count(parameters.shard())};
  exp_avg_ = states.allocate(full, shard);
  exp_avg_sq_ = states.allocate(full, shard);
  std::int64_t blocks = 0;
  for (ParamId id = 0; id < table.size(); ++id) {
    const std::int64_t offset = parameters.layout().offsets[static_cast<std::size_t>(id)];
    const std::int64_t count =
        ops::sum_blocks(offset % ops::kSumBlock, table[id].local_shape.count());
    blocks_.push_back({blocks, count});
    blocks += count;
  }
  block_sums_ = scalars.allocate(DType::kF64, {blocks});
  by_parameter_ = scalars.allocate(DType::kF64, {table.size()});
  norm_ = scalars.allocate(full, {1});
  factor_ = scalars.allocate(full, {1});
  skip_ = scalars.allocate(full, {1});
  if (settings.count_zeros) zeros_ = scalars.allocate(DType::kF64, {1});
}

void AdamOptimizer::initialise(Context& context) const {
  ops::fill(context, {.x = exp_avg_, .value = 0.0});
  ops::fill(context, {.x = exp_avg_sq_, .value = 0.0});
}

void AdamOptimizer::reduce_blocks(Context& context, Statistic statistic) const {
  const nn::ParamTable& table = parameters_->table();
  if (groups_.data != nullptr) ops::fill(context, {.x = block_sums_, .value = 0.0});
  for (const Segment& segment : parameters_->segments()) {
    const auto id = static_cast<std::size_t>(segment.id);
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
  for (ParamId id = 0; id < table.size(); ++id) {
    const FlatRange& blocks = blocks_[static_cast<std::size_t>(id)];
    const Tensor sum = by_parameter_.slice(0, id, 1);
    // Of copies the first rank's counts.
    const bool counts =
        groups_.tensor == nullptr || table[id].tensor_parallel || groups_.tensor->rank() == 0;
    if (counts) {
      ops::total(context, {.sum = sum, .x = block_sums_.slice(0, blocks.begin, blocks.count)});
    } else {
      ops::fill(context, {.x = sum, .value = 0.0});
    }
  }
  if (groups_.tensor != nullptr) {
    groups_.tensor->all_reduce(context, by_parameter_, Reduction::kSum).wait(context.stream);
  }
}

void AdamOptimizer::step(Context& context, const StepInputs& inputs) const {
  if (settings_.count_zeros) {
    reduce_blocks(context, Statistic::kZeros);
    ops::total(context, {.sum = zeros_, .x = by_parameter_});
  }
  reduce_blocks(context, Statistic::kSquares);
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
