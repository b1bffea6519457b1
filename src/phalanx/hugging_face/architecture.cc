#include "phalanx/hugging_face/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

// If several names fit a model that was not imported, the first is taken.
constexpr std::array kArchitectures = {&kGpt2,
                                       &kLlama,
                                       &kMistral,
                                       &kQwen2,
                                       &kQwen3,
                                       &kMixtral,
                                       &kQwen2Moe,
                                       &kQwen3Moe,
                                       &kBert,
                                       &kMegatronBert,
                                       &kBertMaskedLm,
                                       &kMegatronBertMaskedLm,
                                       &kBertClassifier,
                                       &kMegatronBertClassifier,
                                       &kT5};

// Keys of models that these architectures' tensors could hide.
struct ForeignKey {
  const char* key;
  std::string_view what;
};
constexpr std::string_view kNoExperts = "this architecture has no such experts";
constexpr std::array kForeignKeys = {
    ForeignKey{"quantization_config",
               "quantised weights are not supported: save the model in bf16, fp16 or fp32"},
    ForeignKey{"n_routed_experts", kNoExperts},
    ForeignKey{"attn_logit_softcapping", "capped scores are not supported"},
    ForeignKey{"final_logit_softcapping", "capped logits are not supported"},
};
// Of architectures without experts.
constexpr std::array kExpertKeys = {"num_experts", "num_local_experts"};

}  // namespace

std::span<const Architecture* const> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : *found;
}

std::string architecture_names() {
  std::string names;
  for (const Architecture* architecture : kArchitectures) {
    const bool is_last = architecture == kArchitectures.back();
    names += fmt::format("{}{}", names.empty() ? "" : is_last ? " and " : ", ", architecture->name);
  }
  return names;
}

const Architecture& architecture_of(const ConfigFile& config) {
  const auto names = config.texts("architectures");
  if (names.empty()) {
    throw ConfigError("{}: 'architectures' names none: Phalanx reads {}", config.where(),
                      architecture_names());
  }
  const Architecture* architecture = find_architecture(names.front());
  if (architecture == nullptr) {
    throw ConfigError("{}: 'architectures' is {}, which Phalanx does not read: it reads {}",
                      config.where(), names.front(), architecture_names());
  }
  const std::string type = config.text("model_type");
  if (type != architecture->model_type) {
    throw ConfigError("{}: 'model_type' is {}, but {} is a {}", config.where(), type,
                      architecture->name, architecture->model_type);
  }
  for (const ForeignKey& foreign : kForeignKeys) config.refuse(foreign.key, foreign.what);
  if (!architecture->has_experts) {
    for (const char* key : kExpertKeys) config.refuse(key, kNoExperts);
  }
  return *architecture;
}

Faults faults_of(const Architecture& architecture, const ModelArguments& settings) {
  nlohmann::json ignored;
  Faults faults;
  architecture.write_config(settings, ignored, faults);
  return faults;
}

const Architecture& architecture_for(const ModelArguments& settings) {
  const std::string family = settings.text("run.family", "gpt");
  std::vector<const Architecture*> candidates(kArchitectures.begin(), kArchitectures.end());
  const auto came_from = find_architecture(settings.text(kConfigArchitecture));
  if (came_from != nullptr) candidates.insert(candidates.begin(), came_from);
  const Architecture* nearest = nullptr;
  Faults of_nearest;
  for (const Architecture* architecture : candidates) {
    if (architecture->family != family) continue;
    const Faults faults = faults_of(*architecture, settings);
    if (faults.empty()) return *architecture;
    if (nearest != nullptr && faults.size() >= of_nearest.size()) continue;
    nearest = architecture;
    of_nearest = faults;
  }
  if (nearest == nullptr) {
    throw ConfigError("there is no architecture for a model of {}: {} are known", family,
                      architecture_names());
  }
  const auto line =
      fmt::format("no architecture has this model, and {} is the nearest: ", nearest->name);
  throw ConfigError("{}{}", line, fmt::join(of_nearest, "\n" + line));
}

}  // namespace phalanx::hugging_face
