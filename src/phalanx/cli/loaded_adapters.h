#pragma once
// --lora-load: what the adapters are, their folder or checkpoint says.

#include "phalanx/flags/flag_set.h"
#include "phalanx/flags/model_arguments.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Flags of adapters that are not given take the values of --lora-load: rank, alpha, scaling,
// dropout, targets, layers, and as --trainable what stands whole beside them. (One that is given
// and contradicts is refused once the tensors are there.) `model`: flags of the model that they are
// of. Of a run that goes on they are the values of its checkpoint. ConfigError where the model is
// not known; the errors of AdapterFolder.
void use_loaded_adapters(FlagSet& flags, const TrainConfig& config);
void use_loaded_adapters(FlagSet& flags, const TrainConfig& config, const ModelArguments& model);

}  // namespace phalanx
