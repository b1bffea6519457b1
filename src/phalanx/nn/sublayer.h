#pragma once
// A sub-layer of a Transformer layer: the position of its norm, and a body.
//
//   pre   out = x + dropout(body(norm(x)) + bias)
//   post  out = norm(x + dropout(body(x) + bias))   (Vaswani et al., Attention Is All You Need)
//
// A body is one tensor-parallel region. It starts with a column-parallel linear and ends with a
// row-parallel one, whose bias is added outside, with dropout and residual.

#include <memory>

#include "phalanx/nn/region_entry.h"

namespace phalanx::nn {

class SublayerBody : public RegionBody {
 public:
  // y [s, b, h]: this rank's partial sum of the last linear, without bias. y and `entered` may be
  // the same tensor: a body reads all of it before it writes.
  virtual void forward(BodyCall& call, const Tensor& y, const Tensor& entered) const = 0;
  // Recomputes the tensors of forward that backward reads.
  virtual void recompute(BodyCall& call, const Tensor& entered) const = 0;
  // Computes, from call.exit_gradient, the output gradient of the first linear and saves it.
  virtual void backward_to_entry(BodyCall& call) const = 0;

  // Whether a weight gradient reads the output gradient of the last linear.
  virtual bool exit_trains() const = 0;
  // The bias of the last linear; -1: it has none.
  virtual ParamId exit_bias() const = 0;
  virtual DropoutPlace exit_dropout() const = 0;
};

// What a Transformer layer adds to the residual stream: one of its sub-layers.
class ResidualSublayer {
 public:
  virtual ~ResidualSublayer() = default;
  // Tensors of the residual stream. `dout` and `dx` may be the same tensor.
  virtual void forward(BodyCall call, const Tensor& out, const Tensor& x) const = 0;
  virtual void recompute(BodyCall call, const Tensor& x) const = 0;
  virtual void backward_input(BodyCall call, const Tensor& dx, const Tensor& dout,
                              const Tensor& x) const = 0;
  virtual void backward_weight(BodyCall call, const Tensor& x,
                               const Gradients& gradients) const = 0;
  // Both.
  virtual void backward(BodyCall call, const Tensor& dx, const Tensor& dout, const Tensor& x,
                        const Gradients& gradients) const {
    backward_input(call, dx, dout, x);
    backward_weight(call, x, gradients);
  }
  // The last pass that reads x.
  virtual LastReader input_last_reader() const = 0;
};

class Sublayer final : public ResidualSublayer {
 public:
  // `name`: the body's last linear, for saved tensors; `layer` counts within the stack.
  Sublayer(const Norm& norm, std::unique_ptr<SublayerBody> body, SavedSlots& slots,
           const std::string& name, std::int64_t layer, const TransformerConfig& config);

  void forward(BodyCall call, const Tensor& out, const Tensor& x) const override;
  void recompute(BodyCall call, const Tensor& x) const override;
  void backward_input(BodyCall call, const Tensor& dx, const Tensor& dout,
                      const Tensor& x) const override;
  void backward_weight(BodyCall call, const Tensor& x, const Gradients& gradients) const override;
  // Weight gradients are computed while the messages of the input gradient are sent.
  void backward(BodyCall call, const Tensor& dx, const Tensor& dout, const Tensor& x,
                const Gradients& gradients) const override;
  LastReader input_last_reader() const override { return last_reader_if(body_->entry_trains()); }

 private:
  bool is_post() const { return post_norm_.has_value(); }
  Dropout dropout(const Pass& pass) const;
  // The part of backward_input before the entry. Returns the gradient of the sum of x and body.
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
