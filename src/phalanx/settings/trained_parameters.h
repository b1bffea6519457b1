#pragma once
// Which parameters of a model are trained (--lora-rank, --trainable, --freeze). The others are read
// by passes and never change.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "phalanx/model/model.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// Whether the parameter of this name is a factor of an adapter (nn/adapters.h).
bool is_of_adapter(std::string_view name);

// Whether a parameter of this name is not trained; an empty function where all are trained. With
// --lora-rank or --trainable only the adapters and those parameters are trained in whose name one
// of the expressions of --trainable is found; of them those are not in whose name one of --freeze
// is found. ConfigError for what is no regular expression (ECMAScript's).
std::function<bool(const std::string& name)> frozen_parameters(const TrainConfig& config);

// ConfigError if an expression is in no name of the model, or no parameter is left.
void check_trained_parameters(const OptimizerConfig& config, const nn::ParamTable& whole);

// How much of a model is trained.
struct TrainedShare {
  std::int64_t parameters = 0;  // that are trained, counted as Model::parameters() does
  // Of the operations of Model::flops_per_sample(). A weight takes a third of them in each pass:
  // forward, the gradient of the input unless no unit below trains anything, and its own gradient
  // if it is trained. All matrices count alike, experts by the share that a token is computed with,
  // and attention as they do.
  double flops = 1.0;
};
TrainedShare trained_share(const TrainConfig& config, const Model& model);

}  // namespace phalanx
