#pragma once
// The MLP as the body of a sub-layer: fc2(f(fc1(x) + bias)), or gated: fc2(f(gate) up) with both
// halves from one fc1 (ops/activation.h). fc1 is column-parallel, fc2 row-parallel; the activation
// needs no message. Saved: fc1's output; the weight pass recomputes the activation.

#include <string>
#include <vector>

#include "phalanx/nn/adapters.h"
#include "phalanx/nn/linear.h"
#include "phalanx/nn/sublayer.h"

namespace phalanx::nn {

class Mlp final : public SublayerBody {
 public:
  // `prefix` names the layer ("decoder.layers.3"), which counts within the stack.
  Mlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& prefix,
      std::int64_t layer, const TransformerConfig& config);

  void forward(BodyCall& call, const Tensor& y, const Tensor& entered) const override;
  void recompute(BodyCall& call, const Tensor& entered) const override;
  void backward_to_entry(BodyCall& call) const override;
  void entry_input_gradient(BodyCall& call, const Tensor& dentered) const override;
  void entry_weight_gradient(BodyCall& call, const Tensor& entered,
                             const Gradients& gradients) const override;
  void exit_weight_gradient(BodyCall& call, const Gradients& gradients) const override;
  bool entry_trains() const override { return fc1_.trains_weight() || fc1_adapters_.reads_input(); }
  bool exit_trains() const override {
    return fc2_.trains() || fc2_adapters_.reads_output_gradient();
  }
  ParamId exit_bias() const override { return fc2_.bias(); }
  DropoutPlace exit_dropout() const override { return DropoutPlace::kMlpOutput; }

 private:
  // fc1.
  void enter(BodyCall& call, const Tensor& entered) const;
  // fc2's input, recomputed from fc1's output into scratch of the enclosing WorkspaceScope.
  Tensor activated_again(Pass& pass, const Saved& saved) const;

  // Whether the weight pass reads fc2's input.
  bool exit_reads_input() const { return fc2_.trains_weight() || fc2_adapters_.reads_input(); }

  const TransformerConfig config_;
  Linear fc1_;
  Adapters fc1_adapters_;
  Linear fc2_;
  Adapters fc2_adapters_;
  SavedId fc1_output_, dfc1_output_;
};

// The sub-layer with its norm; `layer` counts within the stack.
Sublayer mlp_sublayer(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
                      const std::string& prefix, std::int64_t layer,
                      const TransformerConfig& config);

}  // namespace phalanx::nn
