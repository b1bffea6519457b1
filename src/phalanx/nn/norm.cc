#include "phalanx/nn/norm.h"

namespace phalanx::nn {
namespace {

ParamSpec vector_parameter(std::string name, const TransformerConfig& config,
                           const Norm::Rows& rows, double value) {
  ParamSpec spec = whole_parameter(std::move(name), {rows.width}, config.dtype,
                                   {Initialiser::Kind::kConstant, value});
  spec.summed_over = rows.summed_over;
  return spec;
}

Norm::Rows stream_rows(const TransformerConfig& config) {
  return {.width = config.hidden,
          .summed_over = sums_of_stream(config.tensor),
          .statistics = [](const BatchShape& batch) { return Shape{batch.stream_rows()}; }};
}

}  // namespace

Norm::Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& name, const TransformerConfig& config)
    : Norm(table, owned, slots, name, config, stream_rows(config)) {}

Norm::Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
           const std::string& name, const TransformerConfig& config, const Rows& rows)
    : zero_centred_(config.norm_zero_centred), epsilon_(config.norm_epsilon) {
  const DType full = full_precision(config.dtype);
  const auto add_parameter = [&](const char* what, double value) {
    owned.push_back(table.add(vector_parameter(name + what, config, rows, value)));
    return owned.back();
  };
  const auto add_statistic = [&](const char* what) {
    return slots.add(
        {name + what, full, Born::kForward, rows.statistics_last_reader, rows.statistics});
  };
  const auto add_sum = [&](const char* what, bool trains) {
    return slots.add({name + what, full, Born::kInputGradient, last_reader_if(trains),
                      [width = rows.width](const BatchShape& /*batch*/) { return Shape{width}; }});
  };
  const bool has_mean = config.norm == NormKind::kLayerNorm;
  weight_ = add_parameter(".weight", zero_centred_ ? 0.0 : 1.0);
  if (has_mean) bias_ = add_parameter(".bias", 0.0);
  trains_weight_ = table.trains(weight_);
  trains_bias_ = table.trains(bias_);
  if (has_mean) mean_ = add_statistic(".mean");
  rstd_ = add_statistic(".rstd");
  dweight_ = add_sum(".dweight", trains_weight_);
  if (has_mean) dbias_ = add_sum(".dbias", trains_bias_);
}

Norm::Statistics Norm::statistics(const Saved& saved) const {
  return {.mean = has_mean() ? saved[mean_] : Tensor{}, .rstd = saved[rstd_]};
}

Norm::Sums Norm::sums(const Saved& saved) const {
  return {.dweight = saved[dweight_], .dbias = has_mean() ? saved[dbias_] : Tensor{}};
}

void Norm::forward(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const {
  ops::norm_forward(pass.ops, {.y = y,
                               .mean = of_rows.mean,
                               .rstd = of_rows.rstd,
                               .x = x,
                               .weight = pass.weights[weight_],
                               .bias = has_mean() ? pass.weights[bias_] : Tensor{},
                               .epsilon = epsilon_,
                               .zero_centred = zero_centred_});
}

void Norm::apply(Pass& pass, const Tensor& y, const Tensor& x, const Statistics& of_rows) const {
  ops::norm_apply(pass.ops, {.y = y,
                             .x = x,
                             .mean = of_rows.mean,
                             .rstd = of_rows.rstd,
                             .weight = pass.weights[weight_],
                             .bias = has_mean() ? pass.weights[bias_] : Tensor{},
                             .zero_centred = zero_centred_});
}

void Norm::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                          const Tensor& residual, const Statistics& of_rows,
                          const Sums& sums) const {
  ops::norm_backward(pass.ops, {.dx = dx,
                                .dweight = sums.dweight,
                                .dbias = sums.dbias,
                                .dy = dy,
                                .x = x,
                                .mean = of_rows.mean,
                                .rstd = of_rows.rstd,
                                .weight = pass.weights[weight_],
                                .zero_centred = zero_centred_,
                                .residual = residual});
}

void Norm::backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const {
  if (trains_weight_) gradients.add(pass.ops, {weight_}, saved[dweight_]);
  if (trains_bias_) gradients.add(pass.ops, {bias_}, saved[dbias_]);
}

}  // namespace phalanx::nn
