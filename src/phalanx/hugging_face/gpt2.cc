// GPT-2 (Radford et al., 2019). Its matrices are Conv1D's, stored as [in, out], the square ones
// too.

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/window.h"

namespace phalanx::hugging_face {
namespace {

void read_gpt2(const ConfigFile& config, ModelArguments& settings) {
  config.also_called("n_embd", "hidden_size");
  config.also_called("n_head", "num_attention_heads");
  config.also_called("n_layer", "num_hidden_layers");
  config.also_called("n_positions", "max_position_embeddings");
  settings.set("--num-layers", config.size("n_layer", kMostLayers));
  const std::int64_t hidden = config.size("n_embd");
  const std::int64_t heads = config.size("n_head", kMostHeads);
  if (hidden % heads != 0) {
    throw DataError("{}: 'n_embd' {} does not divide into {} heads", config.where(), hidden, heads);
  }
  settings.set("--hidden-size", hidden);
  settings.set("--num-attention-heads", heads);
  settings.set("--kv-channels", hidden / heads);
  settings.set("--ffn-hidden-size", config.size("n_inner", 4 * kMostWidth, 4 * hidden));
  settings.set("--max-position-embeddings", config.size("n_positions", kMostInt32));
  settings.set("--model-vocab-size", config.size("vocab_size", kMostInt32));
  const std::string activation = config.text("activation_function", "gelu_new");
  const bool is_tanh =
      activation == "gelu_new" || activation == "gelu_pytorch_tanh" || activation == "gelu_fast";
  if (!is_tanh && activation != "gelu") {
    throw ConfigError("{}: 'activation_function' {} is not supported: gelu_new and gelu are",
                      config.where(), activation);
  }
  settings.set("--no-bias-gelu-fusion", !is_tanh);
  settings.set("--position-embedding-type", "learned_absolute");
  settings.set("--normalization", "LayerNorm");
  settings.set("--norm-epsilon", config.number("layer_norm_epsilon", 1e-5));
  settings.set("--init-method-std", config.number("initializer_range", 0.02));
  settings.set("--untie-embeddings-and-output-weights",
               !config.boolean("tie_word_embeddings", true));
  settings.set("--attention-dropout", config.dropout("attn_pdrop", 0.1));
  settings.set("--hidden-dropout", config.dropout("resid_pdrop", 0.1));
  if (config.dropout("embd_pdrop", 0.1) != config.dropout("resid_pdrop", 0.1)) {
    config.warn("'embd_pdrop' is not 'resid_pdrop', which is taken for both");
  }
  config.expect("scale_attn_weights", true, true);
  config.expect("scale_attn_by_inverse_layer_idx", false, false);
  config.expect("add_cross_attention", false, false);
  // An old name of n_positions that nothing reads; how another implementation computes the same;
  // heads that classify.
  for (const char* key :
       {"n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj"}) {
    config.skip(key);
  }
}

void write_gpt2(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  const std::string activation = settings.text("--activation-func", "gelu");
  expect(settings.text("--position-embedding-type", "learned_absolute") == "learned_absolute",
         "--position-embedding-type: positions are a learned table");
  expect(settings.text("--normalization", "LayerNorm") == "LayerNorm",
         "--normalization: it is LayerNorm");
  expect(!settings.is_on("--apply-layernorm-1p"), "--apply-layernorm-1p: weights are kept whole");
  expect(!settings.is_on("--swiglu") && !settings.is_on("--gated-linear-unit"),
         "--swiglu, --gated-linear-unit: the MLP has no gate");
  expect(!settings.is_on("--squared-relu") && activation == "gelu",
         "--squared-relu, --activation-func: the activation is a GeLU");
  expect(!settings.is_on("--disable-bias-linear"), "--disable-bias-linear: linears have biases");
  expect(settings.integer("--num-experts") == 0, "--num-experts: a layer has one MLP");
  expect(!settings.is_on("--qk-layernorm"), "--qk-layernorm: queries and keys have no norms");
  expect(settings.groups() == settings.heads(),
         "--num-query-groups: heads have keys and values of their own");
  expect(settings.head_size() * settings.heads() == settings.hidden(),
         "--kv-channels: heads share --hidden-size out among them");
  expect(window_of(settings).keys == 0, "--window-size: queries see all keys");
  expect(settings.number("--attention-scale") == 0.0,
         "--attention-scale: it is 1 / sqrt(--kv-channels)");
  config["n_layer"] = settings.layers();
  config["n_embd"] = settings.hidden();
  config["n_head"] = settings.heads();
  config["n_inner"] = settings.ffn_hidden() == 4 * settings.hidden()
                          ? nlohmann::json()
                          : nlohmann::json(settings.ffn_hidden());
  config["n_positions"] = settings.positions();
  config["n_ctx"] = settings.positions();
  config["vocab_size"] = settings.vocabulary();
  config["activation_function"] = settings.is_on("--no-bias-gelu-fusion") ? "gelu" : "gelu_new";
  config["layer_norm_epsilon"] = settings.number("--norm-epsilon", 1e-5);
  config["initializer_range"] = settings.number("--init-method-std", 0.02);
  config["tie_word_embeddings"] = settings.is_tied();
  config["attn_pdrop"] = settings.number("--attention-dropout", 0.1);
  config["resid_pdrop"] = settings.number("--hidden-dropout", 0.1);
  config["embd_pdrop"] = settings.number("--hidden-dropout", 0.1);
  config["scale_attn_weights"] = true;
  config["scale_attn_by_inverse_layer_idx"] = false;
  config["add_cross_attention"] = false;
  config["use_cache"] = true;
}

TensorTable gpt2_tensors(const ModelArguments& settings) {
  TensorTable table;
  const std::int64_t hidden = settings.hidden();
  const std::int64_t ffn = settings.ffn_hidden();
  const Shape words = {settings.vocabulary(), hidden};
  const auto blocks = regrouped(3, settings.heads(), settings.head_size());
  const auto add_norm = [&](const std::string& ours, const std::string& theirs) {
    table.add(plain(ours + ".weight", theirs + ".weight", {hidden}));
    table.add(plain(ours + ".bias", theirs + ".bias", {hidden}));
  };
  const auto add_linear = [&](const std::string& ours, const std::string& theirs, std::int64_t out,
                              std::int64_t in) {
    table.add(transposed(ours + ".weight", theirs + ".weight", {out, in}));
    table.add(plain(ours + ".bias", theirs + ".bias", {out}));
  };
  table.add(plain("embedding.word_embeddings.weight", "transformer.wte.weight", words));
  table.add(plain("embedding.position_embeddings.weight", "transformer.wpe.weight",
                  {settings.positions(), hidden}));
  for (std::int64_t layer = 0; layer < settings.layers(); ++layer) {
    const std::string ours = fmt::format("decoder.layers.{}", layer);
    const std::string theirs = fmt::format("transformer.h.{}", layer);
    add_norm(ours + ".input_layernorm", theirs + ".ln_1");
    add_linear(ours + ".self_attention.linear_qkv", theirs + ".attn.c_attn", 3 * hidden, hidden);
    // Queries, keys and values of all heads; ours have those of each head together.
    for (std::size_t last : {2, 1}) {
      table.rows[table.rows.size() - last].parts[0].blocks = blocks;
    }
    add_linear(ours + ".self_attention.linear_proj", theirs + ".attn.c_proj", hidden, hidden);
    add_norm(ours + ".pre_mlp_layernorm", theirs + ".ln_2");
    add_linear(ours + ".mlp.linear_fc1", theirs + ".mlp.c_fc", ffn, hidden);
    add_linear(ours + ".mlp.linear_fc2", theirs + ".mlp.c_proj", hidden, ffn);
  }
  add_norm("decoder.final_layernorm", "transformer.ln_f");
  if (settings.is_tied()) {
    table.dropped.push_back({.name = "lm_head.weight", .twin = "transformer.wte.weight"});
  } else {
    table.add(plain("output_layer.weight", "lm_head.weight", words));
  }
  // Masks, not weights.
  table.dropped.push_back({.name = "*.attn.bias"});
  table.dropped.push_back({.name = "*.attn.masked_bias"});
  // The oldest files have no prefix.
  table.canonical_name = [](std::string_view stored) {
    const bool has = stored.starts_with("transformer.") || stored.starts_with("lm_head.");
    return (has ? "" : "transformer.") + std::string(stored);
  };
  return table;
}

}  // namespace

const Architecture kGpt2 = {.name = "GPT2LMHeadModel",
                            .model_type = "gpt2",
                            .family = "gpt",
                            .read_config = read_gpt2,
                            .write_config = write_gpt2,
                            .tensors = gpt2_tensors,
                            .default_bos = 50256,
                            .default_eos = 50256};

}  // namespace phalanx::hugging_face
