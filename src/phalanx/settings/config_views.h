#pragma once
// What follows from a resolved configuration: the values that other rooms are built from.

#include <cstdint>
#include <vector>

#include "phalanx/mesh/rank_grid.h"
#include "phalanx/model/gpt.h"
#include "phalanx/model/stage_plan.h"
#include "phalanx/optim/loss_scaler.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/settings/batch_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether the model has an encoder and a decoder, once its family has said how many layers.
bool has_decoder(const ModelConfig& model);

RankGrid rank_grid(const LayoutConfig& layout);
// Ranks that one copy of the model takes.
std::int64_t ranks_of_model(const LayoutConfig& layout);
// Ranks that share the cores of this machine.
std::int64_t ranks_on_machine(const LayoutConfig& layout);
std::int64_t data_parallel_size(const LayoutConfig& layout);
// The stage of ZeRO that the ways to say it come to.
std::int64_t zero_stage(const LayoutConfig& layout);
// Samples that a microbatch of every data-parallel rank makes together.
std::int64_t samples_per_microbatch(const LayoutConfig& layout);
// Of one data-parallel rank, in an iteration with this global batch.
std::int64_t num_microbatches(const LayoutConfig& layout, std::int64_t global_batch);
// Likewise with the run's last batch, with which it also evaluates.
std::int64_t num_microbatches(const LayoutConfig& layout);
// The global batches of a run, with --decrease-batch-size-if-needed as they are trained.
// ConfigError where a flag makes no sense by itself. --global-batch-size may be 0 where
// --step-batch-size-schedule says it.
BatchSchedule batch_schedule(const TrainConfig& config);
// Whether weights are stale in a run of the layout's schedule.
bool is_asynchronous(const LayoutConfig& layout);
// What the schedule is asked for, with so many microbatches in each of the iterations.
ScheduleRequest schedule_request(const LayoutConfig& layout, std::int64_t microbatches,
                                 int iterations = 1);
// Updates that an iteration of so many microbatches is.
std::int64_t updates_per_iteration(const LayoutConfig& layout, std::int64_t microbatches);
// The layers of every stage: as the flags say for the first and the last rank of a pipeline, and
// of equal numbers elsewhere, or one less on some. A rank's chunks share its layers out evenly.
std::vector<std::int64_t> stage_layers(const TrainConfig& config, const Placement& placement);
// The part of the model that every stage has. ConfigError where an encoder and a decoder do not
// come out even.
std::vector<StageRange> stage_ranges(const TrainConfig& config, const Placement& placement);
// The first of a head's dimensions that rotate, of a model whose heads' size is known.
std::int64_t rotary_dimensions(const ModelConfig& model);
// What all stacks of the model have in common, as a causal decoder has it, at the first place of a
// tensor-parallel group.
nn::TransformerConfig transformer_config(const TrainConfig& config);
RecomputePlan recompute_plan(const TrainConfig& config);
// Ids of the model: --model-vocab-size, or the tokenizer's size. ConfigError where the first is
// given and less.
std::int64_t model_vocabulary(const TrainConfig& config, std::int64_t tokenizer_size);
// Of the model's ids.
std::int64_t padded_vocabulary(const TrainConfig& config, std::int64_t vocabulary);
// The model is that of the first rank of a tensor-parallel group, and a Rank puts it in its own
// place.
GptConfig gpt_config(const TrainConfig& config, std::int64_t tokenizer_size);
LossScaler loss_scaler(const TrainConfig& config);
// Whether a loss or gradient that is not finite ends the run. Not where a loss scale may be the
// reason, nor where the flags say that its step is skipped.
bool checks_for_nan(const TrainConfig& config);
// The numbers of --iterations-to-skip. ConfigError where a word is none.
std::vector<std::int64_t> iterations_to_skip(const RunConfig& run);
OptimizerSettings optimizer_settings(const OptimizerConfig& optimizer);
ParameterSchedule parameter_schedule(const TrainConfig& config);

}  // namespace phalanx
