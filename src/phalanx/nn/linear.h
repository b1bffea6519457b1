#pragma once
// y = x W^T + b: the layer behind every projection, cut over the tensor-parallel group by output
// features (column-parallel: y is this rank's features) or by input features (row-parallel: x is,
// and y is a partial sum). The messages that go with it are the caller's, who enters and leaves the
// region. Or it is whole on every rank. Its output gradient is kept by the caller for the weight
// pass.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"
#include "phalanx/ops/linear.h"

namespace phalanx::nn {

class Linear {
 public:
  // Where the bias is added: by the product, or by the fused operation that follows it. Or there is
  // none.
  enum class Bias { kInProduct, kByCaller, kNone };
  enum class Cut {
    kColumn,
    kRow,
    kStream,  // whole, of the residual stream's rows: with sequence parallelism each rank has its
              // own
    kWhole,   // whole, of rows that every rank has
  };

  // Parameters NAME.weight [out, in], normal with `deviation`, and NAME.bias [out], zero: sizes are
  // global. A row-parallel bias is whole, and added by the caller outside the region. `features`
  // are those that this rank has of a column-parallel linear which is not cut into equal parts.
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

// Where the bias is added, if there is one.
constexpr Linear::Bias bias_if(bool exists, Linear::Bias place) {
  return exists ? place : Linear::Bias::kNone;
}

}  // namespace phalanx::nn
