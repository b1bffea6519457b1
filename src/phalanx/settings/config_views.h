#pragma once
// What follows from a resolved configuration: the values that other rooms are built from.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/mesh/context_cut.h"
#include "phalanx/mesh/parallel_grids.h"
#include "phalanx/model/gpt.h"
#include "phalanx/model/stage_plan.h"
#include "phalanx/optim/loss_scaler.h"
#include "phalanx/optim/optimizer.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/settings/batch_schedule.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether the model has an encoder and a decoder, once its family has said how many layers.
bool has_decoder(const ModelConfig& model);

RankGrid rank_grid(const LayoutConfig& layout);
// Whether experts are arranged otherwise than dense layers: shared out among ranks, or cut over
// fewer or more of them.
bool has_expert_grid(const LayoutConfig& layout);
// The grid of dense layers, and that of experts if there is one. ConfigError as parallel_grids() of
// mesh/parallel_grids.h.
ParallelGrids parallel_grids(const LayoutConfig& layout);
// The number of ranks that hold one copy of the model.
std::int64_t ranks_of_model(const LayoutConfig& layout);
// The number of ranks that share the cores of this machine.
std::int64_t ranks_on_machine(const LayoutConfig& layout);
std::int64_t data_parallel_size(const LayoutConfig& layout);
// How samples are cut among context-parallel ranks, and how their attention exchanges keys.
ContextCut context_cut(const LayoutConfig& layout);
ContextParallel context_parallel(const LayoutConfig& layout);
// How many rows the documents of a packed sample are multiples of, so that they can be cut.
std::int64_t document_multiple(const LayoutConfig& layout);
// The number of ranks that have other rows for the same parameters, over which gradients are summed
// and states are cut: the data-parallel size times the context-parallel size.
std::int64_t data_and_context_size(const LayoutConfig& layout);
// The stage of ZeRO, from any of the flags that can set it.
std::int64_t zero_stage(const LayoutConfig& layout);
// The number of samples in one microbatch of all data-parallel ranks.
std::int64_t samples_per_microbatch(const LayoutConfig& layout);
// The number of microbatches of a data-parallel rank in an iteration with this global batch.
std::int64_t num_microbatches(const LayoutConfig& layout, std::int64_t global_batch);
// The same for the run's last batch, which evaluations use too.
std::int64_t num_microbatches(const LayoutConfig& layout);
// The global batches of a run; with --decrease-batch-size-if-needed, as they are trained.
// ConfigError if a flag has an impossible value. --global-batch-size may be 0 where
// --step-batch-size-schedule says it.
BatchSchedule batch_schedule(const TrainConfig& config);
// Whether weights are stale in a run of the layout's schedule.
bool is_asynchronous(const LayoutConfig& layout);
// The request to the schedule's generator, for `microbatches` microbatches in each iteration.
ScheduleRequest schedule_request(const LayoutConfig& layout, std::int64_t microbatches,
                                 int iterations = 1);
// The number of updates in an iteration with this many microbatches.
std::int64_t updates_per_iteration(const LayoutConfig& layout, std::int64_t microbatches);
// The number of layers of every stage: what the flags say for the first and the last rank of a
// pipeline; the other ranks have equal numbers, some of them one layer less. A rank's chunks share
// its layers out evenly.
std::vector<std::int64_t> stage_layers(const TrainConfig& config, const Placement& placement);
// The part of the model that every stage has. ConfigError if the layers of encoder and decoder
// cannot be divided over the stages.
std::vector<StageRange> stage_ranges(const TrainConfig& config, const Placement& placement);
// The number of a head's dimensions that rotate, once the size of the heads is known.
std::int64_t rotary_dimensions(const ModelConfig& model);
// The configuration of a causal decoder's stack, on the first rank of a tensor-parallel group. The
// other stacks of a model change what differs.
nn::TransformerConfig transformer_config(const TrainConfig& config);
RecomputePlan recompute_plan(const TrainConfig& config);
// The size of the model's vocabulary: --model-vocab-size, or the tokenizer's size. ConfigError if
// the flag is less than the tokenizer's size.
std::int64_t model_vocabulary(const TrainConfig& config, std::int64_t tokenizer_size);
// Whether a sample is whole documents.
bool packs_documents(const DataConfig& data);
// Whether rows see their own document alone.
bool separates_documents(const DataConfig& data);

// `vocabulary` is the size of the model's vocabulary.
std::int64_t padded_vocabulary(const TrainConfig& config, std::int64_t vocabulary);
// This is the model of the first rank of a tensor-parallel group; every Rank changes it to its own
// place.
GptConfig gpt_config(const TrainConfig& config, std::int64_t tokenizer_size);
LossScaler loss_scaler(const TrainConfig& config);
// Whether a loss or gradient that is not finite ends the run. It does not if the loss scale may be
// the reason, or if a flag says that such a step is skipped.
bool checks_for_nan(const TrainConfig& config);
// Iterations between answers to --answer-prompts; 0: none are given.
std::int64_t answer_interval(const RunConfig& run);
// The numbers of --iterations-to-skip. ConfigError if a word is not a number.
std::vector<std::int64_t> iterations_to_skip(const RunConfig& run);
OptimizerSettings optimizer_settings(const OptimizerConfig& optimizer);

}  // namespace phalanx
