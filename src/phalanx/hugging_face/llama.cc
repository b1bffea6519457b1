// Llama (Touvron et al., 2023), Mistral and Qwen2: one model, three dialects of config.json.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/rope.h"
#include "phalanx/hugging_face/window.h"

namespace phalanx::hugging_face {
namespace {

// The defaults of a dialect, for keys that config.json does not have.
struct Dialect {
  std::int64_t positions = 0;
  std::int64_t groups = 0;  // 0: as many as heads
};
constexpr Dialect kOfLlama = {.positions = 2048};
constexpr Dialect kOfMistral = {.positions = 131072, .groups = 8};
constexpr Dialect kOfQwen2 = {.positions = 32768, .groups = 32};

void read_heads(const ConfigFile& config, const Dialect& dialect, ModelArguments& settings) {
  const std::int64_t heads = settings.heads();
  const bool says_none = config.is_null("num_key_value_heads") || dialect.groups == 0;
  const std::int64_t groups =
      config.size("num_key_value_heads", kMostHeads, says_none ? heads : dialect.groups);
  if (heads % groups != 0) {
    throw DataError("{}: {} heads cannot share 'num_key_value_heads' {} evenly", config.where(),
                    heads, groups);
  }
  if (groups != heads) {
    settings.set("--group-query-attention", true);
    settings.set("--num-query-groups", groups);
  }
  const std::int64_t hidden = settings.hidden();
  const bool says_size = config.has("head_dim") && !config.is_null("head_dim");
  if (!says_size && hidden % heads != 0) {
    throw DataError(
        "{}: 'hidden_size' {} does not divide into {} heads, and there is no 'head_dim'",
        config.where(), hidden, heads);
  }
  settings.set("--kv-channels", config.size("head_dim", kMostWidth, hidden / heads));
  if (settings.head_size() % 2 != 0) {
    throw DataError("{}: heads of {} elements cannot be rotated in pairs", config.where(),
                    settings.head_size());
  }
}

void read_common(const ConfigFile& config, const Dialect& dialect, ModelArguments& settings) {
  settings.set("--num-layers", config.size("num_hidden_layers", kMostLayers));
  settings.set("--hidden-size", config.size("hidden_size"));
  settings.set("--ffn-hidden-size", config.size("intermediate_size"));
  settings.set("--num-attention-heads", config.size("num_attention_heads", kMostHeads));
  settings.set("--model-vocab-size", config.size("vocab_size", kMostInt32));
  settings.set("--max-position-embeddings",
               config.size("max_position_embeddings", kMostInt32, dialect.positions));
  read_heads(config, dialect, settings);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw ConfigError("{}: 'hidden_act' {} is not supported here: silu is", config.where(),
                      activation);
  }
  settings.set("--swiglu", true);
  settings.set("--normalization", "RMSNorm");
  settings.set("--norm-epsilon", config.number("rms_norm_eps", 1e-6));
  settings.set("--init-method-std", config.number("initializer_range", 0.02));
  settings.set("--untie-embeddings-and-output-weights",
               !config.boolean("tie_word_embeddings", false));
  settings.set("--attention-dropout", config.dropout("attention_dropout", 0.0));
  settings.set("--hidden-dropout", 0.0);
  read_rope(config, settings);
}

void read_llama(const ConfigFile& config, ModelArguments& settings) {
  read_common(config, kOfLlama, settings);
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
  read_common(config, kOfMistral, settings);
  settings.set("--disable-bias-linear", true);
  if (config.is_null("sliding_window")) {
    config.skip("sliding_window");
    return;
  }
  const auto layers = static_cast<std::size_t>(settings.layers());
  set_window({.keys = config.size("sliding_window", kMostInt32, kWindow),
              .layers = std::vector<bool>(layers, true)},
             settings);
}

std::vector<bool> qwen2_layers(const ConfigFile& config, std::int64_t count) {
  const std::int64_t first = config.integer("max_window_layers", 0, kMostInt32, 28);
  const auto kinds = config.texts("layer_types");
  std::vector<bool> layers;
  if (kinds.empty()) {
    for (std::int64_t layer = 0; layer < count; ++layer) layers.push_back(layer >= first);
    return layers;
  }
  if (std::ssize(kinds) != count) {
    throw DataError("{}: 'layer_types' has {} layers, 'num_hidden_layers' {}", config.where(),
                    kinds.size(), count);
  }
  for (const std::string& kind : kinds) {
    if (kind != "full_attention" && kind != "sliding_attention") {
      throw ConfigError(
          "{}: 'layer_types' {} is not supported: full_attention and "
          "sliding_attention are",
          config.where(), kind);
    }
    layers.push_back(kind == "sliding_attention");
  }
  return layers;
}

void read_qwen2(const ConfigFile& config, ModelArguments& settings) {
  constexpr std::int64_t kWindow = 4096;
  read_common(config, kOfQwen2, settings);
  settings.set("--disable-bias-linear", true);
  settings.set("--add-qkv-bias", true);
  const auto layers = qwen2_layers(config, settings.layers());
  const std::int64_t keys =
      config.is_null("sliding_window") ? 0 : config.size("sliding_window", kMostInt32, kWindow);
  config.skip("sliding_window");
  if (config.boolean("use_sliding_window", false)) {
    set_window({.keys = keys, .layers = layers}, settings);
  }
}

// Adds faults for flags that no dialect can express.
void check_common(const ModelArguments& settings, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(settings.text("--position-embedding-type") == "rope",
         "--position-embedding-type: positions are rope");
  expect(settings.text("--normalization") == "RMSNorm", "--normalization: it is RMSNorm");
  expect(settings.is_on("--swiglu") || (settings.is_on("--gated-linear-unit") &&
                                        settings.text("--activation-func") == "silu"),
         "--swiglu: it is the only MLP");
  expect(!settings.is_on("--apply-layernorm-1p"), "--apply-layernorm-1p: weights are kept whole");
  expect(settings.integer("--num-experts") == 0, "--num-experts: a layer has one MLP");
  expect(!settings.is_on("--qk-layernorm"), "--qk-layernorm: queries and keys have no norms");
  const double scale = settings.number("--attention-scale");
  expect(scale == 0.0, "--attention-scale: it is 1 / sqrt(--kv-channels)");
}

// Which linears of a layer have a bias.
enum class Biases { kNone, kQkv, kAll };
Biases biases_of(const ModelArguments& settings) {
  if (!settings.is_on("--disable-bias-linear")) return Biases::kAll;
  return settings.is_on("--add-qkv-bias") ? Biases::kQkv : Biases::kNone;
}

void write_common(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  check_common(settings, faults);
  config["hidden_size"] = settings.hidden();
  config["intermediate_size"] = settings.ffn_hidden();
  config["num_hidden_layers"] = settings.layers();
  config["num_attention_heads"] = settings.heads();
  config["num_key_value_heads"] = settings.groups();
  config["vocab_size"] = settings.vocabulary();
  config["max_position_embeddings"] = settings.positions();
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = settings.number("--norm-epsilon");
  config["initializer_range"] = settings.number("--init-method-std", 0.02);
  config["tie_word_embeddings"] = settings.is_tied();
  config["attention_dropout"] = settings.number("--attention-dropout");
  config["use_cache"] = true;
  write_rope(settings, config, faults);
}

void write_llama(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_common(settings, config, faults);
  const Biases biases = biases_of(settings);
  if (biases == Biases::kQkv) faults.emplace_back("--add-qkv-bias: all linears have one, or none");
  if (window_of(settings).keys > 0) faults.emplace_back("--window-size: queries see all keys");
  config["head_dim"] = settings.head_size();
  config["attention_bias"] = biases == Biases::kAll;
  config["mlp_bias"] = biases == Biases::kAll;
}

void write_mistral(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_common(settings, config, faults);
  const Biases biases = biases_of(settings);
  if (biases == Biases::kQkv) faults.emplace_back("--add-qkv-bias: linears have no biases");
  if (biases == Biases::kAll) faults.emplace_back("--disable-bias-linear: linears have no biases");
  const Window window = window_of(settings);
  if (std::ranges::find(window.layers, false) != window.layers.end()) {
    faults.emplace_back("--window-attn-skip-freq: all layers have the window, or none");
  }
  config["head_dim"] = settings.head_size();
  config["sliding_window"] = window.keys > 0 ? nlohmann::json(window.keys) : nlohmann::json();
}

void write_qwen2(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_common(settings, config, faults);
  if (biases_of(settings) != Biases::kQkv) {
    faults.emplace_back(
        "--add-qkv-bias, --disable-bias-linear: queries, keys and values have "
        "biases, and nothing else");
  }
  if (settings.head_size() * settings.heads() != settings.hidden()) {
    faults.emplace_back("--kv-channels: heads share --hidden-size out among them");
  }
  const Window window = window_of(settings);
  const auto first = std::ranges::find(window.layers, true) - window.layers.begin();
  if (std::find(window.layers.begin() + first, window.layers.end(), false) != window.layers.end()) {
    faults.emplace_back("--window-attn-skip-freq: the last layers have the window");
  }
  const bool has_window = window.keys > 0;
  config["use_sliding_window"] = has_window;
  config["sliding_window"] = has_window ? nlohmann::json(window.keys) : nlohmann::json();
  config["max_window_layers"] = has_window ? first : settings.layers();
}

// The rows of one head: in ours, rotated pairs are neighbours; in theirs, they are half a head
// apart.
TensorPart interleaved(TensorPart part, std::int64_t head_size) {
  std::vector<RowBlock> blocks;
  for (const RowBlock& block : part.blocks) {
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t head = row / head_size * head_size;
      const std::int64_t pair = (row - head) / 2;
      const std::int64_t half = (row - head) % 2 * (head_size / 2);
      blocks.push_back(
          {.theirs = block.theirs + head + pair + half, .ours = block.ours + row, .rows = 1});
    }
  }
  part.blocks = std::move(blocks);
  return part;
}

// linear_qkv: for every key/value head its query rows, its key and its value.
TensorRow qkv_row(const ModelArguments& settings, const std::string& ours,
                  const std::string& theirs, std::string_view kind, std::int64_t columns) {
  const std::int64_t size = settings.head_size();
  const std::int64_t groups = settings.groups();
  const std::vector<GroupedPart> parts = {
      {fmt::format("{}.self_attn.q_proj.{}", theirs, kind), settings.heads() / groups * size},
      {fmt::format("{}.self_attn.k_proj.{}", theirs, kind), size},
      {fmt::format("{}.self_attn.v_proj.{}", theirs, kind), size}};
  TensorRow row =
      grouped(fmt::format("{}.self_attention.linear_qkv.{}", ours, kind), parts, groups, columns);
  if (settings.is_on("--rotary-interleaved")) {
    for (std::size_t part : {0, 1}) row.parts[part] = interleaved(std::move(row.parts[part]), size);
  }
  return row;
}

void add_layer(const ModelArguments& settings, std::int64_t layer, TensorTable& table) {
  const std::string ours = fmt::format("decoder.layers.{}", layer);
  const std::string theirs = fmt::format("model.layers.{}", layer);
  const std::int64_t hidden = settings.hidden();
  const std::int64_t ffn = settings.ffn_hidden();
  const std::int64_t queries = settings.heads() * settings.head_size();
  const Biases biases = biases_of(settings);
  const auto add = [&](std::string_view our_end, std::string_view their_end, const Shape& shape) {
    table.add(plain(ours + std::string(our_end), theirs + std::string(their_end), shape));
  };
  const auto add_fc1 = [&](std::string_view kind, std::int64_t columns) {
    const std::vector<StackedPart> parts = {{fmt::format("{}.mlp.gate_proj.{}", theirs, kind), ffn},
                                            {fmt::format("{}.mlp.up_proj.{}", theirs, kind), ffn}};
    table.add(stacked(fmt::format("{}.mlp.linear_fc1.{}", ours, kind), parts, columns));
  };
  table.add(qkv_row(settings, ours, theirs, "weight", hidden));
  if (biases != Biases::kNone) table.add(qkv_row(settings, ours, theirs, "bias", 0));
  add(".self_attention.linear_proj.weight", ".self_attn.o_proj.weight", {hidden, queries});
  if (biases == Biases::kAll) {
    add(".self_attention.linear_proj.bias", ".self_attn.o_proj.bias", {hidden});
  }
  add_fc1("weight", hidden);
  if (biases == Biases::kAll) add_fc1("bias", 0);
  add(".mlp.linear_fc2.weight", ".mlp.down_proj.weight", {hidden, ffn});
  if (biases == Biases::kAll) add(".mlp.linear_fc2.bias", ".mlp.down_proj.bias", {hidden});
  add(".input_layernorm.weight", ".input_layernorm.weight", {hidden});
  // They call it the norm after attention, we the norm before the MLP: it is the same.
  add(".pre_mlp_layernorm.weight", ".post_attention_layernorm.weight", {hidden});
}

TensorTable llama_tensors(const ModelArguments& settings) {
  constexpr const char* kTheirWords = "model.embed_tokens.weight";
  constexpr const char* kTheirHead = "lm_head.weight";
  TensorTable table;
  const Shape words = {settings.vocabulary(), settings.hidden()};
  table.add(plain("embedding.word_embeddings.weight", kTheirWords, words));
  for (std::int64_t layer = 0; layer < settings.layers(); ++layer) {
    add_layer(settings, layer, table);
  }
  table.add(plain("decoder.final_layernorm.weight", "model.norm.weight", {settings.hidden()}));
  if (settings.is_tied()) {
    table.dropped.push_back({.name = kTheirHead, .twin = kTheirWords});
  } else {
    table.add(plain("output_layer.weight", kTheirHead, words));
  }
  table.dropped.push_back({.name = "*.rotary_emb.inv_freq"});
  table.dropped.push_back({.name = "*.position_ids"});
  return table;
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

}  // namespace phalanx::hugging_face
