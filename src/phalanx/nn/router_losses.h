#pragma once
// The losses of a router (RouterLoss): values that training adds to Pass::auxiliary, and their
// gradients. N tokens of a microbatch, of which this rank may have a part; E experts, k for a
// token; f_i: how many tokens have expert i among the k best; P_i: the sum of balance scores
// (ops/balance.h).
//
//   kBalance          E / (k N^2) sum_i f_i P_i: 1 if all experts are used equally
//   kSequenceBalance  the same of each sequence, the mean over sequences
//   kGlobalBalance    the same of all ranks that have other samples, too, so N tokens of a
//                     microbatch on all of them; f is a mean over the step's microbatches up to
//                     this one (passes forward run in their order in every schedule), and P of this
//                     microbatch
//   kLogits           1 / N sum over tokens of logsumexp(logits)^2

#include <vector>

#include "phalanx/nn/config.h"
#include "phalanx/nn/pass.h"

namespace phalanx::nn {

class RouterLosses {
 public:
  // Saved: the counts f of each balancing loss, of all ranks that share the microbatch.
  // Those of kGlobalBalance are of the microbatches up to the pass's.
  RouterLosses(SavedSlots& slots, RouterId router, const TransformerConfig& config);

  // Logits [T, E] of this rank's tokens. Ranks that share the microbatch add their parts.
  void add(Pass& pass, const Tensor& logits, const Saved& saved) const;
  // For ops::RouterBackward; `dscores` is scratch of the enclosing WorkspaceScope, or absent.
  struct Gradient {
    Tensor dscores;
    double z_loss = 0.0;
  };
  Gradient gradient(Pass& pass, const Saved& saved) const;

 private:
  // Of a balancing loss: how many sequences have counts of their own.
  static std::int64_t sequences(const RouterLoss& loss, const BatchShape& shape) {
    return loss.kind == RouterLoss::Kind::kSequenceBalance ? shape.micro_batch : 1;
  }
  // What the sum of f P, or of squares, is multiplied by, for a mean over the microbatches of all
  // ranks.
  double factor(const RouterLoss& loss, const Pass& pass) const;
  // How many ranks have other samples.
  static int sample_ranks(const Pass& pass);
  // Sums over the ranks whose tokens the loss counts together.
  static void sum_over_tokens(Pass& pass, const RouterLoss& loss, const Tensor& counts);
  std::int64_t experts() const { return config_.experts.experts; }

  const TransformerConfig config_;
  const RouterId router_;
  std::vector<SavedId> counts_;  // by loss; -1: kLogits
};

}  // namespace phalanx::nn
