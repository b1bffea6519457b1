#pragma once
// What the settings of mixtures of experts mean for layers.

#include <string_view>
#include <vector>

#include "phalanx/nn/expert_settings.h"
#include "phalanx/nn/row_plan.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Which of `layers` layers have experts: "N" for layer i, from 0, if N divides i, or a list of 0
// and 1 as --window-attn-skip-freq has it. ConfigError if the text has another form, the list
// another length, or no layer has experts.
std::vector<bool> expert_layers_from_text(std::string_view text, std::int64_t layers);

// Whether --moe-router-load-balancing-type has this type.
bool balances_by(const ExpertConfig& config, std::string_view type);

// The losses of --moe-router-load-balancing-type and --moe-z-loss-coeff whose coefficient is not 0.
// ConfigError for a type that there is not, or a coefficient that is no number.
std::vector<nn::RouterLoss> router_losses(const ExpertConfig& config);

// How many of a group's best scores are its score. ConfigError for another word than auto, max or a
// number.
std::int64_t scores_of_group(const ExpertConfig& config);

// Whether this start of a run makes experts of a dense checkpoint's MLPs.
bool upcycles(const RunConfig& run);

// Of a resolved configuration.
nn::ExpertSettings expert_settings(const TrainConfig& config);

// The rows of pairs of tokens and experts that a rank has memory for in a layer and a microbatch.
// Of a resolved configuration with experts.
nn::RowSizes expert_rows(const TrainConfig& config);

}  // namespace phalanx
