#include "phalanx/nn/linear.h"

namespace phalanx::nn {

Linear::Linear(ParamTable& table, std::vector<ParamId>& owned, const std::string& name,
               std::int64_t out, std::int64_t in, DType dtype, double deviation, Bias bias)
    : out_(out),
      bias_place_(bias),
      weight_(table.add(whole_parameter(name + ".weight", {out, in}, dtype,
                                        {Initialiser::Kind::kNormal, deviation}))),
      bias_(table.add(whole_parameter(name + ".bias", {out}, dtype, {}))) {
  owned.push_back(weight_);
  owned.push_back(bias_);
}

void Linear::forward(Pass& pass, const Tensor& y, const Tensor& x) const {
  ops::linear_forward(pass.ops,
                      {.y = y.rows(),
                       .x = x.rows(),
                       .weight = pass.weights[weight_],
                       .bias = bias_place_ == Bias::kInProduct ? pass.weights[bias_] : Tensor{}});
}

void Linear::backward_input(Pass& pass, const Tensor& dx, const Tensor& dy) const {
  ops::linear_input_gradient(pass.ops,
                             {.dx = dx.rows(), .dy = dy.rows(), .weight = pass.weights[weight_]});
}

void Linear::backward_weight(Pass& pass, const Tensor& dy, const Tensor& x,
                             const Gradients& gradients) const {
  ops::linear_weight_gradient(pass.ops,
                              {.dweight = gradients[weight_], .dy = dy.rows(), .x = x.rows()});
  ops::bias_gradient(pass.ops, {.dbias = gradients[bias_], .dy = dy.rows()});
}

}  // namespace phalanx::nn
