#pragma once
// The router of a mixture of experts: logits of all experts for each token, the choice, and the
// probabilities of the chosen. The product is in full precision whatever the storage type. The
// choice is made once: recomputation keeps it. Works on rows of the residual stream.
//
// Training counts the tokens that each expert was given (nn/router_state.h). From the counts of a
// step comes the update of the expert bias, which takes part in the choice alone.

#include <string>
#include <vector>

#include "phalanx/nn/param_table.h"
#include "phalanx/nn/router_losses.h"

namespace phalanx::nn {

class Router {
 public:
  // Parameter WEIGHT [E, h]. Saved: logits [T, E], experts and probabilities [T, k]. `name`: under
  // which it counts, with the state NAME.expert_bias [E] where there is a bias; empty: it does not
  // count, has no bias and no jitter. `layer` counts within the stack.
  Router(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
         const std::string& weight, const TransformerConfig& config, const std::string& name = {},
         std::int64_t layer = 0);

  // Chooses experts for the tokens x [T, h], counts them, and adds the router's losses.
  void forward(Pass& pass, const Tensor& x, const Saved& saved) const;
  // [T, k], i32: rising in a row; negative where the pair was dropped.
  const Tensor& experts(const Saved& saved) const { return saved[experts_]; }
  // [T, k], full precision; 0 where the pair was dropped.
  const Tensor& probabilities(const Saved& saved) const { return saved[probabilities_]; }
  // Adds the gradient of x to dx [T, h], full precision; dprobabilities [T, k].
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities,
                      const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& x, const Saved& saved,
                       const Gradients& gradients) const;
  bool trains() const { return trains_; }

 private:
  // x itself, or a copy in full precision in scratch of the enclosing WorkspaceScope.
  Tensor full(Pass& pass, const Tensor& x) const;
  // The same, times the jitter of training.
  Tensor input(Pass& pass, const Tensor& x) const;
  bool jitters(const Pass& pass) const {
    return id_ >= 0 && config_.experts.input_jitter > 0.0 && pass.training;
  }
  void jitter(Pass& pass, const Tensor& y, const Tensor& x) const;
  void choose(Pass& pass, const Tensor& logits, const Saved& saved) const;
  void drop(Pass& pass, const Saved& saved) const;
  void count(Pass& pass, const Saved& saved) const;

  const TransformerConfig config_;
  ParamId weight_, bias_;
  RouterId id_;
  std::int64_t layer_;
  bool trains_;
  RouterLosses losses_;
  SavedId logits_, dlogits_, experts_, probabilities_;
};

}  // namespace phalanx::nn
