#include "phalanx/hugging_face/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "phalanx/base/error.h"
#include "phalanx/base/layer_choice.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::string_view kSize = "--window-size";
constexpr std::string_view kLayers = "--window-attn-skip-freq";

}  // namespace

Window window_of(const ModelArguments& settings) {
  std::string size = settings.text(kSize);
  std::erase_if(size, [](char c) { return c == '(' || c == ')' || c == ' '; });
  if (size.empty()) return {};
  std::int64_t left = 0;
  const auto [end, fault] = std::from_chars(size.data(), size.data() + size.size(), left);
  if (fault != std::errc{}) throw DataError("the checkpoint's {} cannot be read: {}", kSize, size);
  if (left < 0) return {};
  const std::int64_t layers = settings.layers();
  const std::string chosen = settings.text(kLayers);
  if (chosen.empty()) {
    return {.keys = left + 1, .layers = std::vector<bool>(static_cast<std::size_t>(layers), true)};
  }
  return {
      .keys = left + 1,
      .layers = layers_from_text(kLayers, chosen, layers, [](std::int64_t layer, std::int64_t n) {
        return (layer + 1) % n != 0;
      })};
}

void set_window(const Window& window, ModelArguments& settings) {
  if (window.keys == 0 || std::ranges::find(window.layers, true) == window.layers.end()) return;
  settings.set(kSize, fmt::format("{},0", window.keys - 1));
  if (std::ranges::find(window.layers, false) == window.layers.end()) return;
  settings.set(kLayers, layer_list_text(window.layers));
}

void read_window_of_all(const ConfigFile& config, std::int64_t absent, ModelArguments& settings) {
  constexpr const char* kKey = "sliding_window";
  const bool is_there = config.has(kKey);
  if (config.is_null(kKey) || (!is_there && absent == 0)) {
    config.skip(kKey);
    return;
  }
  const auto layers = static_cast<std::size_t>(settings.layers());
  set_window({.keys = is_there ? config.size(kKey, kMostInt32) : absent,
              .layers = std::vector<bool>(layers, true)},
             settings);
}

void write_window_of_all(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const Window window = window_of(settings);
  if (std::ranges::find(window.layers, false) != window.layers.end()) {
    faults.emplace_back("--window-attn-skip-freq: all layers have the window, or none");
  }
  config["sliding_window"] = window.keys > 0 ? nlohmann::json(window.keys) : nlohmann::json();
}

void read_switched_window(const ConfigFile& config, const std::vector<bool>& layers,
                          ModelArguments& settings) {
  constexpr std::int64_t kWindow = 4096;
  const bool is_used = config.boolean("use_sliding_window", false);
  if (!is_used && config.has("layer_types") && std::ranges::find(layers, true) != layers.end()) {
    throw ConfigError(
        "{}: 'layer_types' has sliding_attention, but 'use_sliding_window' is not true: set one to "
        "what the model is",
        config.where());
  }
  if (!is_used) {
    config.without_effect("sliding_window", "use_sliding_window is not true");
    config.without_effect("max_window_layers", "use_sliding_window is not true");
  }
  if (!is_used || config.is_null("sliding_window")) return;
  set_window({.keys = config.size("sliding_window", kMostInt32, kWindow), .layers = layers},
             settings);
}

void write_switched_window(const Window& window, nlohmann::json& config) {
  const bool has_window = window.keys > 0;
  config["use_sliding_window"] = has_window;
  config["sliding_window"] = has_window ? nlohmann::json(window.keys) : nlohmann::json();
}

std::vector<bool> layers_of_types(const ConfigFile& config, std::int64_t layers) {
  const auto kinds = config.texts("layer_types");
  if (kinds.empty()) return {};
  if (std::ssize(kinds) != layers) {
    throw DataError("{}: 'layer_types' has {} layers, 'num_hidden_layers' {}", config.where(),
                    kinds.size(), layers);
  }
  std::vector<bool> have_window;
  for (const std::string& kind : kinds) {
    if (kind != "full_attention" && kind != "sliding_attention") {
      throw ConfigError(
          "{}: 'layer_types' {} is not supported: full_attention and "
          "sliding_attention are",
          config.where(), kind);
    }
    have_window.push_back(kind == "sliding_attention");
  }
  return have_window;
}

}  // namespace phalanx::hugging_face
