#pragma once
// A sub-layer of a Transformer layer. Its parts: where its norm is, and a body.
//
//   pre   out = x + dropout(body(norm(x)) + bias)
//   post  out = norm(x + dropout(body(x) + bias))   (Vaswani et al., Attention Is All You Need)
//
// A body is one tensor-parallel region: entered by a column-parallel linear, left through a
// row-parallel one, whose bias is added outside, with dropout and residual.

#include <memory>

#include "phalanx/nn/region_entry.h"

namespace phalanx::nn {

class SublayerBody : public RegionBody {
 public:
  // y [s, b, h]: this rank's partial sum of the last linear, without its bias. y and `entered` may
  // be one tensor: a body reads all of it before it writes.
  virtual void forward(BodyCall& call, const Tensor& y, const Tensor& entered) const = 0;
  // Computes again what backward reads of forward.
  virtual void recompute(BodyCall& call, const Tensor& entered) const = 0;
  // From call.exit_gradient to the output gradient of the first linear, which it saves.
  virtual void backward_to_entry(BodyCall& call) const = 0;

  // The bias of the last linear; -1: it has none.
  virtual ParamId exit_bias() const = 0;
  virtual DropoutPlace exit_dropout() const = 0;
};

class Sublayer {
 public:
  // `name` is that of the body's last linear, in saved tensors; `layer` counts within the stack.
  Sublayer(const Norm& norm, std::unique_ptr<SublayerBody> body, SavedSlots& slots,
           const std::string& name, std::int64_t layer, const TransformerConfig& config);

  // Tensors are the residual stream's. `dout` and `dx` may be one tensor.
  void forward(BodyCall call, const Tensor& out, const Tensor& x) const;
  void recompute(BodyCall call, const Tensor& x) const;
  void backward_input(BodyCall call, const Tensor& dx, const Tensor& dout, const Tensor& x) const;
  void backward_weight(BodyCall call, const Tensor& x, const Gradients& gradients) const;
  // Both; the weight gradients are computed while the messages of the input gradient are under way.
  void backward(BodyCall call, const Tensor& dx, const Tensor& dout, const Tensor& x,
                const Gradients& gradients) const;

 private:
  bool is_post() const { return post_norm_.has_value(); }
  Dropout dropout(const Pass& pass) const;
  // Everything of backward_input before the entry. Returns the gradient of the sum of x and body.
  Tensor backward_to_entry(BodyCall& call, const Tensor& dout) const;

  const TransformerConfig config_;
  std::int64_t layer_;
  RegionEntry entry_;
  std::optional<Norm> post_norm_;
  std::unique_ptr<SublayerBody> body_;
  SavedId exit_gradient_;
  SavedId sum_ = -1;  // the input of a post-norm sub-layer's norm
};

}  // namespace phalanx::nn
