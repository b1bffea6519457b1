#include "phalanx/optim/adam_optimizer.h"

#include "phalanx/nn/config.h"

namespace phalanx {
namespace {

std::vector<Tensor> moments(const ParameterStore& parameters, DType dtype, Arena& arena) {
  const Tensor flat = arena.allocate(dtype, {parameters.layout().elements});
  std::vector<Tensor> views;
  for (ParamId id = 0; id < parameters.table().size(); ++id) {
    const auto offset = parameters.layout().offsets[static_cast<std::size_t>(id)];
    views.push_back(flat.slice(0, offset, parameters.table()[id].local_shape.count()));
  }
  return views;
}

Tensor flattened(const Tensor& tensor) { return tensor.reshape({tensor.count()}); }

}  // namespace

AdamOptimizer::AdamOptimizer(const ParameterStore& parameters, const GradientStore& gradients,
                             const AdamSettings& settings, Arena& states, Arena& scalars)
    : parameters_(&parameters), gradients_(&gradients), settings_(settings) {
  const DType full = nn::full_precision(parameters.table()[0].dtype);
  exp_avgs_ = moments(parameters, full, states);
  exp_avg_sqs_ = moments(parameters, full, states);
  square_sums_ = scalars.allocate(DType::kF64, {parameters.table().size()});
  norm_ = scalars.allocate(full, {1});
  factor_ = scalars.allocate(full, {1});
  skip_ = scalars.allocate(full, {1});
}

void AdamOptimizer::initialise(Context& context) const {
  for (ParamId id = 0; id < parameters_->table().size(); ++id) {
    ops::fill(context, {.x = exp_avg(id), .value = 0.0});
    ops::fill(context, {.x = exp_avg_sq(id), .value = 0.0});
  }
}

void AdamOptimizer::step(Context& context, const StepInputs& inputs) const {
  const nn::ParamTable& table = parameters_->table();
  for (ParamId id = 0; id < table.size(); ++id) {
    ops::square_sum(
        context, {.sum = square_sums_.slice(0, id, 1), .x = flattened(gradients_->gradient(id))});
  }
  ops::gradient_factor(context, {.norm = norm_,
                                 .factor = factor_,
                                 .skip = skip_,
                                 .square_sums = square_sums_,
                                 .tokens = inputs.tokens,
                                 .loss_scale = inputs.loss_scale,
                                 .expected_tokens = inputs.expected_tokens,
                                 .clip = settings_.clip_grad});
  for (ParamId id = 0; id < table.size(); ++id) {
    ops::adam(context,
              {.weight = flattened(parameters_->main(id)),
               .storage = parameters_->has_main_parameters() ? flattened(parameters_->weight(id))
                                                             : Tensor{},
               .gradient = flattened(gradients_->gradient(id)),
               .exp_avg = exp_avg(id),
               .exp_avg_sq = exp_avg_sq(id),
               .factor = factor_,
               .skip = skip_,
               .lr = inputs.lr,
               .beta1 = settings_.beta1,
               .beta2 = settings_.beta2,
               .epsilon = settings_.epsilon,
               .weight_decay = table[id].decays ? inputs.weight_decay : 0.0,
               .step = inputs.step});
  }
}

}  // namespace phalanx
