// T5 (Raffel et al., 2020) as it was published: versions 1.0 and 1.1.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/folder.h"

namespace phalanx::hugging_face {
namespace {

// A model with relative positions takes texts of any length; published ones were trained with this.
constexpr std::int64_t kLength = 512;
constexpr std::int64_t kBuckets = 32;
constexpr std::int64_t kMaxDistance = 128;

constexpr const char* kTheirWords = "shared.weight";
constexpr const char* kTheirHead = "lm_head.weight";

// The names of MLPs in config.json.
struct Mlp {
  std::string_view name;
  std::string_view activation;
  bool gated;
};
// "gated-gelu" is the tanh form of GeLU.
constexpr std::array kMlps = {Mlp{"relu", "relu", false}, Mlp{"gated-gelu", "gelu", true},
                              Mlp{"gated-silu", "silu", true}};

// Files repeat what feed_forward_proj says in two other keys, which count more in transformers 5.
void check_mlp(const ConfigFile& config, const Mlp& mlp) {
  const std::string_view activation = mlp.activation == "gelu" ? "gelu_new" : mlp.activation;
  const std::string said = config.text("dense_act_fn", std::string(activation));
  if (said != activation || config.boolean("is_gated_act", mlp.gated) != mlp.gated) {
    throw ConfigError(
        "{}: 'feed_forward_proj' is {}, but 'dense_act_fn' and 'is_gated_act' say another MLP: "
        "remove what is wrong",
        config.where(), mlp.name);
  }
}

void read_t5(const ConfigFile& config, ModelArguments& settings) {
  config.also_called("d_model", "hidden_size");
  config.also_called("num_heads", "num_attention_heads");
  config.also_called("num_layers", "num_hidden_layers");
  config.also_called("d_kv", "head_dim");
  const std::int64_t layers = config.size("num_layers", kMostLayers);
  settings.set("--num-layers", layers);
  settings.set("--decoder-num-layers", config.size("num_decoder_layers", kMostLayers, layers));
  settings.set("--hidden-size", config.size("d_model"));
  settings.set("--ffn-hidden-size", config.size("d_ff", 4 * kMostWidth));
  settings.set("--num-attention-heads", config.size("num_heads", kMostHeads));
  settings.set("--kv-channels", config.size("d_kv"));
  settings.set("--model-vocab-size", config.size("vocab_size", kMostInt32));
  const std::string proj = config.text("feed_forward_proj", "relu");
  const auto mlp = std::ranges::find(kMlps, proj, &Mlp::name);
  if (mlp == kMlps.end()) {
    throw ConfigError(
        "{}: 'feed_forward_proj' {} is not supported here: relu, gated-gelu and gated-silu are",
        config.where(), proj);
  }
  check_mlp(config, *mlp);
  settings.set("--activation-func", std::string(mlp->activation));
  settings.set("--gated-linear-unit", mlp->gated);
  settings.set("--no-bias-gelu-fusion", false);
  settings.set("--position-embedding-type", "relative");
  settings.set("--relative-attention-num-buckets",
               config.size("relative_attention_num_buckets", kMostWidth, kBuckets));
  settings.set("--relative-attention-max-distance",
               config.size("relative_attention_max_distance", kMostInt32, kMaxDistance));
  settings.set("--attention-scale", 1.0);
  settings.set("--normalization", "RMSNorm");
  settings.set("--norm-epsilon", config.number("layer_norm_epsilon", 1e-6));
  settings.set("--disable-bias-linear", true);
  settings.set("--disable-output-bias", true);
  const bool tied = config.boolean("tie_word_embeddings", true);
  settings.set("--untie-embeddings-and-output-weights", !tied);
  settings.set("--scale-decoder-output", config.boolean("scale_decoder_outputs", tied));
  const double dropout = config.dropout("dropout_rate", 0.1);
  settings.set("--hidden-dropout", dropout);
  settings.set("--attention-dropout", dropout);
  const std::int64_t length = config.size("n_positions", kMostInt32, kLength);
  settings.set("--max-position-embeddings", length);
  settings.set("--decoder-seq-length", length);
  settings.set(kConfigDecoderStart,
               config.integer("decoder_start_token_id", 0, settings.vocabulary() - 1, 0));
  config.expect("is_encoder_decoder", true, true);
  // Keys that belong to other heads, or are about initial weights.
  for (const char* key : {"classifier_dropout", "initializer_factor", "is_decoder", "output_past",
                          "task_specific_params"}) {
    config.skip(key);
  }
}

// The MLP's name, or a fault.
std::string mlp_name(const ModelArguments& settings, Faults& faults) {
  const bool swiglu = settings.is_on("--swiglu");
  const bool gated = swiglu || settings.is_on("--gated-linear-unit");
  const std::string activation = swiglu ? "silu" : settings.text("--activation-func", "gelu");
  for (const Mlp& mlp : kMlps) {
    if (mlp.activation == activation && mlp.gated == gated) return std::string(mlp.name);
  }
  faults.emplace_back(
      "--activation-func, --gated-linear-unit: the MLP is a relu, or a gated gelu or silu");
  return {};
}

void write_t5(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(settings.text("--position-embedding-type") == "relative",
         "--position-embedding-type: positions are relative");
  expect(settings.text("--normalization") == "RMSNorm", "--normalization: it is RMSNorm");
  expect(!settings.is_on("--apply-layernorm-1p"), "--apply-layernorm-1p: weights are kept whole");
  expect(settings.is_on("--disable-bias-linear") && !settings.is_on("--add-qkv-bias"),
         "--disable-bias-linear: linears have no biases");
  expect(!settings.is_on("--squared-relu"), "--squared-relu: a relu is not squared");
  expect(!settings.is_on("--no-bias-gelu-fusion"),
         "--no-bias-gelu-fusion: the GeLU is the tanh form");
  expect(!settings.is_on("--qk-layernorm"), "--qk-layernorm: queries and keys have no norms");
  expect(settings.number("--attention-scale") == 1.0, "--attention-scale: scores are not scaled");
  expect(!settings.is_tied() || settings.is_on("--disable-output-bias"),
         "--disable-output-bias: logits have no bias");
  expect(settings.number("--hidden-dropout", 0.1) == settings.number("--attention-dropout", 0.1),
         "--attention-dropout: it is --hidden-dropout");
  config["d_model"] = settings.hidden();
  config["d_ff"] = settings.ffn_hidden();
  config["d_kv"] = settings.head_size();
  config["num_heads"] = settings.heads();
  config["num_layers"] = settings.layers();
  config["num_decoder_layers"] = settings.integer("--decoder-num-layers", settings.layers());
  config["vocab_size"] = settings.vocabulary();
  config["feed_forward_proj"] = mlp_name(settings, faults);
  config["relative_attention_num_buckets"] =
      settings.integer("--relative-attention-num-buckets", kBuckets);
  config["relative_attention_max_distance"] =
      settings.integer("--relative-attention-max-distance", kMaxDistance);
  config["layer_norm_epsilon"] = settings.number("--norm-epsilon", 1e-5);
  config["dropout_rate"] = settings.number("--hidden-dropout", 0.1);
  config["tie_word_embeddings"] = settings.is_tied();
  config["scale_decoder_outputs"] = settings.is_on("--scale-decoder-output");
  config["n_positions"] = settings.positions();
  config["decoder_start_token_id"] = settings.integer(kConfigDecoderStart, 0);
  config["initializer_factor"] = 1.0;
  config["is_encoder_decoder"] = true;
  config["use_cache"] = true;
}

// The rows of a block: its attentions, its MLP.
class Block {
 public:
  Block(const ModelArguments& settings, std::string_view stack, std::int64_t layer,
        TensorTable& table)
      : settings_(settings),
        ours_(fmt::format("{}.layers.{}.", stack, layer)),
        theirs_(fmt::format("{}.block.{}.layer.", stack, layer)),
        table_(table) {}

  void self_attention() {
    const std::string attention = next() + "SelfAttention.";
    table_.add(
        grouped(ours_ + "self_attention.linear_qkv.weight",
                by_head({attention + "q.weight", attention + "k.weight", attention + "v.weight"}),
                settings_.heads(), settings_.hidden()));
    projection("self_attention", attention);
  }
  void relative_bias(std::string_view stack) {
    table_.add(plain(
        fmt::format("{}_relative_pos_emb.relative_attention_bias.weight", stack),
        sublayer() + "SelfAttention.relative_attention_bias.weight",
        {settings_.integer("--relative-attention-num-buckets", kBuckets), settings_.heads()}));
  }
  void cross_attention() {
    const std::string attention = next() + "EncDecAttention.";
    table_.add(plain(ours_ + "cross_attention.linear_q.weight", attention + "q.weight",
                     {width(), settings_.hidden()}));
    table_.add(grouped(ours_ + "cross_attention.linear_kv.weight",
                       by_head({attention + "k.weight", attention + "v.weight"}), settings_.heads(),
                       settings_.hidden()));
    projection("cross_attention", attention);
  }
  void mlp(bool gated) {
    const std::string mlp = next() + "DenseReluDense.";
    const std::int64_t ffn = settings_.ffn_hidden();
    const std::vector<StackedPart> parts =
        gated ? std::vector<StackedPart>{{mlp + "wi_0.weight", ffn}, {mlp + "wi_1.weight", ffn}}
              : std::vector<StackedPart>{{mlp + "wi.weight", ffn}};
    table_.add(stacked(ours_ + "mlp.linear_fc1.weight", parts, settings_.hidden()));
    table_.add(
        plain(ours_ + "mlp.linear_fc2.weight", mlp + "wo.weight", {settings_.hidden(), ffn}));
  }
  // Adds the norm that the previous sub-layer of their model holds.
  void norm(std::string_view name) {
    table_.add(plain(fmt::format("{}{}.weight", ours_, name), sublayer() + "layer_norm.weight",
                     {settings_.hidden()}));
  }

 private:
  std::string sublayer() const { return fmt::format("{}{}.", theirs_, sublayers_ - 1); }
  std::string next() {
    ++sublayers_;
    return sublayer();
  }
  std::int64_t width() const { return settings_.heads() * settings_.head_size(); }
  std::vector<GroupedPart> by_head(const std::vector<std::string>& names) const {
    std::vector<GroupedPart> parts;
    for (const std::string& name : names) parts.push_back({name, settings_.head_size()});
    return parts;
  }
  void projection(std::string_view ours, const std::string& theirs) {
    table_.add(plain(fmt::format("{}{}.linear_proj.weight", ours_, ours), theirs + "o.weight",
                     {settings_.hidden(), width()}));
  }

  const ModelArguments& settings_;
  const std::string ours_, theirs_;
  TensorTable& table_;
  int sublayers_ = 0;
};

void add_stack(const ModelArguments& settings, bool is_decoder, TensorTable& table) {
  const std::string stack = is_decoder ? "decoder" : "encoder";
  const std::int64_t layers =
      is_decoder ? settings.integer("--decoder-num-layers", settings.layers()) : settings.layers();
  const bool gated = settings.is_on("--gated-linear-unit") || settings.is_on("--swiglu");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    Block block(settings, stack, layer, table);
    block.self_attention();
    if (layer == 0) block.relative_bias(stack);  // for all layers
    block.norm("input_layernorm");
    if (is_decoder) {
      block.cross_attention();
      block.norm("pre_cross_attn_layernorm");
    }
    block.mlp(gated);
    block.norm("pre_mlp_layernorm");
  }
  table.add(plain(stack + ".final_layernorm.weight", stack + ".final_layer_norm.weight",
                  {settings.hidden()}));
}

TensorTable t5_tensors(const ModelArguments& settings) {
  const Shape words = {settings.vocabulary(), settings.hidden()};
  TensorTable table;
  table.add(plain("embedding.word_embeddings.weight", kTheirWords, words));
  add_stack(settings, false, table);
  add_stack(settings, true, table);
  if (settings.is_tied()) {
    table.dropped.push_back({.name = kTheirHead, .twin = kTheirWords});
  } else {
    table.add(plain("lm_head.output_layer.weight", kTheirHead, words));
  }
  table.dropped.push_back({.name = "encoder.embed_tokens.weight", .twin = kTheirWords});
  table.dropped.push_back({.name = "decoder.embed_tokens.weight", .twin = kTheirWords});
  // The oldest files have one that nothing reads.
  table.dropped.push_back(
      {.name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"});
  return table;
}

// transformers 5 says of every T5 that its output matrix is the word table. A model where it is not
// has the matrix and scales nothing.
void read_t5_tensors(const Folder& folder, ModelArguments& settings) {
  if (!settings.is_tied() || settings.is_on("--scale-decoder-output")) return;
  const auto& tensors = folder.tensors();
  const auto words = tensors.find(kTheirWords);
  const auto head = tensors.find(kTheirHead);
  if (words == tensors.end() || head == tensors.end()) return;
  if (!head->second.is_equal(words->second)) {
    settings.set("--untie-embeddings-and-output-weights", true);
  }
}

// transformers 4 has no such key: it scales if the output matrix is the word table.
std::string t5_remark(const ModelArguments& settings) {
  const bool is_scaled = settings.is_on("--scale-decoder-output");
  if (is_scaled == settings.is_tied()) return {};
  return fmt::format(
      "config.json: 'scale_decoder_outputs' is {} and 'tie_word_embeddings' {}: transformers "
      "before "
      "version 5 do not know the first, and compute another model",
      is_scaled, settings.is_tied());
}

}  // namespace

const Architecture kT5 = {.name = "T5ForConditionalGeneration",
                          .model_type = "t5",
                          .family = "t5",
                          .read_config = read_t5,
                          .write_config = write_t5,
                          .tensors = t5_tensors,
                          .read_tensors = read_t5_tensors,
                          .remark = t5_remark,
                          .default_eos = 1};

}  // namespace phalanx::hugging_face
