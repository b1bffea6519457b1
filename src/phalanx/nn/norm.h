#pragma once
// A norm of the residual stream as a layer, of the kind that the configuration says. Its output is
// not saved: the weight pass of the linear behind it asks for it again (apply). The sums over rows
// for its own parameters are taken in the input pass, while the data is at hand, and added to the
// main gradients in the weight pass.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class Norm {
 public:
  // Parameters NAME.weight [h], ones (zeros where it is zero-centred), and, of layer normalisation,
  // NAME.bias [h], zeros; saved: the statistics and this microbatch's sums.
  Norm(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& name,
       const TransformerConfig& config);

  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void apply(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  // dx = gradient + residual (optional).
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Tensor& x,
                      const Tensor& residual, const Saved& saved) const;
  void backward_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;

 private:
  NormKind kind_;
  bool zero_centred_;
  double epsilon_;
  ParamId weight_;
  SavedId rstd_, dweight_;
  // Of layer normalisation alone.
  ParamId bias_ = -1;
  SavedId mean_ = -1, dbias_ = -1;
};

}  // namespace phalanx::nn
