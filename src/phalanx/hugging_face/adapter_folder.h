#pragma once
// A folder of low-rank adapters as peft (github.com/huggingface/peft) writes it:
// adapter_config.json and adapter_model.safetensors, which has A and B of each module.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/memory_tensors.h"
#include "phalanx/hugging_face/adapter_config.h"
#include "phalanx/hugging_face/adapter_places.h"

namespace phalanx::hugging_face {

inline constexpr std::string_view kAdapterWeightsName = "adapter_model.safetensors";

// Whether the directory is such a folder, whole or not.
bool is_adapter_folder(const std::filesystem::path& directory);

class AdapterFolder {
 public:
  // `base`: the flags of the model that the adapters are of. InputMissingError if the folder or one
  // of the files is missing; DataError if one is malformed, or the tensors are not the adapters
  // that the configuration describes of this model; ConfigError for what Phalanx does not support,
  // and if the adapters of two layers are of different modules.
  AdapterFolder(const std::filesystem::path& directory, const ModelArguments& base);

  const AdapterConfig& config() const { return config_; }
  // With the targets, layers and whole tensors that the tensors are of. The rank is the largest of
  // all modules: the factors of others have zeros behind theirs, which stay zero in training. Where
  // alpha / rank of a module is not that of the settings, its B is multiplied with the quotient.
  const AdapterSettings& settings() const { return settings_; }
  // The modules whose B was multiplied, by their names in the folder: the adapters are the same,
  // but trained further they would learn at another rate than peft's.
  const std::vector<std::string>& scaled() const { return scaled_; }
  // Ours, in the order of the model: the adapters, and then whole tensors (modules_to_save).
  const std::vector<MemoryTensor>& tensors() const { return tensors_; }

 private:
  std::filesystem::path directory_;
  AdapterConfig config_;
  AdapterSettings settings_;
  std::vector<std::string> scaled_;
  std::vector<MemoryTensor> tensors_;
};

}  // namespace phalanx::hugging_face
