#pragma once
// Which layers of a model see only the last keys: --window-size and --window-attn-skip-freq, and
// the keys of config.json that say so.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "phalanx/flags/model_arguments.h"
#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

struct Window {
  std::int64_t keys = 0;     // keys that a query sees, itself included; 0: all before it
  std::vector<bool> layers;  // which layers have the window
};

// DataError if --window-size is not "L,R"; the errors of layers_from_text().
Window window_of(const ModelArguments& settings);
void set_window(const Window& window, ModelArguments& settings);

// Mistral's key: all layers have a window of sliding_window keys (`absent` if there is no such key;
// 0: none), or none where it is null.
void read_window_of_all(const ConfigFile& config, std::int64_t absent, ModelArguments& settings);
void write_window_of_all(const ModelArguments& settings, nlohmann::json& config, Faults& faults);

// The keys of Qwen's models: sliding_window says something only beside use_sliding_window.
// `layers`: which layers have the window.
void read_switched_window(const ConfigFile& config, const std::vector<bool>& layers,
                          ModelArguments& settings);
void write_switched_window(const Window& window, nlohmann::json& config);
// Which layers have the window, by layer_types; empty if there is no such key. DataError if it has
// another number of layers; ConfigError for a type other than full_attention and sliding_attention.
std::vector<bool> layers_of_types(const ConfigFile& config, std::int64_t layers);

}  // namespace phalanx::hugging_face
