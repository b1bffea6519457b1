#pragma once
// What --lora-rank and its sisters say of a model's adapters.

#include <string_view>
#include <vector>

#include "phalanx/nn/adapter_settings.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Which of `layers` layers have adapters: numbers from 0 and ranges of them between commas,
// "0-3,7". An empty text gives no list: all have. ConfigError if the text has another form, or
// names a layer that the model does not have.
std::vector<bool> adapter_layers_from_text(std::string_view text, std::int64_t layers);

// The parts that --lora-targets names in this model. ConfigError if the model has no such part, or
// two of them overlap.
std::vector<nn::AdapterPart> adapter_parts(const LoraConfig& lora, const ModelConfig& model);

// The adapters of a model whose activation is resolved; none without --lora-rank. ConfigError as
// above, and if there is no --lora-alpha.
nn::AdapterSettings adapter_settings(const LoraConfig& lora, const ModelConfig& model);

}  // namespace phalanx
