#pragma once
// What a run reports of a training iteration: the fields of the log, of metrics.jsonl and of
// TensorBoard. train/run_log.cc fills them in.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/named_loss.h"

namespace phalanx {

// One of Megatron's timers: seconds on every rank, the mean of iterations; 0 where it never ran.
struct TimerRow {
  std::string name;  // "forward-compute"
  std::vector<double> seconds;
};

// How busy the experts of layers are in an iteration.
struct ExpertLoads {
  struct Bias {
    double least = 0, most = 0;
  };
  struct Layer {
    std::string name;         // "decoder.layers.3"
    double most_to_mean = 0;  // the busiest expert's tokens, over the mean of the layer's experts
    double dropped = 0;       // the share of the pairs of a token and an expert that were dropped
    std::optional<Bias> bias = {};  // of the choice, if there is one
  };
  double worst = 0;    // `most_to_mean` of the worst layer
  double mean = 0;     // its mean over the layers
  double dropped = 0;  // of all layers
  std::optional<Bias> bias = {};
  std::vector<Layer> layers = {};  // with --moe-per-layer-logging
};

// A part of a step's seconds.
struct StepPart {
  std::string name;  // "products"
  double predicted = 0;
  double measured = 0;
};
// The part in which prediction and measurement differ most; null: there are no parts.
const StepPart* farthest_off(const std::vector<StepPart>& parts);

// A training iteration that is done. Learning rate and loss scale are those after it.
struct IterationReport {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t tokens = 0;
  double model_flops = 0;     // without recomputation, as performance tables count
  double hardware_flops = 0;  // that all ranks compute, recomputation included
  std::vector<NamedLoss> losses;
  double learning_rate = 0;
  std::optional<double> decoupled_learning_rate;  // of the input and the output layer
  double loss_scale = 1;
  double grad_norm = 0;  // before clipping; NaN where none was computed
  std::optional<double> zeros_in_gradients;
  std::optional<double> parameters_norm;
  std::optional<ExpertLoads> expert_loads = {};  // of a model with experts
  std::int64_t skipped_samples = 0;  // consumed samples of iterations that were left out
  bool skipped = false;              // nothing was updated
  double seconds = 0;                // without evaluation and checkpoints
  // Parts of `seconds` on the first rank: reading data, and waiting for messages of any group.
  double data_seconds = 0;
  double message_seconds = 0;
  std::optional<double> file_seconds = {};  // waiting for files, if states are in files
  double saving_seconds = 0;                // since the last iteration; not part of `seconds`
  // Where a save has begun since the last iteration, or was under way in this one: how long the
  // first rank stood for it, which is `saving_seconds` and the part of `seconds` that its update
  // copied or waited. And the bytes of a save that has begun, of all ranks.
  std::optional<double> snapshot_seconds = {};
  std::optional<std::int64_t> save_bytes = {};
  // With --cluster: of an iteration as this one, and at --log-interval of its parts beside what the
  // iterations since the last log line took, where these are measured.
  std::optional<double> predicted_seconds = {};
  std::vector<StepPart> parts = {};
  // At --log-interval with --timing-log-level 1 or 2: since the last log line.
  std::vector<TimerRow> times;
  std::int64_t peak_bytes = 0;  // the arenas' high-water mark, the most of any rank
  std::int64_t rss_bytes = 0;   // the process's peak of resident memory
  bool is_logged = false;       // at --log-interval: lines are printed
};

}  // namespace phalanx
