#pragma once
// What a run takes from a checkpoint, and whether it may go on with it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/data/sample_counts.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/state_loader.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/run_length.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// The counters of a run beside its tensors.
struct RunState : RunPosition {
  std::int64_t schedule_samples = 0;  // consumed by successful updates
  std::int64_t adam_step = 0;         // successful updates
  std::int64_t left_out_samples = 0;  // consumed by iterations that were left out
  LossScaler::State loss_scaler;
  SampleCounts requested;  // what the datasets were built for
  LoadFacts loading;       // nothing, where the run began anew
};

// Thrown on all ranks where one cannot read the checkpoint: another one may do.
struct UnreadableCheckpoint {
  RefusedCheckpoint checkpoint;
};

// Whether the run begins from --pretrained-checkpoint because --load has nothing; and the settings
// of such a new run. IoError, DataError where the directory cannot be read.
bool begins_pretrained(const RunConfig& run);
TrainConfig from_pretrained(TrainConfig config);

// The checkpoint that --load names (or its --ckpt-step), but none of `refused`; null, with a
// warning, where nothing has been saved there yet. Tensors are verified when they are loaded, files
// besides them now.
std::shared_ptr<CheckpointReader> open_checkpoint(const RunConfig& run,
                                                  std::span<const RefusedCheckpoint> refused = {});
// The checkpoint that another process has chosen in this way. `verified`: whether to verify the
// files besides tensors again. DataError where it is one of `refused`.
std::shared_ptr<CheckpointReader> open_checkpoint_at(
    const RunConfig& run, const std::string& directory, bool verified,
    std::span<const RefusedCheckpoint> refused = {});

// A manifest has this argument where the evaluation of its iteration was given up.
inline constexpr std::string_view kDueEvaluation = "run.evaluation_is_due";

// And this one where samples were left out: how many.
inline constexpr std::string_view kLeftOutSamples = "run.left_out_samples";

// Where a run that resumes from the checkpoint begins.
RunPosition position_of(const Manifest& manifest);

// ConfigError where the run goes on with the optimizer's state and does not train the parameters
// that have one.
void check_trained(const TrainConfig& config, const Model& model, const Manifest& manifest);
// ConfigError where the checkpoint has weights that the model does not have: they would be lost.
void check_tensors(const TrainConfig& config, const Model& model, const Manifest& manifest);

// Fills the rank's parts of weights (and of optimizer states, unless they are absent or not wanted)
// and returns the counters. All ranks call it at the same time. UnreadableCheckpoint.
RunState load_run(const TrainConfig& config, const CheckpointReader& reader, Rank& rank);

}  // namespace phalanx
