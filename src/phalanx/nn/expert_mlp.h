#pragma once
// The MLP of a layer with experts, as the body of a sub-layer: a router, the experts that it
// chooses, and a shared expert that computes all tokens.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/nn/experts.h"
#include "phalanx/nn/router.h"
#include "phalanx/nn/shared_expert.h"
#include "phalanx/nn/stream_sublayer.h"

namespace phalanx::nn {

class ExpertMlp final : public StreamBody {
 public:
  // `layer` counts within the stack. Parameters PREFIX.mlp.router, PREFIX.mlp.experts and
  // PREFIX.mlp.shared_experts.
  ExpertMlp(ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots,
            const std::string& prefix, const TransformerConfig& config, std::int64_t layer = 0);

  void forward(BodyCall& call, const Tensor& y, const Tensor& x) const override;
  void recompute(BodyCall& call, const Tensor& x) const override;
  bool backward_input_reads(const Pass& pass) const override {
    return experts_.backward_input_reads(pass);
  }
  void backward_input(BodyCall& call, const Tensor& dx, const Tensor& x) const override;
  void backward_weight(BodyCall& call, const Tensor& x, const Gradients& gradients) const override;
  bool trains() const override {
    return router_.trains() || experts_.trains() || (shared_ && shared_->trains());
  }

 private:
  Routing routing(const Saved& saved) const {
    return {.experts = router_.experts(saved), .probabilities = router_.probabilities(saved)};
  }

  const TransformerConfig config_;
  Router router_;
  Experts experts_;
  std::optional<SharedExpert> shared_;
};

// The sub-layer with its norm; `layer` counts within the stack.
std::unique_ptr<const ResidualSublayer> expert_sublayer(
    ParamTable& table, std::vector<ParamId>& owned, SavedSlots& slots, const std::string& prefix,
    std::int64_t layer, const TransformerConfig& config);

}  // namespace phalanx::nn
