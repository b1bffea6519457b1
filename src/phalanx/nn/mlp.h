#pragma once
// The MLP sub-layer with its norm and residual: out = x + dropout(fc2(gelu(fc1(norm(x)))) + bias).
// One tensor-parallel region: fc1 is column-parallel, fc2 row-parallel, GeLU needs no message.
// Saved: fc1's output; norm and GeLU outputs are computed again where the weight pass needs them.

#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/norm.h"

namespace phalanx::nn {

class Mlp {
 public:
  // `prefix` is the layer's ("decoder.layers.3"); `layer` its global number from 0.
  Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& prefix,
      std::int64_t layer, const TransformerConfig& config);

  void forward(Pass& pass, const Tensor& out, const Tensor& x, const Saved& saved) const;
  // What backward reads of forward, once more: everything up to fc1's output.
  void recompute(Pass& pass, const Tensor& x, const Saved& saved) const;
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                       const Gradients& gradients) const;
  // Both; the weight gradients are computed while the messages of the input gradient are under way.
  void backward(Pass& pass, const Tensor& dx, const Tensor& dout, const Tensor& x,
                const Saved& saved, const Gradients& gradients) const;

 private:
  // Everything up to fc1's output, and what follows it.
  void forward_to_fc1(Pass& pass, const Tensor& x, const Saved& saved,
                      const ops::LinearForward::Activation& activation) const;
  void backward_to_fc1(Pass& pass, const Tensor& dout, const Saved& saved) const;
  void backward_fc2_weight(Pass& pass, const Saved& saved, const Gradients& gradients) const;
  Dropout dropout(const Pass& pass) const;
  void activation(Pass& pass, const Tensor& y, const Saved& saved) const;

  const TransformerConfig config_;
  std::int64_t layer_;
  LayerNorm norm_;
  Linear fc1_, fc2_;
  SavedId fc1_output_, dfc1_output_, dfc2_output_;
};

}  // namespace phalanx::nn
