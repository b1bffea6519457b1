#include "phalanx/nn/linear.h"

namespace phalanx::nn {
namespace {

// Output features are rows of W: what is column-parallel in y = x W^T is cut by rows here.
ParamSpec weight_spec(const std::string& name, const Shape& shape, const TransformerConfig& config,
                      double deviation, Linear::Cut cut, const std::vector<RowRange>& features) {
  const Initialiser normal{Initialiser::Kind::kNormal, deviation};
  const auto [rank, size] = std::pair(config.tensor.rank, config.tensor.size);
  switch (cut) {
    case Linear::Cut::kColumn:
      if (!features.empty()) {
        return row_ranges_parameter(name + ".weight", shape, config.dtype, normal, features, size);
      }
      return row_cut_parameter(name + ".weight", shape, config.dtype, normal, rank, size);
    case Linear::Cut::kRow:
      return column_cut_parameter(name + ".weight", shape, config.dtype, normal, rank, size);
    default:
      break;
  }
  ParamSpec spec = whole_parameter(name + ".weight", shape, config.dtype, normal);
  if (cut == Linear::Cut::kStream) spec.summed_over = sums_of_stream(config.tensor);
  return spec;
}

ParamSpec bias_spec(const std::string& name, std::int64_t out, const TransformerConfig& config,
                    Linear::Cut cut, const std::vector<RowRange>& features) {
  if (!features.empty()) {
    return row_ranges_parameter(name + ".bias", {out}, config.dtype, {}, features,
                                config.tensor.size);
  }
  if (cut == Linear::Cut::kColumn) {
    return row_cut_parameter(name + ".bias", {out}, config.dtype, {}, config.tensor.rank,
                             config.tensor.size);
  }
  ParamSpec spec = whole_parameter(name + ".bias", {out}, config.dtype, {});
  if (cut != Linear::Cut::kWhole) spec.summed_over = sums_of_stream(config.tensor);
  return spec;
}

}  // namespace

Linear::Linear(ParamTable& table, std::vector<ParamId>& owned, const std::string& name,
               std::int64_t out, std::int64_t in, const TransformerConfig& config, double deviation,
               Cut cut, Bias bias, const std::vector<RowRange>& features)
    : cut_(cut),
      bias_place_(bias),
      weight_(table.add(weight_spec(name, {out, in}, config, deviation, cut, features))) {
  PHALANX_CHECK(cut != Cut::kRow || bias != Bias::kInProduct,
                "{}: the bias of a row-parallel linear is added once, outside the region", name);
  PHALANX_CHECK(cut == Cut::kColumn || features.empty(), "{}: features of a linear that has all",
                name);
  owned.push_back(weight_);
  trains_weight_ = table.trains(weight_);
  if (bias == Bias::kNone) return;
  bias_ = table.add(bias_spec(name, out, config, cut, features));
  owned.push_back(bias_);
  trains_bias_ = table.trains(bias_);
}

void Linear::forward(Pass& pass, const Tensor& y, const Tensor& x,
                     const ops::LinearForward::Activation& activation) const {
  ops::linear_forward(pass.ops,
                      {.y = y.rows(),
                       .x = x.rows(),
                       .weight = pass.weights[weight_],
                       .bias = bias_place_ == Bias::kInProduct ? pass.weights[bias_] : Tensor{},
                       .activation = activation});
}

void Linear::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy,
                            const ops::LinearInputGradient::Activation& activation) const {
  ops::linear_input_gradient(pass.ops, {.dx = dx.rows(),
                                        .dy = dy.rows(),
                                        .weight = pass.weights[weight_],
                                        .activation = activation});
}

void Linear::backward_weight(Pass& pass, const Tensor& dy, const Tensor& x,
                             const Gradients& gradients) const {
  if (!trains()) return;
  // A row-parallel bias was added to this rank's rows of the stream alone.
  const Tensor rows = cut_ == Cut::kRow ? pass.region.own(dy) : dy;
  const bool is_fused = trains_bias_ && trains_weight_ && rows.shape == dy.shape;
  const bool adds = gradients.is_written(trains_weight_ ? weight_ : bias_);
  PHALANX_CHECK(!trains_weight_ || !trains_bias_ || adds == gradients.is_written(bias_),
                "a weight and its bias are of one pass");
  if (trains_weight_) {
    gradients.mark_written(weight_);
    ops::linear_weight_gradient(pass.ops, {.dweight = gradients[weight_],
                                           .dy = dy.rows(),
                                           .x = x.rows(),
                                           .accumulate = adds,
                                           .dbias = is_fused ? gradients[bias_] : Tensor{}});
  }
  if (!trains_bias_) return;
  gradients.mark_written(bias_);
  if (!is_fused) {
    ops::bias_gradient(pass.ops,
                       {.dbias = gradients[bias_], .dy = rows.rows(), .accumulate = adds});
  }
}

}  // namespace phalanx::nn
