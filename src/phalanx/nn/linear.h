#pragma once
// y = x W^T + b, used for every projection. It is cut over the tensor-parallel group by output
// features (column-parallel: y has this rank's features), or by input features (row-parallel: x has
// this rank's features, y is a partial sum), or is whole on every rank. The caller enters and
// leaves the region, which sends messages, and keeps the output gradient for the weight pass.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/linear.h"

namespace phalanx::nn {

class Linear {
 public:
  // The op that adds the bias: the product, or a later fused op of the caller. kNone: no bias.
  enum class Bias { kInProduct, kByCaller, kNone };
  enum class Cut {
    kColumn,
    kRow,
    kStream,  // whole; for rows of the residual stream (under sequence parallelism, the rank's)
    kWhole,   // whole; for rows that every rank has
  };

  // Parameters NAME.weight [out, in], normal with `deviation`, and NAME.bias [out], zero; sizes are
  // global. A row-parallel bias is whole, and the caller adds it outside the region. `features`:
  // this rank's, for a column-parallel linear that is not cut equally.
  Linear(ParamTable& table, std::vector<ParamId>& owned, const std::string& name, std::int64_t out,
         std::int64_t in, const TransformerConfig& config, double deviation, Cut cut, Bias bias,
         const std::vector<RowRange>& features = {});

  ParamId bias() const { return bias_; }  // -1: none
  // Whether backward_weight does anything, and whether it reads x.
  bool trains() const { return trains_weight_ || trains_bias_; }
  bool trains_weight() const { return trains_weight_; }

  void forward(Pass& pass, const Tensor& y, const Tensor& x,
               const ops::LinearForward::Activation& activation = {}) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy,
                      const ops::LinearInputGradient::Activation& activation = {}) const;
  // `x` may be absent unless trains_weight().
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x,
                       const Gradients& gradients) const;

 private:
  Cut cut_;
  Bias bias_place_;
  ParamId weight_;
  ParamId bias_ = -1;
  bool trains_weight_ = true;
  bool trains_bias_ = false;
};

// `place` if there is a bias, else kNone.
constexpr Linear::Bias bias_if(bool exists, Linear::Bias place) {
  return exists ? place : Linear::Bias::kNone;
}

}  // namespace phalanx::nn
