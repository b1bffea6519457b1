#include "phalanx/families/family.h"

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/families/families.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

std::vector<StageRange> ModelFamily::stages(const TrainConfig& config,
                                            const Placement& placement) const {
  return stage_ranges(config, placement);
}

std::optional<GptConfig> ModelFamily::language_model(const TrainConfig& config,
                                                     std::int64_t vocabulary) const {
  const std::shared_ptr<const Model> made = model(config, vocabulary);
  const auto* const gpt = dynamic_cast<const GptModel*>(made.get());
  return gpt == nullptr ? std::nullopt : std::optional(gpt->config());
}

std::span<const std::shared_ptr<const ModelFamily>> known_families() {
  static const auto families_of_phalanx = std::to_array({gpt_family(), bert_family(), t5_family()});
  return families_of_phalanx;
}

std::shared_ptr<const ModelFamily> find_family(std::string_view name) {
  const auto families = known_families();
  const auto found =
      std::ranges::find_if(families, [&](const auto& family) { return family->name() == name; });
  return found == families.end() ? nullptr : *found;
}

const ModelFamily& family_of(const TrainConfig& config) {
  if (config.family != nullptr) return *config.family;
  const auto found = find_family(config.model.family);
  if (found == nullptr) {
    throw ConfigError(
        "{} is no family of models that this program knows: the program that trains it computes "
        "with it",
        config.model.family);
  }
  return *found;
}

void check_family(const TrainConfig& config, const std::map<std::string, std::string>& arguments) {
  const auto found = arguments.find(std::string(kFamilyArgument));
  const std::string then = found == arguments.end() ? "gpt" : found->second;
  const std::string_view now = family_of(config).name();
  if (then == now) return;
  throw ConfigError(
      "the checkpoint is of a {}, and a {} is asked for: name the first, or give another "
      "checkpoint",
      then, now);
}

std::shared_ptr<const Model> make_model(const TrainConfig& config, std::int64_t vocabulary) {
  return family_of(config).model(config, vocabulary);
}

std::vector<StageRange> model_stages(const TrainConfig& config, const Placement& placement) {
  return family_of(config).stages(config, placement);
}

}  // namespace phalanx
