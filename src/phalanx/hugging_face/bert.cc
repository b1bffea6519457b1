// BERT (Devlin et al., 2019), whose layers end in their norms, and MegatronBert, whose layers begin
// with them. Both with the two heads of pretraining, which published files have although their
// config.json names one of them alone (BertForMaskedLM).

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/bert_body.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::int64_t kSegments = 2;
constexpr double kEpsilon = 1e-12;

bool is_post_norm(const ModelArguments& settings) { return settings.is_on("--post-layernorm"); }

void read_heads(const ConfigFile& config, ModelArguments& settings) {
  const std::int64_t hidden = config.size("hidden_size");
  const std::int64_t heads = config.size("num_attention_heads", kMostHeads);
  if (hidden % heads != 0) {
    throw DataError("{}: 'hidden_size' {} does not divide into {} heads", config.where(), hidden,
                    heads);
  }
  settings.set("--hidden-size", hidden);
  settings.set("--num-attention-heads", heads);
  settings.set("--kv-channels", hidden / heads);
}

}  // namespace

void read_bert_body(const ConfigFile& config, ModelArguments& settings) {
  settings.set("--num-layers", config.size("num_hidden_layers", kMostLayers));
  read_heads(config, settings);
  settings.set("--ffn-hidden-size", config.size("intermediate_size", 4 * kMostWidth));
  settings.set("--max-position-embeddings", config.size("max_position_embeddings", kMostInt32));
  settings.set("--model-vocab-size", config.size("vocab_size", kMostInt32));
  const std::int64_t segments = config.size("type_vocab_size", kMostInt32, kSegments);
  if (segments != kSegments) {
    throw ConfigError("{}: 'type_vocab_size' {} is not supported here: {} is", config.where(),
                      segments, kSegments);
  }
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    throw ConfigError("{}: 'position_embedding_type' {} is not supported here: absolute is",
                      config.where(), positions);
  }
  settings.set("--normalization", "LayerNorm");
  settings.set("--norm-epsilon", config.number("layer_norm_eps", kEpsilon));
  settings.set("--init-method-std", config.number("initializer_range", 0.02));
  settings.set("--hidden-dropout", config.dropout("hidden_dropout_prob", 0.1));
  settings.set("--attention-dropout", config.dropout("attention_probs_dropout_prob", 0.1));
  settings.set("--bert-no-binary-head", false);
  config.expect("is_decoder", false, false);
  config.expect("add_cross_attention", false, false);
  // It belongs to other heads than those of pretraining; our training uses --hidden-dropout there.
  config.skip("classifier_dropout");
}

namespace {

// Reads the keys that both have in common.
void read_common(const ConfigFile& config, ModelArguments& settings) {
  read_bert_body(config, settings);
  // The head has the same activation, and Phalanx has the head with the exact GeLU only.
  const std::string activation = config.text("hidden_act", "gelu");
  if (activation != "gelu") {
    throw ConfigError("{}: 'hidden_act' {} is not supported here: gelu is", config.where(),
                      activation);
  }
  settings.set("--no-bias-gelu-fusion", true);
  config.expect("tie_word_embeddings", true, true);
  settings.set("--untie-embeddings-and-output-weights", false);
}

// kPostNorm: the norms of BERT follow the sub-layers; those of MegatronBert precede them.
template <bool kPostNorm>
void read_encoder(const ConfigFile& config, ModelArguments& settings) {
  read_common(config, settings);
  settings.set("--post-layernorm", kPostNorm);
}

}  // namespace

void write_bert_body(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(!settings.is_on("--swiglu") && !settings.is_on("--gated-linear-unit"),
         "--swiglu, --gated-linear-unit: the MLP has no gate");
  expect(!settings.is_on("--squared-relu"), "--squared-relu: the activation is a GeLU");
  expect(settings.text("--normalization", "LayerNorm") == "LayerNorm",
         "--normalization: it is LayerNorm");
  expect(!settings.is_on("--apply-layernorm-1p"), "--apply-layernorm-1p: weights are kept whole");
  expect(!settings.is_on("--disable-bias-linear"), "--disable-bias-linear: linears have biases");
  expect(!settings.is_on("--qk-layernorm"), "--qk-layernorm: queries and keys have no norms");
  expect(settings.groups() == settings.heads(),
         "--num-query-groups: heads have keys and values of their own");
  expect(settings.head_size() * settings.heads() == settings.hidden(),
         "--kv-channels: heads share --hidden-size out among them");
  expect(settings.number("--attention-scale") == 0.0,
         "--attention-scale: it is 1 / sqrt(--kv-channels)");
  config["hidden_size"] = settings.hidden();
  config["num_hidden_layers"] = settings.layers();
  config["num_attention_heads"] = settings.heads();
  config["intermediate_size"] = settings.ffn_hidden();
  config["max_position_embeddings"] = settings.positions();
  config["vocab_size"] = settings.vocabulary();
  config["type_vocab_size"] = kSegments;
  config["layer_norm_eps"] = settings.number("--norm-epsilon", 1e-5);
  config["initializer_range"] = settings.number("--init-method-std", 0.02);
  config["hidden_dropout_prob"] = settings.number("--hidden-dropout", 0.1);
  config["attention_probs_dropout_prob"] = settings.number("--attention-dropout", 0.1);
  config["position_embedding_type"] = "absolute";
  config["is_decoder"] = false;
  config["add_cross_attention"] = false;
  config["use_cache"] = true;
}

void expect_bert_norms(const ModelArguments& settings, bool post, Faults& faults) {
  if (is_post_norm(settings) == post) return;
  faults.emplace_back(post ? "--post-layernorm: norms are behind the sub-layers"
                           : "--post-layernorm: norms are before the sub-layers");
}

namespace {

void write_common(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  const auto expect = [&](bool holds, std::string_view fault) {
    if (!holds) faults.emplace_back(fault);
  };
  expect(settings.is_on("--no-bias-gelu-fusion") &&
             settings.text("--activation-func", "gelu") == "gelu",
         "--no-bias-gelu-fusion: the layers' activation is the head's, the exact GeLU");
  write_bert_body(settings, config, faults);
  expect(!settings.is_on("--bert-no-binary-head"), "--bert-no-binary-head: there are two heads");
  expect(settings.is_tied(),
         "--untie-embeddings-and-output-weights: the output matrix is the word table");
  config["hidden_act"] = "gelu";
  config["tie_word_embeddings"] = true;
}

template <bool kPostNorm>
void write_encoder(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_common(settings, config, faults);
  expect_bert_norms(settings, kPostNorm, faults);
}

// Adds weights and biases under our name and theirs.
class Pairs {
 public:
  explicit Pairs(TensorTable& table) : table_(table) {}

  void linear(const std::string& ours, const std::string& theirs, std::int64_t out,
              std::int64_t in) {
    table_.add(plain(ours + ".weight", theirs + ".weight", {out, in}));
    table_.add(plain(ours + ".bias", theirs + ".bias", {out}));
  }
  void norm(const std::string& ours, const std::string& theirs, std::int64_t width) {
    table_.add(plain(ours + ".weight", theirs + ".weight", {width}));
    table_.add(plain(ours + ".bias", theirs + ".bias", {width}));
  }
  // Queries, keys and values; in ours those of each head are together.
  void qkv(const std::string& ours, const std::string& theirs, const ModelArguments& settings) {
    for (const auto& [kind, columns] :
         {std::pair("weight", settings.hidden()), std::pair("bias", std::int64_t{0})}) {
      std::vector<GroupedPart> parts;
      for (const char* part : {"query", "key", "value"}) {
        parts.push_back({fmt::format("{}.{}.{}", theirs, part, kind), settings.head_size()});
      }
      table_.add(grouped(fmt::format("{}.{}", ours, kind), parts, settings.heads(), columns));
    }
  }

 private:
  TensorTable& table_;
};

void add_layer(const ModelArguments& settings, std::int64_t layer, Pairs& add) {
  const std::string ours = fmt::format("encoder.layers.{}.", layer);
  const std::string theirs = fmt::format("bert.encoder.layer.{}.", layer);
  const std::int64_t hidden = settings.hidden();
  const std::int64_t ffn = settings.ffn_hidden();
  const bool post = is_post_norm(settings);
  if (!post) add.norm(ours + "input_layernorm", theirs + "attention.ln", hidden);
  add.qkv(ours + "self_attention.linear_qkv", theirs + "attention.self", settings);
  add.linear(ours + "self_attention.linear_proj", theirs + "attention.output.dense", hidden,
             hidden);
  if (post) {
    add.norm(ours + "post_self_attn_layernorm", theirs + "attention.output.LayerNorm", hidden);
  } else {
    add.norm(ours + "pre_mlp_layernorm", theirs + "ln", hidden);
  }
  add.linear(ours + "mlp.linear_fc1", theirs + "intermediate.dense", ffn, hidden);
  add.linear(ours + "mlp.linear_fc2", theirs + "output.dense", hidden, ffn);
  if (post) add.norm(ours + "post_mlp_layernorm", theirs + "output.LayerNorm", hidden);
}

// The oldest files call the parameters of norms gamma and beta.
std::string canonical_name(std::string_view stored) {
  constexpr auto kOld = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}});
  for (const auto& [old, name] : kOld) {
    if (!stored.ends_with(old)) continue;
    return std::string(stored.substr(0, stored.size() - old.size())) + std::string(name);
  }
  return std::string(stored);
}

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";

}  // namespace

TensorTable bert_body_tensors(const ModelArguments& settings) {
  const std::int64_t hidden = settings.hidden();
  TensorTable table;
  Pairs add(table);
  table.add(plain("embedding.word_embeddings.weight", kWords, {settings.vocabulary(), hidden}));
  table.add(plain("embedding.position_embeddings.weight",
                  "bert.embeddings.position_embeddings.weight", {settings.positions(), hidden}));
  table.add(plain("embedding.tokentype_embeddings.weight",
                  "bert.embeddings.token_type_embeddings.weight", {kSegments, hidden}));
  if (is_post_norm(settings)) {
    add.norm("embedding.layernorm", "bert.embeddings.LayerNorm", hidden);
  }
  for (std::int64_t layer = 0; layer < settings.layers(); ++layer) add_layer(settings, layer, add);
  if (!is_post_norm(settings)) add.norm("encoder.final_layernorm", "bert.encoder.ln", hidden);
  add.linear("pooler.dense", "bert.pooler.dense", hidden, hidden);
  table.dropped = {{.name = "*.position_ids"}};
  table.canonical_name = canonical_name;
  return table;
}

namespace {

TensorTable bert_tensors(const ModelArguments& settings) {
  const std::int64_t hidden = settings.hidden();
  TensorTable table = bert_body_tensors(settings);
  Pairs add(table);
  table.add(plain("output_layer.bias", "cls.predictions.bias", {settings.vocabulary()}));
  add.linear("lm_head.dense", "cls.predictions.transform.dense", hidden, hidden);
  add.norm("lm_head.layer_norm", "cls.predictions.transform.LayerNorm", hidden);
  add.linear("binary_head", "cls.seq_relationship", 2, hidden);
  table.dropped.push_back({.name = "cls.predictions.decoder.weight", .twin = kWords});
  table.dropped.push_back({.name = "cls.predictions.decoder.bias", .twin = "cls.predictions.bias"});
  return table;
}

// Their config.json names the head that they are published for; the files have both.
constexpr std::string_view kMaskedLmIsRead =
    "it is read with the pooler and both heads of pretraining, as published files have them; where "
    "they were not saved, load the folder with transformers' BertForPreTraining, which draws them, "
    "and save_pretrained() that";

template <bool kPostNorm>
constexpr Architecture bert_architecture(std::string_view name,
                                         std::string_view what_is_read = {}) {
  return {.name = name,
          .model_type = kPostNorm ? "bert" : "megatron-bert",
          .family = "bert",
          .read_config = read_encoder<kPostNorm>,
          .write_config = write_encoder<kPostNorm>,
          .tensors = bert_tensors,
          .what_is_read = what_is_read};
}

}  // namespace

const Architecture kBert = bert_architecture<true>("BertForPreTraining");
const Architecture kBertMaskedLm = bert_architecture<true>("BertForMaskedLM", kMaskedLmIsRead);
const Architecture kMegatronBert = bert_architecture<false>("MegatronBertForPreTraining");
const Architecture kMegatronBertMaskedLm =
    bert_architecture<false>("MegatronBertForMaskedLM", kMaskedLmIsRead);

}  // namespace phalanx::hugging_face
