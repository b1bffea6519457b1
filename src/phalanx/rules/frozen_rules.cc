// The part of resolve() that is about parameters that are not trained.

#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {

void check_frozen(const TrainConfig& config) {
  if (!frozen_parameters(config)) return;
  const std::string_view given = config.lora.rank > 0 ? "--lora-rank" : "--trainable, --freeze";
  const auto refuse = [&](bool is_given, std::string_view flag, std::string_view reason) {
    if (is_given) throw ConfigError("{} and {} exclude each other: {}", given, flag, reason);
  };
  const LayoutConfig& l = config.layout;
  constexpr std::string_view kWhole = "weights that are not trained are whole on every rank";
  refuse(!l.offload_parameters_to.empty(), "--offload-parameters-to", kWhole);
  refuse(l.zero_stage == 3, "--zero-stage 3", kWhole);
  refuse(is_asynchronous(l), "--pipeline-schedule " + l.pipeline_schedule,
         "its versions of weights are of trained ones");
}

}  // namespace phalanx
