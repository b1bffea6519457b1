#pragma once
// The shared expert of a layer with experts: a dense MLP without biases that computes all tokens,
// y += fc2(f(fc1(x))), or with a gate y += sigmoid(x . g) fc2(f(fc1(x))). It is cut over the
// tensor-parallel group and enters a region of its own. The gate is a router of one expert.

#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/linear.h"
#include "phalanx/nn/router.h"

namespace phalanx::nn {

class SharedExpert {
 public:
  // Parameters NAME.linear_fc1.weight, NAME.linear_fc2.weight and NAME.gate_weight [1, h].
  SharedExpert(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
               const std::string& name, const TransformerConfig& config);

  // Adds to y; x and y are rows of the stream [s, b, h].
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Saved& saved) const;
  void recompute(Pass& pass, const Tensor& x, const Saved& saved) const;
  // Adds to dx, which is in full precision.
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dy, const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                       const Gradients& gradients) const;
  bool trains() const { return fc1_.trains() || fc2_.trains() || (gate_ && gate_->trains()); }

 private:
  // The region's rows [s, b, h] of rows of the stream: these themselves, or scratch of the
  // enclosing WorkspaceScope.
  Tensor entered(Pass& pass, const Tensor& x) const;
  // What fc2 reads, in scratch.
  Tensor activated(Pass& pass, const Saved& saved) const;
  // fc2's output of this rank's rows of the stream, in scratch.
  Tensor output(Pass& pass, const Saved& saved) const;
  // to = the gate's probability of a row times `from`. Rows of the stream.
  void multiply_by_gate(Pass& pass, const Tensor& to, const Tensor& from, const Saved& saved) const;
  // The gate's gradient by its probability, [rows, 1] in scratch.
  Tensor gate_gradient(Pass& pass, const Tensor& dy, const Saved& saved) const;

  const TransformerConfig config_;
  Linear fc1_, fc2_;
  std::optional<Router> gate_;
  SavedId fc1_output_, dfc1_output_, doutput_;
  SavedId output_ = -1;  // with a gate
};

}  // namespace phalanx::nn
