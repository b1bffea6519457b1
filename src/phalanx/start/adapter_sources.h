#pragma once
// Where the weights of a run with adapters come from: the base has what is not trained, and the
// adapters are the checkpoint's, those of --lora-load, or new.

#include <optional>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/model/model.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Joins the checkpoint that a run begins with (null: none) with its base and, in a new run, with
// the adapters of --lora-load. Returns what the run's checkpoints say of the base, and sets
// config.lora.has_base; empty, if they have all weights themselves: the run began with random ones.
// `leads`: in the process that decides; the others do not compare digests again.
// ConfigError if the checkpoint has adapters and the run has none, or the other way round in a run
// that resumes; if the base is of --save, which may remove it; and where the adapters of
// --lora-load are added in another way than the flags say. The errors of join_base() and
// AdapterFolder.
std::optional<Manifest::Base> join_adapters(TrainConfig& config, CheckpointReader* checkpoint,
                                            bool leads);

// ConfigError unless the adapters of --lora-load are those of the model, and the run trains all
// that stands beside them and beside the adapters of a checkpoint: it would not be saved.
void check_loaded_adapters(const TrainConfig& config, const Model& model,
                           const CheckpointReader& checkpoint);

}  // namespace phalanx
