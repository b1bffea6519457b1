#pragma once
// y = x W^T + b: every projection is one. It is cut over the tensor-parallel group by output
// features (column-parallel: y has this rank's features) or by input features (row-parallel: x has
// this rank's features, and y is a partial sum), or whole on every rank. The caller enters and
// leaves the region, which sends the messages, and keeps the output gradient for the weight pass.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/linear.h"

namespace phalanx::nn {

class Linear {
 public:
  // What adds the bias: the product, or the fused operation that follows it. kNone: there is none.
  enum class Bias { kInProduct, kByCaller, kNone };
  enum class Cut {
    kColumn,
    kRow,
    kStream,  // whole; works on the residual stream's rows (under sequence parallelism, the rank's)
    kWhole,   // whole; works on rows that every rank has
  };

  // Parameters NAME.weight [out, in], normal with `deviation`, and NAME.bias [out], zero: sizes are
  // global. A row-parallel bias is whole, and the caller adds it outside the region. `features` are
  // this rank's, of a column-parallel linear that is not cut into equal parts.
  Linear(ParamTable& table, std::vector<ParamId>& owned, const std::string& name, std::int64_t out,
         std::int64_t in, const TransformerConfig& config, double deviation, Cut cut, Bias bias,
         const std::vector<RowRange>& features = {});

  ParamId bias() const { return bias_; }  // -1: none

  void forward(Pass& pass, const Tensor& y, const Tensor& x,
               const ops::LinearForward::Activation& activation = {}) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy,
                      const ops::LinearInputGradient::Activation& activation = {}) const;
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x,
                       const Gradients& gradients) const;

 private:
  Cut cut_;
  Bias bias_place_;
  ParamId weight_;
  ParamId bias_ = -1;
};

// `place` where there is a bias, else kNone.
constexpr Linear::Bias bias_if(bool exists, Linear::Bias place) {
  return exists ? place : Linear::Bias::kNone;
}

}  // namespace phalanx::nn
