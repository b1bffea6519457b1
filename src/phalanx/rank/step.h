#pragma once
// A training step: what a rank is told of it, and what the rank reports of it.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/data/host_batch.h"

namespace phalanx {

// Over the global batch.
struct LossResult {
  double mean = 0.0;
  // What the sum was divided by: unmasked tokens, or samples for a loss of whole samples; with
  // --loss-average microbatch the number of microbatches.
  double count = 0.0;
};

// How a router has used the experts of its layer in the training passes of a step.
struct RouterLoad {
  std::string name;           // of the router: "decoder.layers.3.mlp.router"
  double most_to_mean = 0.0;  // the most used expert's tokens, over the mean of all experts
  double dropped = 0.0;       // of all pairs of a token and an expert: the share that was dropped
  struct Range {
    double least = 0.0, most = 0.0;
  };
  std::optional<Range> bias = {};  // of the experts, where they have one: that of the step's passes
};

// The results of an iteration, read back to the host.
struct StepResult {
  std::vector<LossResult> losses;  // in the model's order
  double loss() const { return losses.front().mean; }
  double tokens() const { return losses.front().count; }  // with --loss-average token
  // Of training: means over microbatches and layers, in the model's order.
  std::vector<double> auxiliary_losses = {};
  // Of training, by layer with experts, of the whole model. Where one program runs several
  // iterations, the last one has that of all.
  std::vector<RouterLoad> router_loads = {};
  // Of the whole model. NaN under an asynchronous schedule, where stages update at different times.
  double grad_norm = 0.0;
  double zeros_in_grad = 0.0;  // with --log-num-zeros-in-grad
  // With --log-params-norm: of the whole model after the update. Where one program runs several
  // iterations, the last one has it.
  std::optional<double> parameters_norm = std::nullopt;
  // Of an evaluation: what the family's EvaluationScores count; the sum over all ranks.
  std::vector<double> counts = {};
  bool skipped = false;  // a gradient, or a loss that is checked, was not finite: no update
};

struct StepSchedule {
  double lr = 0.0;
  std::optional<double> decoupled_lr = {};  // of the word table and the output layer; absent: lr
  double weight_decay = 0.0;
  std::int64_t adam_step = 1;  // of the iteration's first update
  double loss_scale = 1.0;
  // Of each data-parallel rank; 0: of the last global batch.
  std::int64_t microbatches = 0;
  // Of a rank that wants_loss_counts(), and reads batches: what each loss counts in this rank's
  // part of the global batch.
  std::vector<double> loss_counts = {};
};

// Asked once for every program, just before its first update is enqueued: the schedules of its
// iterations, of which rates, decay and Adam's count hold from then on. Nothing: no update changes
// anything, as where gradients are not finite.
using UpdateSource = std::function<std::optional<std::span<const StepSchedule>>()>;

// The microbatches of the iterations of a program, in order. A result is read before the next one
// is asked for. Only the first rank of a tensor-parallel group asks.
using BatchSource = std::function<const HostBatch&(int microbatch)>;

}  // namespace phalanx
