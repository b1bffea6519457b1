#pragma once
// A sub-layer whose body works on the rows of the residual stream that this rank has, without
// entering a tensor-parallel region: out = x + dropout(body(norm(x))). A body may still exchange
// rows with other ranks itself.

#include <memory>
#include <string>

#include "phalanx/nn/norm.h"
#include "phalanx/nn/sublayer.h"

namespace phalanx::nn {

// Tensors are rows of the stream [s, b, h].
class StreamBody {
 public:
  virtual ~StreamBody() = default;
  virtual void forward(BodyCall& call, const Tensor& y, const Tensor& x) const = 0;
  // Recomputes the tensors of forward that backward reads.
  virtual void recompute(BodyCall& call, const Tensor& x) const = 0;
  // Whether backward_input reads x.
  virtual bool backward_input_reads(const Pass& /*pass*/) const { return false; }
  // The gradient of x, from call.exit_gradient. `x`: recomputed, or absent if it is not read.
  virtual void backward_input(BodyCall& call, const Tensor& dx, const Tensor& x) const = 0;
  // `x`: recomputed.
  virtual void backward_weight(BodyCall& call, const Tensor& x,
                               const Gradients& gradients) const = 0;
  // Whether backward_weight does anything.
  virtual bool trains() const = 0;
};

class StreamSublayer final : public ResidualSublayer {
 public:
  // Pre-norm only. `name`: the body's output, for saved tensors; `layer` counts within the stack.
  StreamSublayer(const Norm& norm, std::unique_ptr<StreamBody> body, SavedSlots& slots,
                 const std::string& name, std::int64_t layer, const TransformerConfig& config);

  void forward(BodyCall call, const Tensor& out, const Tensor& x) const override;
  void recompute(BodyCall call, const Tensor& x) const override;
  void backward_input(BodyCall call, const Tensor& dx, const Tensor& dout,
                      const Tensor& x) const override;
  void backward_weight(BodyCall call, const Tensor& x, const Gradients& gradients) const override;
  LastReader input_last_reader() const override { return last_reader_if(body_->trains()); }

 private:
  Dropout dropout(const Pass& pass) const;
  Tensor scratch(const Pass& pass) const {
    return pass.scratch_stream(config_.dtype, config_.hidden);
  }

  const TransformerConfig config_;
  std::int64_t layer_;
  Norm norm_;
  std::unique_ptr<StreamBody> body_;
  SavedId exit_gradient_;
};

}  // namespace phalanx::nn
