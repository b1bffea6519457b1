#pragma once
// The parts of resolve(), each about one part of the configuration: they derive what was left open
// and judge what contradicts. Which values a single flag may have is said in flag_table/.

#include "phalanx/settings/faults.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Checks every value by the row of its flag, and that required flags are given.
void check_values(const TrainConfig& config, bool for_training, Faults& faults);

// Derives sizes of layers that the flags leave open, and checks flags of layers against each other.
void resolve_model(TrainConfig& config);
// Derives sizes of experts, and checks their flags against each other. Needs a resolved model.
void resolve_experts(TrainConfig& config);
// Experts made of a dense model's MLPs: a new run from its weights. Needs resolved experts.
void resolve_upcycling(TrainConfig& config, bool for_training);
// Refuses layouts that experts cannot have. Needs the resolved layout.
void check_experts(const TrainConfig& config);
// Refuses flags of other model families.
void check_family_flags(const TrainConfig& config, Faults& faults);
// --encoder-pipeline-model-parallel-size becomes the split rank of one pipeline.
void resolve_encoder_ranks(LayoutConfig& layout);

void resolve_ranks(TrainConfig& config);
// Needs resolved ranks.
void resolve_batch(TrainConfig& config);
// Needs resolved model and ranks.
void resolve_tensor_parallelism(TrainConfig& config);
// Refuses what context-parallel ranks cannot share. Needs resolved model and ranks.
void check_context_parallelism(const TrainConfig& config, Faults& faults);
// Needs resolved ranks.
void resolve_data_parallelism(LayoutConfig& layout);
// How files of states are read and written.
void check_offload(const LayoutConfig& layout);
void resolve_recomputation(TrainConfig& config);
// The schedule, its virtual stages and their layers. Needs resolved batch and ranks.
void resolve_pipeline(TrainConfig& config);

void resolve_weight_decay(OptimizerConfig& optimizer);
// Refuses flags of another optimizer than the chosen one.
void check_optimizer(const OptimizerConfig& optimizer);
void check_loss_scale(const OptimizerConfig& optimizer);
// Refuses adapters that the model cannot have. Needs the resolved model.
void check_adapters(const TrainConfig& config);
// Refuses what cannot be combined with conversations.
void check_chat(const TrainConfig& config, Faults& faults);
// Refuses what cannot be combined with parameters that are not trained. Needs the resolved layout.
void check_frozen(const TrainConfig& config);
// Needs the resolved batch.
void check_length(const TrainConfig& config, bool for_training);
// Needs resolved length and weight decay.
void check_learning_rate(const TrainConfig& config);

}  // namespace phalanx
