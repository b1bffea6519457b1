#pragma once
// Rotary positions as config.json has them: rope_theta and rope_scaling, or both in
// rope_parameters, and as flags.

#include <nlohmann/json_fwd.hpp>

#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

// `base`: that of a config.json without rope_theta. ConfigError for a kind of rotation that Phalanx
// does not have.
void read_rope(const ConfigFile& config, double base, ModelArguments& settings);
// The old spelling: transformers below 5 ignores the new one, and newer ones convert it.
void write_rope(const ModelArguments& settings, nlohmann::json& config, Faults& faults);

}  // namespace phalanx::hugging_face
