#pragma once
// Settings of layers whose MLP is a mixture of experts: each token is computed by the k experts
// that a router chooses for it, and by a shared expert if there is one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "phalanx/ops/router.h"

namespace phalanx::nn {

// A loss that makes the router use all experts equally, or keeps its logits small.
struct RouterLoss {
  enum class Kind : std::uint8_t {
    kBalance,          // of the tokens of a microbatch
    kSequenceBalance,  // of each sequence, the mean over sequences
    kGlobalBalance,    // of all ranks' tokens of the step's microbatches so far
    kLogits,           // the mean square of the logsumexp (z-loss)
  };
  Kind kind = Kind::kBalance;
  double coefficient = 0.0;
};

// How tokens get to the ranks of their experts (nn/dispatch.h).
enum class TokenDispatch : std::uint8_t {
  kAllToAll,   // each token's row to the ranks of its experts
  kAllGather,  // all tokens to all ranks
};

// How a router chooses the experts of a token.
enum class ExpertChoice : std::uint8_t {
  kScores,    // those with the best scores (ops/router.h)
  kSinkhorn,  // in training by Sinkhorn's iteration, which gives all experts about equal work;
              // else those with the best scores
  kForced,    // in turn, whatever the scores are: equal work for all, for benchmarks
};

struct ExpertSettings {
  std::int64_t experts = 0;  // of a layer; 0: no layer has any
  std::int64_t chosen = 1;   // of a token: k
  std::int64_t ffn_hidden = 0;
  std::vector<bool> layers = {};  // those with experts; empty: all
  ops::RouterRule rule = {};
  ExpertChoice choice = ExpertChoice::kScores;
  // Choice scores have a bias, which each step moves by bias_rate (ops::ExpertBiasUpdate).
  bool bias = false;
  double bias_rate = 1e-3;
  // In training the router's input is multiplied by factors between 1 - this and 1 + this.
  double input_jitter = 0.0;
  // So many neighbours have one row of the router's initial weights: the parts of a copy of a dense
  // model's MLP, which are chosen together.
  std::int64_t row_copies = 1;
  // In the order of Pass::auxiliary.
  std::vector<RouterLoss> losses = {};
  // Of the pairs of a token and an expert an expert computes the equal share of this rank's, times
  // this factor; 0: all of them.
  double capacity_factor = 0.0;
  ops::DropPolicy drop_policy = ops::DropPolicy::kProbability;
  // Every expert computes as many rows of each rank as its capacity, some of them zeros.
  bool pad_to_capacity = false;
  // Between ranks that share out experts.
  TokenDispatch dispatch = TokenDispatch::kAllToAll;
  // Of kAllToAll without padding: experts compute rounds of this many times the rows that a rank
  // has where all experts have equally many.
  double planned_imbalance = 2.0;
  std::int64_t shared_ffn_hidden = 0;  // of the shared expert; 0: there is none
  bool shared_gate = false;            // its output is multiplied by a sigmoid

  bool has_loss(RouterLoss::Kind kind) const {
    return std::ranges::find(losses, kind, &RouterLoss::kind) != losses.end();
  }
  bool in_layer(std::int64_t layer) const {
    return experts > 0 && (layers.empty() || layers[static_cast<std::size_t>(layer)]);
  }
  // Of a stack of `stack` layers.
  std::int64_t num_layers(std::int64_t stack) const {
    if (experts == 0) return 0;
    return layers.empty() ? stack : std::ranges::count(layers, true);
  }
};

}  // namespace phalanx::nn
