// Mixtral (Jiang et al., 2024), Qwen2-MoE and Qwen3-MoE: Llamas whose layers have experts.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/layer_choice.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/llama_body.h"
#include "phalanx/hugging_face/window.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::int64_t kMostExperts = 65536;

constexpr LlamaDefaults kOfMixtral = {
    .positions = 131072, .groups = 8, .epsilon = 1e-5, .rotary_base = 1e6};
constexpr LlamaDefaults kOfQwen2Moe = {.positions = 32768, .groups = 16};
constexpr LlamaDefaults kOfQwen3Moe = {.positions = 32768, .groups = 4};

// Keys of routers that these architectures do not have: transformers would ignore them.
constexpr std::array kOtherRouters = {"n_shared_experts", "topk_method", "scoring_func",
                                      "n_group",          "topk_group",  "routed_scaling_factor"};

// The number of experts: newer files write num_local_experts where older ones write num_experts.
std::int64_t expert_count(const ConfigFile& config, std::int64_t absent) {
  const auto count = [&](const char* key) -> std::optional<std::int64_t> {
    if (!config.has(key) || config.is_null(key)) return std::nullopt;
    return config.size(key, kMostExperts);
  };
  const auto experts = count("num_experts");
  const auto local = count("num_local_experts");
  if (experts && local && *experts != *local) {
    throw DataError("{}: 'num_experts' is {} and 'num_local_experts' {}: they are the same number",
                    config.where(), *experts, *local);
  }
  return experts ? *experts : local.value_or(absent);
}

struct ExpertDefaults {
  std::int64_t experts = 0, chosen = 0;
};

// `renormalised`: the probabilities of a token's experts have the sum 1.
void read_experts(const ConfigFile& config, const ExpertDefaults& defaults, bool renormalised,
                  ModelArguments& settings) {
  for (const char* key : kOtherRouters) {
    config.refuse(key, "this architecture's router has no such rule");
  }
  const std::int64_t experts = expert_count(config, defaults.experts);
  const std::int64_t chosen = config.size("num_experts_per_tok", kMostExperts, defaults.chosen);
  if (chosen > experts) {
    throw DataError("{}: 'num_experts_per_tok' is {}, but a layer has {} experts", config.where(),
                    chosen, experts);
  }
  if (chosen == 1 && renormalised) {
    throw ConfigError(
        "{}: 'num_experts_per_tok' is 1 and probabilities have the sum 1: each is 1, and the "
        "router would not learn. Phalanx has no such model",
        config.where());
  }
  settings.set("--num-experts", experts);
  settings.set("--moe-router-topk", chosen);
  settings.set("--moe-router-pre-softmax", !renormalised);
}

// What says nothing of the model but of its training in transformers. It is kept for export.
void keep_training(const ConfigFile& config, ModelArguments& settings) {
  const double coefficient = config.number("router_aux_loss_coef", 0.0);
  if (config.has("router_aux_loss_coef")) settings.set(kConfigRouterLoss, coefficient);
  if (config.boolean("output_router_logits", false)) {
    settings.set(kConfigRouterLogits, true);
    config.warn(
        "'output_router_logits' is true, so transformers adds 'router_aux_loss_coef' times a loss "
        "of its own when it trains. Nothing is added here unless --moe-aux-loss-coeff says so");
  }
  const double noise = config.number("router_jitter_noise", 0.0);
  if (noise == 0.0) return;
  settings.set(kConfigRouterJitter, noise);
  config.warn(
      fmt::format("'router_jitter_noise' is {}: transformers multiplies the input of router and "
                  "experts by noise when it trains. Training here does not",
                  noise));
}

// Layers of a Qwen have experts if they are not among mlp_only_layers and decoder_sparse_step
// divides their number, counted from 1.
void read_sparse_layers(const ConfigFile& config, ModelArguments& settings) {
  const std::int64_t count = settings.layers();
  const std::int64_t step = config.size("decoder_sparse_step", kMostInt32, 1);
  std::vector<bool> layers;
  for (std::int64_t layer = 1; layer <= count; ++layer) layers.push_back(layer % step == 0);
  for (const std::int64_t dense : config.integers("mlp_only_layers", 0, count - 1)) {
    layers[static_cast<std::size_t>(dense)] = false;
  }
  if (std::ranges::find(layers, true) == layers.end()) {
    throw ConfigError("{}: 'decoder_sparse_step' {} and 'mlp_only_layers' leave no layer experts",
                      config.where(), step);
  }
  const bool is_every = std::ranges::find(layers, false) == layers.end();
  settings.set("--moe-layer-freq", is_every ? "1" : layer_list_text(layers));
}

void read_mixtral(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfMixtral, settings);
  settings.set("--disable-bias-linear", true);
  read_window_of_all(config, 0, settings);
  read_experts(config, {.experts = 8, .chosen = 2}, true, settings);
  settings.set("--moe-ffn-hidden-size", settings.ffn_hidden());
  settings.set("--moe-layer-freq", 1);
  keep_training(config, settings);
}

void read_qwen_experts(const ConfigFile& config, const ExpertDefaults& defaults,
                       std::int64_t ffn_hidden, ModelArguments& settings) {
  read_experts(config, defaults, config.boolean("norm_topk_prob", false), settings);
  settings.set("--moe-ffn-hidden-size",
               config.size("moe_intermediate_size", kMostWidth, ffn_hidden));
  read_sparse_layers(config, settings);
  keep_training(config, settings);
}

void read_qwen2_moe(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfQwen2Moe, settings);
  settings.set("--disable-bias-linear", true);
  settings.set("--add-qkv-bias", config.boolean("qkv_bias", true));
  const std::vector<bool> layers = layers_of_types(config, settings.layers());
  if (config.boolean("use_sliding_window", false) && layers.empty()) {
    throw ConfigError(
        "{}: 'use_sliding_window' without 'layer_types': versions of transformers differ in which "
        "layers have the window; name them in 'layer_types'",
        config.where());
  }
  read_switched_window(config, layers, settings);
  config.skip("max_window_layers");
  read_qwen_experts(config, {.experts = 60, .chosen = 4}, 1408, settings);
  settings.set("--moe-shared-expert-intermediate-size",
               config.size("shared_expert_intermediate_size", kMostWidth, 5632));
  settings.set("--moe-shared-expert-gate", true);
}

void read_qwen3_moe(const ConfigFile& config, ModelArguments& settings) {
  read_llama_body(config, kOfQwen3Moe, settings);
  settings.set("--disable-bias-linear", true);
  settings.set("--qk-layernorm", true);
  config.expect("attention_bias", false, false);
  const std::vector<bool> layers = layers_of_types(config, settings.layers());
  const bool has_some = std::ranges::find(layers, false) != layers.end() ||
                        config.integer("max_window_layers", 0, kMostInt32, 0) > 0;
  if (config.boolean("use_sliding_window", false) && has_some) {
    throw ConfigError(
        "{}: 'use_sliding_window' with 'layer_types' or 'max_window_layers' that leave layers "
        "without it: versions of transformers differ in whether they do",
        config.where());
  }
  read_switched_window(config, std::vector<bool>(static_cast<std::size_t>(settings.layers()), true),
                       settings);
  config.refuse("shared_expert_intermediate_size", "this architecture has no shared expert");
  read_qwen_experts(config, {.experts = 128, .chosen = 8}, 768, settings);
}

std::int64_t expert_width(const ModelArguments& settings) {
  return settings.integer("--moe-ffn-hidden-size", settings.ffn_hidden());
}

std::vector<bool> layers_with_experts(const ModelArguments& settings) {
  return layers_from_text("--moe-layer-freq", settings.text("--moe-layer-freq", "1"),
                          settings.layers(),
                          [](std::int64_t layer, std::int64_t n) { return layer % n == 0; });
}

void write_experts(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(settings.text("--moe-router-score-function", "softmax") == "softmax",
         "--moe-router-score-function: it is softmax");
  expect(settings.integer("--moe-router-num-groups") == 0,
         "--moe-router-num-groups: experts are in no groups");
  const double scaling = settings.number("--moe-router-topk-scaling-factor");
  expect(scaling == 0.0 || scaling == 1.0,
         "--moe-router-topk-scaling-factor: probabilities are not scaled");
  expect(!settings.is_on("--moe-router-enable-expert-bias"),
         "--moe-router-enable-expert-bias: experts are chosen without biases");
  expect(settings.text("--moe-router-load-balancing-type").find("sinkhorn") == std::string::npos,
         "--moe-router-load-balancing-type sinkhorn: experts are chosen by the softmax");
  config["num_experts_per_tok"] = settings.integer("--moe-router-topk", 2);
  if (settings.has(kConfigRouterLoss)) {
    config["router_aux_loss_coef"] = settings.number(kConfigRouterLoss);
  }
  if (settings.has(kConfigRouterLogits)) config["output_router_logits"] = true;
  if (settings.has(kConfigRouterJitter)) {
    config["router_jitter_noise"] = settings.number(kConfigRouterJitter);
  }
}

void expect_no_shared_expert(const ModelArguments& settings, Faults& faults) {
  if (settings.integer("--moe-shared-expert-intermediate-size") == 0) return;
  faults.emplace_back("--moe-shared-expert-intermediate-size: there is no shared expert");
}

void write_mixtral(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {.experts = true}, config, faults);
  expect_no_biases(settings, faults);
  expect_no_shared_expert(settings, faults);
  if (settings.is_on("--moe-router-pre-softmax")) {
    faults.emplace_back("--moe-router-pre-softmax: the probabilities of a token have the sum 1");
  }
  const std::vector<bool> layers = layers_with_experts(settings);
  if (std::ranges::find(layers, false) != layers.end()) {
    faults.emplace_back("--moe-layer-freq: all layers have experts");
  }
  write_experts(settings, config, faults);
  write_window_of_all(settings, config, faults);
  config["head_dim"] = settings.head_size();
  config["num_local_experts"] = settings.integer("--num-experts");
  config["intermediate_size"] = expert_width(settings);
}

void write_qwen_experts(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_experts(settings, config, faults);
  config["num_experts"] = settings.integer("--num-experts");
  config["norm_topk_prob"] = !settings.is_on("--moe-router-pre-softmax");
  config["moe_intermediate_size"] = expert_width(settings);
  const std::vector<bool> layers = layers_with_experts(settings);
  const std::int64_t first = std::ranges::find(layers, true) - layers.begin();
  // Every so many layers, counted from 1, or a list of those without experts.
  const std::int64_t step = first + 1;
  bool is_every = true;
  auto dense = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < std::ssize(layers); ++layer) {
    const bool has_experts = layers[static_cast<std::size_t>(layer)];
    is_every = is_every && has_experts == ((layer + 1) % step == 0);
    if (!has_experts) dense.push_back(layer);
  }
  config["decoder_sparse_step"] = is_every ? step : 1;
  config["mlp_only_layers"] = is_every ? nlohmann::json::array() : std::move(dense);
}

void write_qwen2_moe(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {.experts = true}, config, faults);
  const Biases biases = biases_of(settings);
  if (biases == Biases::kAll) {
    faults.emplace_back("--disable-bias-linear: only queries, keys and values may have biases");
  }
  if (settings.head_size() * settings.heads() != settings.hidden()) {
    faults.emplace_back("--kv-channels: heads share --hidden-size out among them");
  }
  const std::int64_t shared = settings.integer("--moe-shared-expert-intermediate-size");
  if (shared == 0) {
    faults.emplace_back("--moe-shared-expert-intermediate-size: there is a shared expert");
  }
  if (!settings.is_on("--moe-shared-expert-gate")) {
    faults.emplace_back("--moe-shared-expert-gate: the shared expert has one");
  }
  write_qwen_experts(settings, config, faults);
  config["qkv_bias"] = biases == Biases::kQkv;
  config["shared_expert_intermediate_size"] = shared;
  const Window window = window_of(settings);
  write_switched_window(window, config);
  config["max_window_layers"] = settings.layers();
  if (window.keys == 0) return;
  auto types = nlohmann::json::array();
  for (const bool has_window : window.layers) {
    types.push_back(has_window ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
}

void write_qwen3_moe(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_llama_body(settings, {.qk_norm = true, .experts = true}, config, faults);
  expect_no_biases(settings, faults);
  expect_no_shared_expert(settings, faults);
  write_qwen_experts(settings, config, faults);
  config["head_dim"] = settings.head_size();
  config["attention_bias"] = false;
  const Window window = window_of(settings);
  if (std::ranges::find(window.layers, false) != window.layers.end()) {
    faults.emplace_back("--window-attn-skip-freq: all layers have the window, or none");
  }
  write_switched_window(window, config);
  config["max_window_layers"] = window.keys > 0 ? 0 : settings.layers();
}

// How the linears of an MLP with experts are called: "model.layers.N.BLOCK.experts.I.GATE.weight".
struct ExpertNames {
  std::string_view block, gate, up, down;
};
constexpr ExpertNames kMixtralNames = {"block_sparse_moe", "w1", "w3", "w2"};
constexpr ExpertNames kQwenNames = {"mlp", "gate_proj", "up_proj", "down_proj"};

// An MLP in `ours` and `theirs`, whose width is `ffn`.
void add_mlp(const ExpertNames& names, const std::string& ours, const std::string& theirs,
             std::int64_t ffn, std::int64_t hidden, TensorTable& table) {
  const std::vector<StackedPart> gate_and_up = {
      {fmt::format("{}.{}.weight", theirs, names.gate), ffn},
      {fmt::format("{}.{}.weight", theirs, names.up), ffn}};
  table.add(stacked(ours + ".linear_fc1.weight", gate_and_up, hidden));
  table.add(plain(ours + ".linear_fc2.weight", fmt::format("{}.{}.weight", theirs, names.down),
                  {hidden, ffn}));
}

// Router and experts of a layer, one by one or joined.
void add_experts(const ModelArguments& settings, const ExpertNames& names, const std::string& ours,
                 const std::string& theirs, TensorTable& table) {
  const std::int64_t hidden = settings.hidden();
  const std::int64_t ffn = expert_width(settings);
  const std::int64_t experts = settings.integer("--num-experts");
  table.add(plain(ours + ".router.weight", theirs + ".gate.weight", {experts, hidden}));
  JoinedTensor gates_and_ups{.name = theirs + ".experts.gate_up_proj",
                             .shape = {experts, 2 * ffn, hidden}};
  JoinedTensor downs{.name = theirs + ".experts.down_proj", .shape = {experts, hidden, ffn}};
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::size_t first = table.rows.size();
    add_mlp(names, fmt::format("{}.experts.{}", ours, expert),
            fmt::format("{}.experts.{}", theirs, expert), ffn, hidden, table);
    for (const TensorPart& part : table.rows[first].parts) {
      gates_and_ups.parts.push_back({part.name, ffn});
    }
    downs.parts.push_back({table.rows[first + 1].parts[0].name, hidden});
  }
  table.joined.push_back(std::move(gates_and_ups));
  table.joined.push_back(std::move(downs));
}

// Of the names that transformers 5 has in memory, and of those in its files.
std::string mixtral_name(std::string_view stored) {
  constexpr std::string_view kNewBlock = ".mlp.";
  std::string name(stored);
  const std::size_t at = name.find(kNewBlock);
  if (at != std::string::npos) {
    name.replace(at + 1, kNewBlock.size() - 2, kMixtralNames.block);
  }
  return name;
}

TensorTable mixtral_tensors(const ModelArguments& settings) {
  TensorTable table = llama_body_tensors(settings, [&](std::int64_t layer, TensorTable& rows) {
    add_experts(settings, kMixtralNames, fmt::format("decoder.layers.{}.mlp", layer),
                fmt::format("model.layers.{}.{}", layer, kMixtralNames.block), rows);
  });
  table.canonical_name = mixtral_name;
  return table;
}

TensorTable qwen_tensors(const ModelArguments& settings) {
  const std::vector<bool> has_experts = layers_with_experts(settings);
  return llama_body_tensors(settings, [&](std::int64_t layer, TensorTable& table) {
    if (!has_experts[static_cast<std::size_t>(layer)]) {
      add_dense_mlp(settings, layer, table);
      return;
    }
    const std::string ours = fmt::format("decoder.layers.{}.mlp", layer);
    const std::string theirs = fmt::format("model.layers.{}.{}", layer, kQwenNames.block);
    add_experts(settings, kQwenNames, ours, theirs, table);
    const std::int64_t shared = settings.integer("--moe-shared-expert-intermediate-size");
    if (shared == 0) return;
    add_mlp(kQwenNames, ours + ".shared_experts", theirs + ".shared_expert", shared,
            settings.hidden(), table);
    if (!settings.is_on("--moe-shared-expert-gate")) return;
    table.add(plain(ours + ".shared_experts.gate_weight", theirs + ".shared_expert_gate.weight",
                    {1, settings.hidden()}));
  });
}

// transformers computes every token with all of its experts.
std::string remark_on_capacity(const ModelArguments& settings) {
  if (settings.number("--moe-expert-capacity-factor") <= 0.0) return {};
  return "--moe-expert-capacity-factor: transformers drops no token, so it computes other numbers "
         "where Phalanx would drop some";
}

}  // namespace

const Architecture kMixtral = {.name = "MixtralForCausalLM",
                               .model_type = "mixtral",
                               .family = "gpt",
                               .read_config = read_mixtral,
                               .write_config = write_mixtral,
                               .tensors = mixtral_tensors,
                               .remark = remark_on_capacity,
                               .default_bos = 1,
                               .default_eos = 2,
                               .has_experts = true};
const Architecture kQwen2Moe = {.name = "Qwen2MoeForCausalLM",
                                .model_type = "qwen2_moe",
                                .family = "gpt",
                                .read_config = read_qwen2_moe,
                                .write_config = write_qwen2_moe,
                                .tensors = qwen_tensors,
                                .remark = remark_on_capacity,
                                .has_experts = true};
const Architecture kQwen3Moe = {.name = "Qwen3MoeForCausalLM",
                                .model_type = "qwen3_moe",
                                .family = "gpt",
                                .read_config = read_qwen3_moe,
                                .write_config = write_qwen3_moe,
                                .tensors = qwen_tensors,
                                .remark = remark_on_capacity,
                                .has_experts = true};

}  // namespace phalanx::hugging_face
