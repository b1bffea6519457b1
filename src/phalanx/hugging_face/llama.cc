// Llama (Touvron et al., 2023), Mistral, Qwen2 and Qwen3: one model, four dialects of config.json.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/llama_body.h"
#include "phalanx/hugging_face/window.h"

namespace phalanx::hugging_face {
namespace {

constexpr LlamaDefaults kOfLlama = {.positions = 2048};
constexpr LlamaDefaults kOfMistral = {.positions = 131072, .groups = 8};
constexpr LlamaDefaults kOfQwen2 = {.positions = 32768, .groups = 32};
constexpr LlamaDefaults kOfQwen3 = {.positions = 32768, .groups = 32, .head_size = 128};

void read_llama(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfLlama, settings);
  const bool attention = config.boolean("attention_bias", false);
  const bool mlp = config.boolean("mlp_bias", false);
  if (attention != mlp) {
    throw ConfigError(
        "{}: 'attention_bias' is {} and 'mlp_bias' is {}: Phalanx has all biases or "
        "none",
        config.where(), attention, mlp);
  }
  settings.set("--disable-bias-linear", !attention);
}

void read_mistral(const ConfigFile& config, ModelArguments& settings) {
  constexpr std::int64_t kWindow = 4096;
  read_llama_body(config, kOfMistral, settings);
  settings.set("--disable-bias-linear", true);
  read_window_of_all(config, kWindow, settings);
}

// The window of the last layers, or of those that layer_types names.
void read_qwen_window(const ConfigFile& config, ModelArguments& settings) {
  const std::int64_t count = settings.layers();
  const std::int64_t first = config.integer("max_window_layers", 0, kMostInt32, 28);
  std::vector<bool> layers = layers_of_types(config, count);
  if (!layers.empty()) {
    config.without_effect("max_window_layers", "layer_types counts");
  } else {
    for (std::int64_t layer = 0; layer < count; ++layer) layers.push_back(layer >= first);
  }
  read_switched_window(config, layers, settings);
}

void read_qwen2(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfQwen2, settings);
  settings.set("--disable-bias-linear", true);
  settings.set("--add-qkv-bias", true);
  read_qwen_window(config, settings);
}

void read_qwen3(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfQwen3, settings);
  settings.set("--disable-bias-linear", true);
  settings.set("--qk-layernorm", true);
  config.expect("attention_bias", false, false);
  read_qwen_window(config, settings);
}

void write_llama(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {}, config, faults);
  const Biases biases = biases_of(settings);
  if (biases == Biases::kQkv) faults.emplace_back("--add-qkv-bias: all linears have one, or none");
  if (window_of(settings).keys > 0) faults.emplace_back("--window-size: queries see all keys");
  config["head_dim"] = settings.head_size();
  config["attention_bias"] = biases == Biases::kAll;
  config["mlp_bias"] = biases == Biases::kAll;
}

void write_mistral(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {}, config, faults);
  expect_no_biases(settings, faults);
  config["head_dim"] = settings.head_size();
  write_window_of_all(settings, config, faults);
}

void write_qwen_window(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const Window window = window_of(settings);
  const auto first = std::ranges::find(window.layers, true) - window.layers.begin();
  if (std::find(window.layers.begin() + first, window.layers.end(), false) != window.layers.end()) {
    faults.emplace_back("--window-attn-skip-freq: the last layers have the window");
  }
  write_switched_window(window, config);
  config["max_window_layers"] = window.keys > 0 ? first : settings.layers();
}

void write_qwen2(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {}, config, faults);
  if (biases_of(settings) != Biases::kQkv) {
    faults.emplace_back(
        "--add-qkv-bias, --disable-bias-linear: queries, keys and values have "
        "biases, and nothing else");
  }
  if (settings.head_size() * settings.heads() != settings.hidden()) {
    faults.emplace_back("--kv-channels: heads share --hidden-size out among them");
  }
  write_qwen_window(settings, config, faults);
}

void write_qwen3(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {.qk_norm = true}, config, faults);
  expect_no_biases(settings, faults);
  config["head_dim"] = settings.head_size();
  config["attention_bias"] = false;
  write_qwen_window(settings, config, faults);
}

TensorTable llama_tensors(const ModelArguments& settings) {
  return llama_body_tensors(settings, [&](std::int64_t layer, TensorTable& table) {
    add_dense_mlp(settings, layer, table);
  });
}

}  // namespace

const Architecture kLlama = {.name = "LlamaForCausalLM",
                             .model_type = "llama",
                             .family = "gpt",
                             .read_config = read_llama,
                             .write_config = write_llama,
                             .tensors = llama_tensors,
                             .default_bos = 1,
                             .default_eos = 2};
const Architecture kMistral = {.name = "MistralForCausalLM",
                               .model_type = "mistral",
                               .family = "gpt",
                               .read_config = read_mistral,
                               .write_config = write_mistral,
                               .tensors = llama_tensors,
                               .default_bos = 1,
                               .default_eos = 2};
const Architecture kQwen2 = {.name = "Qwen2ForCausalLM",
                             .model_type = "qwen2",
                             .family = "gpt",
                             .read_config = read_qwen2,
                             .write_config = write_qwen2,
                             .tensors = llama_tensors};
const Architecture kQwen3 = {.name = "Qwen3ForCausalLM",
                             .model_type = "qwen3",
                             .family = "gpt",
                             .read_config = read_qwen3,
                             .write_config = write_qwen3,
                             .tensors = llama_tensors};

}  // namespace phalanx::hugging_face
