#include "phalanx/nn/norm.h"

namespace phalanx::nn {
namespace {

ParamSpec stream_vector(std::string name, const TransformerConfig& config, double value) {
  ParamSpec spec = whole_parameter(std::move(name), {config.hidden}, config.dtype,
                                   {Initialiser::Kind::kConstant, value});
  spec.reduction = reduction_of_stream(config.tensor);
  return spec;
}

}  // namespace

LayerNorm::LayerNorm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                     const std::string& name, const TransformerConfig& config)
    : epsilon_(config.norm_epsilon),
      weight_(table.add(stream_vector(name + ".weight", config, 1.0))),
      bias_(table.add(stream_vector(name + ".bias", config, 0.0))) {
  owned.push_back(weight_);
  owned.push_back(bias_);
  const DType full = full_precision(config.dtype);
  const std::int64_t hidden = config.hidden;
  const auto per_row = [](const BatchShape& batch) { return Shape{batch.stream_rows()}; };
  const auto per_feature = [hidden](const BatchShape& /*batch*/) { return Shape{hidden}; };
  mean_ = slots.add({name + ".mean", full, Born::kForward, LastReader::kWeightGradient, per_row});
  rstd_ = slots.add({name + ".rstd", full, Born::kForward, LastReader::kWeightGradient, per_row});
  dweight_ = slots.add(
      {name + ".dweight", full, Born::kInputGradient, LastReader::kWeightGradient, per_feature});
  dbias_ = slots.add(
      {name + ".dbias", full, Born::kInputGradient, LastReader::kWeightGradient, per_feature});
}

void LayerNorm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  ops::layer_norm_forward(pass.ops, {.y = y.rows(),
                                     .mean = saved[mean_],
                                     .rstd = saved[rstd_],
                                     .x = x.rows(),
                                     .weight = pass.weights[weight_],
                                     .bias = pass.weights[bias_],
                                     .epsilon = epsilon_});
}

void LayerNorm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  ops::layer_norm_apply(pass.ops, {.y = y.rows(),
                                   .x = x.rows(),
                                   .mean = saved[mean_],
                                   .rstd = saved[rstd_],
                                   .weight = pass.weights[weight_],
                                   .bias = pass.weights[bias_]});
}

void LayerNorm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                               const Tensor& residual, const Saved& saved) const {
  ops::layer_norm_backward(pass.ops, {.dx = dx.rows(),
                                      .dweight = saved[dweight_],
                                      .dbias = saved[dbias_],
                                      .dy = dy.rows(),
                                      .x = x.rows(),
                                      .mean = saved[mean_],
                                      .rstd = saved[rstd_],
                                      .weight = pass.weights[weight_],
                                      .residual = residual ? residual.rows() : Tensor{}});
}

void LayerNorm::backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  const auto add = [&](ParamId id, const Tensor& sum) {
    if (gradients.adds_to(id)) {
      ops::accumulate(pass.ops, {.destination = gradients[id], .source = sum});
    } else {
      ops::copy(pass.ops, {.destination = gradients[id], .source = sum});
    }
  };
  add(weight_, saved[dweight_]);
  add(bias_, saved[dbias_]);
}

}  // namespace phalanx::nn
