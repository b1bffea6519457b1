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

Norm::Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& name, const TransformerConfig& config)
    : kind_(config.norm),
      zero_centred_(config.norm_zero_centred),
      epsilon_(config.norm_epsilon),
      weight_(table.add(stream_vector(name + ".weight", config, zero_centred_ ? 0.0 : 1.0))) {
  owned.push_back(weight_);
  const DType full = full_precision(config.dtype);
  const std::int64_t hidden = config.hidden;
  const auto add_statistic = [&](const char* what) {
    return slots.add({name + what, full, Born::kForward, LastReader::kWeightGradient,
                      [](const BatchShape& batch) { return Shape{batch.stream_rows()}; }});
  };
  const auto add_sum = [&](const char* what) {
    return slots.add({name + what, full, Born::kInputGradient, LastReader::kWeightGradient,
                      [hidden](const BatchShape& /*batch*/) { return Shape{hidden}; }});
  };
  if (kind_ == NormKind::kLayerNorm) {
    bias_ = table.add(stream_vector(name + ".bias", config, 0.0));
    owned.push_back(bias_);
    mean_ = add_statistic(".mean");
  }
  rstd_ = add_statistic(".rstd");
  dweight_ = add_sum(".dweight");
  if (kind_ == NormKind::kLayerNorm) dbias_ = add_sum(".dbias");
}

void Norm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm_forward(pass.ops, {.y = y.rows(),
                                     .rstd = saved[rstd_],
                                     .x = x.rows(),
                                     .weight = pass.weights[weight_],
                                     .epsilon = epsilon_,
                                     .zero_centred = zero_centred_});
    return;
  }
  ops::layer_norm_forward(pass.ops, {.y = y.rows(),
                                     .mean = saved[mean_],
                                     .rstd = saved[rstd_],
                                     .x = x.rows(),
                                     .weight = pass.weights[weight_],
                                     .bias = pass.weights[bias_],
                                     .epsilon = epsilon_,
                                     .zero_centred = zero_centred_});
}

void Norm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const {
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm_apply(pass.ops, {.y = y.rows(),
                                   .x = x.rows(),
                                   .rstd = saved[rstd_],
                                   .weight = pass.weights[weight_],
                                   .zero_centred = zero_centred_});
    return;
  }
  ops::layer_norm_apply(pass.ops, {.y = y.rows(),
                                   .x = x.rows(),
                                   .mean = saved[mean_],
                                   .rstd = saved[rstd_],
                                   .weight = pass.weights[weight_],
                                   .bias = pass.weights[bias_],
                                   .zero_centred = zero_centred_});
}

void Norm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                          const Tensor& residual, const Saved& saved) const {
  const Tensor residual_rows = residual ? residual.rows() : Tensor{};
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm_backward(pass.ops, {.dx = dx.rows(),
                                      .dweight = saved[dweight_],
                                      .dy = dy.rows(),
                                      .x = x.rows(),
                                      .rstd = saved[rstd_],
                                      .weight = pass.weights[weight_],
                                      .zero_centred = zero_centred_,
                                      .residual = residual_rows});
    return;
  }
  ops::layer_norm_backward(pass.ops, {.dx = dx.rows(),
                                      .dweight = saved[dweight_],
                                      .dbias = saved[dbias_],
                                      .dy = dy.rows(),
                                      .x = x.rows(),
                                      .mean = saved[mean_],
                                      .rstd = saved[rstd_],
                                      .weight = pass.weights[weight_],
                                      .zero_centred = zero_centred_,
                                      .residual = residual_rows});
}

void Norm::backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  const auto add = [&](ParamId id, const Tensor& sum) {
    if (gradients.adds_to(id)) {
      ops::accumulate(pass.ops, {.destination = gradients[id], .source = sum});
    } else {
      ops::copy(pass.ops, {.destination = gradients[id], .source = sum});
    }
  };
  add(weight_, saved[dweight_]);
  if (bias_ >= 0) add(bias_, saved[dbias_]);
}

}  // namespace phalanx::nn
