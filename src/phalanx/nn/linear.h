#pragma once
// y = x W^T + b: the layer behind every projection. Its output gradient is kept by the caller for
// the weight pass.

#include <string>
#include <vector>

#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class Linear {
 public:
  // Where the bias is added: by the product, or by the fused operation that follows it.
  enum class Bias { kInProduct, kByCaller };

  // Parameters NAME.weight [out, in], normal with `deviation`, and NAME.bias [out], zero.
  Linear(ParamTable& table, std::vector<ParamId>& owned, const std::string& name, std::int64_t out,
         std::int64_t in, DType dtype, double deviation, Bias bias);

  std::int64_t out_features() const { return out_; }
  ParamId bias() const { return bias_; }

  void forward(Pass& pass, const Tensor& y, const Tensor& x) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy) const;
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x,
                       const Gradients& gradients) const;

 private:
  std::int64_t out_;
  Bias bias_place_;
  ParamId weight_;
  ParamId bias_;
};

}  // namespace phalanx::nn
