#pragma once
// From the residual stream into a tensor-parallel region and back: norm -> enter -> body. This is
// the first half of a sub-layer (nn/sublayer.h) and all of a head. A body implements the steps of
// its backward pass. The entry calls them in one of two orders with the same bits: separately
// (backward_input, backward_weight), or together, so that weight gradients are computed while the
// messages of the input gradient are sent.

#include <optional>

#include "phalanx/nn/inference_pass.h"
#include "phalanx/nn/norm.h"

namespace phalanx::nn {

// The inputs of every step of a body.
struct BodyCall {
  Pass& pass;
  const Saved& saved;
  // Backward of a sub-layer: the gradient of its last linear's output [s, b, h].
  Tensor exit_gradient = {};
  // The encoder's output on this rank, for cross attention, and the gradient to which
  // backward_to_entry() adds.
  Tensor carried = {};
  Tensor carried_gradient = {};
  std::span<KeyValueCache* const> caches = {};  // generation only
};

// The computation inside a region. It starts with a column-parallel linear.
class RegionBody {
 public:
  virtual ~RegionBody() = default;
  // Whether entry_weight_gradient() reads the entered rows: the first linear's weight is trained.
  virtual bool entry_trains() const { return true; }
  // The gradients of the first linear. dentered [s, b, h] is this rank's partial sum over its
  // features; `entered` are the linear's recomputed input rows.
  virtual void entry_input_gradient(BodyCall& call, const Tensor& dentered) const = 0;
  // `entered` is absent unless entry_trains().
  virtual void entry_weight_gradient(BodyCall& call, const Tensor& entered,
                                     const Gradients& gradients) const = 0;
  // The weight gradients of all other linears, which do not read the entered rows.
  virtual void exit_weight_gradient(BodyCall& /*call*/, const Gradients& /*gradients*/) const {}
};

class RegionEntry {
 public:
  // Without a norm the stream enters unchanged.
  RegionEntry(const std::optional<Norm>& norm, const TransformerConfig& config);

  // The region's rows [s, b, h]: scratch of the enclosing WorkspaceScope, which a body may
  // overwrite with its output, or x itself if is_stream().
  Tensor forward(Pass& pass, const Tensor& x, const Saved& saved) const;
  bool is_stream() const { return !norm_ && !config_.tensor.sequence; }

  // dx = gradient + residual (optional); `x` as in forward.
  void backward_input(BodyCall& call, const RegionBody& body, const Tensor& dx, const Tensor& x,
                      const Tensor& residual) const;
  void backward_weight(BodyCall& call, const RegionBody& body, const Tensor& x,
                       const Gradients& gradients) const;
  // Both backward passes.
  void backward(BodyCall& call, const RegionBody& body, const Tensor& dx, const Tensor& x,
                const Tensor& residual, const Gradients& gradients) const;

 private:
  // The region's rows as in forward, if the body reads them; complete when `work` is done.
  struct Entering {
    Tensor rows;
    Work work;
  };
  Entering enter_again(Pass& pass, const RegionBody& body, const Tensor& x,
                       const Saved& saved) const;
  void to_stream(BodyCall& call, const Tensor& dx, const Tensor& dentered, const Tensor& x,
                 const Tensor& residual) const;

  const TransformerConfig config_;
  std::optional<Norm> norm_;
};

}  // namespace phalanx::nn
