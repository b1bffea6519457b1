#pragma once
// The parts of resolve(), each about one part of the configuration: they derive what was left open
// and judge what contradicts. What a value may be by itself stands in the table of flags.

#include "phalanx/settings/faults.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Every value is one that its flag may have, and what must be given is.
void check_values(const TrainConfig& config, bool for_training, Faults& faults);

// Sizes of layers that the flags leave open, and what flags of layers go together.
void resolve_model(TrainConfig& config);
// No flag of another model family is given.
void check_family_flags(const TrainConfig& config, Faults& faults);
// --encoder-pipeline-model-parallel-size becomes the split rank of one pipeline.
void resolve_encoder_ranks(LayoutConfig& layout);

void resolve_ranks(TrainConfig& config);
// With the ranks resolved.
void resolve_batch(TrainConfig& config);
// With model and ranks resolved.
void resolve_tensor_parallelism(TrainConfig& config);
// With the ranks resolved.
void resolve_data_parallelism(LayoutConfig& layout);
// How files of states are read and written.
void check_offload(const LayoutConfig& layout);
void resolve_recomputation(TrainConfig& config);
// The schedule, its virtual stages and their layers; with the batch and the ranks resolved.
void resolve_pipeline(TrainConfig& config);

void resolve_weight_decay(OptimizerConfig& optimizer);
// Whether the flags of each optimizer go with the one that is asked for.
void check_optimizer(const OptimizerConfig& optimizer);
void check_loss_scale(const OptimizerConfig& optimizer);
// With the batch resolved.
void check_length(const TrainConfig& config, bool for_training);
// With length and weight decay resolved.
void check_learning_rate(const TrainConfig& config);

}  // namespace phalanx
