#pragma once
// The experts of a layer: MLPs of which each computes the tokens that a router has given it. On
// this rank all experts are whole, and tokens stay where they are: pairs of a token and an expert
// are sorted by expert, so that a product over all experts is one op. y_t = sum over the chosen
// experts i of p_ti expert_i(x_t); p multiplies what fc2 reads, and its bias. Works on rows of the
// residual stream.

#include <functional>
#include <string>
#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/param_table.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

// The choice of a router for the tokens of a pass, [T, k] (nn/router.h).
struct Routing {
  Tensor experts;        // i32
  Tensor probabilities;  // full precision
};

class Experts {
 public:
  // Parameters NAME.i.linear_fc1.weight [f or 2f, h] and NAME.i.linear_fc2.weight [h, f] of every
  // expert i, and biases where linears have them. Saved: the order of pairs and fc1's output; the
  // weight pass gathers rows and activates them again.
  Experts(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
          const std::string& name, const TransformerConfig& config);

  // x and y: [T, h].
  void forward(Pass& pass, const Tensor& y, const Tensor& x, const Routing& routing,
               const Saved& saved) const;
  // Recomputes the tensors of forward that backward reads.
  void recompute(Pass& pass, const Tensor& x, const Routing& routing, const Saved& saved) const;
  // Writes dx [T, h] and dprobabilities [T, k], both in full precision.
  void backward_input(Pass& pass, const Tensor& dx, const Tensor& dprobabilities, const Tensor& dy,
                      const Routing& routing, const Saved& saved) const;
  void backward_weight(Pass& pass, const Tensor& dy, const Tensor& x, const Routing& routing,
                       const Saved& saved, const Gradients& gradients) const;
  bool trains() const { return fc1_.trains || fc2_.trains; }

 private:
  // One linear of each expert.
  struct Linears {
    std::vector<ParamId> weights, biases;  // by expert of this rank; no biases: empty
    bool trains = false;
  };
  // The part of a parameter of this name that this rank holds.
  using SpecMaker = std::function<ParamSpec(std::string name)>;
  // The parameters of this rank's experts, with their numbers in the layer.
  Linears add_linears(ParamTable& table, std::vector<ParamId>& owned, const std::string& name,
                      const std::string& linear, const SpecMaker& make_weight,
                      const SpecMaker& make_bias) const;
  Linears add_fc1(ParamTable& table, std::vector<ParamId>& owned, const std::string& name) const;
  Linears add_fc2(ParamTable& table, std::vector<ParamId>& owned, const std::string& name) const;
  // The parameters of this rank's experts as one tensor, [experts, ...].
  static Tensor weights(const Pass& pass, const std::vector<ParamId>& ids);
  static void add_gradients(Pass& pass, const Linears& linears, const Tensor& dy, const Tensor& x,
                            const Tensor& offsets, const Tensor& bias_factors,
                            const Gradients& gradients);
  std::int64_t fc1_width() const { return (config_.gated ? 2 : 1) * config_.experts.ffn_hidden; }

  // Scratch of the enclosing WorkspaceScope: the rows of pairs, of x or of y's gradient; their
  // probabilities; what fc2 reads.
  Tensor gathered(Pass& pass, const Tensor& of_tokens, const Saved& saved) const;
  Tensor row_probabilities(Pass& pass, const Routing& routing, const Saved& saved) const;
  Tensor activated(Pass& pass, const Tensor& probabilities, const Saved& saved) const;

  const TransformerConfig config_;
  Linears fc1_, fc2_;
  SavedId offsets_, pair_of_row_, row_of_pair_, fc1_output_, dfc1_output_;
};

}  // namespace phalanx::nn
