#include "phalanx/hugging_face/llama_body.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/rope.h"

namespace phalanx::hugging_face {
namespace {

void read_heads(const ConfigFile& config, const LlamaDefaults& defaults, ModelArguments& settings) {
  const std::int64_t heads = settings.heads();
  const bool says_none = config.is_null("num_key_value_heads") || defaults.groups == 0;
  const std::int64_t groups =
      config.size("num_key_value_heads", kMostHeads, says_none ? heads : defaults.groups);
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
  const bool is_known = says_size || defaults.head_size > 0;
  if (!is_known && hidden % heads != 0) {
    throw DataError(
        "{}: 'hidden_size' {} does not divide into {} heads, and there is no 'head_dim'",
        config.where(), hidden, heads);
  }
  settings.set("--kv-channels",
               config.size("head_dim", kMostWidth,
                           defaults.head_size > 0 ? defaults.head_size : hidden / heads));
  if (settings.head_size() % 2 != 0) {
    throw DataError("{}: heads of {} elements cannot be rotated in pairs", config.where(),
                    settings.head_size());
  }
}

// Adds faults for flags that no relative can express.
void check_body(const ModelArguments& settings, const LlamaParts& parts, Faults& faults) {
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
  const bool has_experts = settings.integer("--num-experts") > 0;
  if (parts.experts) {
    expect(has_experts, "--num-experts: layers have experts");
  } else {
    expect(!has_experts, "--num-experts: a layer has one MLP");
  }
  const bool has_norms = settings.is_on("--qk-layernorm");
  if (parts.qk_norm) {
    expect(has_norms, "--qk-layernorm: queries and keys have norms");
  } else {
    expect(!has_norms, "--qk-layernorm: queries and keys have no norms");
  }
  const double scale = settings.number("--attention-scale");
  expect(scale == 0.0, "--attention-scale: it is 1 / sqrt(--kv-channels)");
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

// The norm of a head's query or key, as long as the head.
TensorRow head_norm(const ModelArguments& settings, std::string ours, std::string theirs) {
  const std::int64_t size = settings.head_size();
  TensorRow row = plain(std::move(ours), std::move(theirs), {size});
  if (settings.is_on("--rotary-interleaved")) {
    row.parts[0] = interleaved(std::move(row.parts[0]), size);
  }
  return row;
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

void add_layer(const ModelArguments& settings, std::int64_t layer, const AddMlp& add_mlp,
               TensorTable& table) {
  const std::string ours = fmt::format("decoder.layers.{}", layer);
  const std::string theirs = fmt::format("model.layers.{}", layer);
  const std::int64_t hidden = settings.hidden();
  const std::int64_t queries = settings.heads() * settings.head_size();
  const Biases biases = biases_of(settings);
  const auto add = [&](std::string_view our_end, std::string_view their_end, const Shape& shape) {
    table.add(plain(ours + std::string(our_end), theirs + std::string(their_end), shape));
  };
  table.add(qkv_row(settings, ours, theirs, "weight", hidden));
  if (biases != Biases::kNone) table.add(qkv_row(settings, ours, theirs, "bias", 0));
  add(".self_attention.linear_proj.weight", ".self_attn.o_proj.weight", {hidden, queries});
  if (biases == Biases::kAll) {
    add(".self_attention.linear_proj.bias", ".self_attn.o_proj.bias", {hidden});
  }
  if (settings.is_on("--qk-layernorm")) {
    for (const char letter : {'q', 'k'}) {
      table.add(head_norm(settings,
                          fmt::format("{}.self_attention.{}_layernorm.weight", ours, letter),
                          fmt::format("{}.self_attn.{}_norm.weight", theirs, letter)));
    }
  }
  add_mlp(layer, table);
  add(".input_layernorm.weight", ".input_layernorm.weight", {hidden});
  // They call it the norm after attention, we the norm before the MLP: it is the same.
  add(".pre_mlp_layernorm.weight", ".post_attention_layernorm.weight", {hidden});
}

}  // namespace

void read_llama_body(const ConfigFile& config, const LlamaDefaults& defaults,
                     ModelArguments& settings) {
  settings.set("--num-layers", config.size("num_hidden_layers", kMostLayers));
  settings.set("--hidden-size", config.size("hidden_size"));
  settings.set("--ffn-hidden-size", config.size("intermediate_size"));
  settings.set("--num-attention-heads", config.size("num_attention_heads", kMostHeads));
  settings.set("--model-vocab-size", config.size("vocab_size", kMostInt32));
  settings.set("--max-position-embeddings",
               config.size("max_position_embeddings", kMostInt32, defaults.positions));
  read_heads(config, defaults, settings);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw ConfigError("{}: 'hidden_act' {} is not supported here: silu is", config.where(),
                      activation);
  }
  settings.set("--swiglu", true);
  settings.set("--normalization", "RMSNorm");
  settings.set("--norm-epsilon", config.number("rms_norm_eps", defaults.epsilon));
  settings.set("--init-method-std", config.number("initializer_range", 0.02));
  settings.set("--untie-embeddings-and-output-weights",
               !config.boolean("tie_word_embeddings", false));
  settings.set("--attention-dropout", config.dropout("attention_dropout", 0.0));
  settings.set("--hidden-dropout", 0.0);
  read_rope(config, defaults.rotary_base, settings);
}

void write_llama_body(const ModelArguments& settings, const LlamaParts& parts,
                      nlohmann::json& config, Faults& faults) {
  check_body(settings, parts, faults);
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

Biases biases_of(const ModelArguments& settings) {
  if (!settings.is_on("--disable-bias-linear")) return Biases::kAll;
  return settings.is_on("--add-qkv-bias") ? Biases::kQkv : Biases::kNone;
}

void expect_no_biases(const ModelArguments& settings, Faults& faults) {
  const Biases biases = biases_of(settings);
  if (biases == Biases::kQkv) faults.emplace_back("--add-qkv-bias: linears have no biases");
  if (biases == Biases::kAll) faults.emplace_back("--disable-bias-linear: linears have no biases");
}

void add_dense_mlp(const ModelArguments& settings, std::int64_t layer, TensorTable& table) {
  const std::string ours = fmt::format("decoder.layers.{}.mlp", layer);
  const std::string theirs = fmt::format("model.layers.{}.mlp", layer);
  const std::int64_t hidden = settings.hidden();
  const std::int64_t ffn = settings.ffn_hidden();
  const bool has_biases = biases_of(settings) == Biases::kAll;
  const auto add_fc1 = [&](std::string_view kind, std::int64_t columns) {
    const std::vector<StackedPart> parts = {{fmt::format("{}.gate_proj.{}", theirs, kind), ffn},
                                            {fmt::format("{}.up_proj.{}", theirs, kind), ffn}};
    table.add(stacked(fmt::format("{}.linear_fc1.{}", ours, kind), parts, columns));
  };
  add_fc1("weight", hidden);
  if (has_biases) add_fc1("bias", 0);
  table.add(plain(ours + ".linear_fc2.weight", theirs + ".down_proj.weight", {hidden, ffn}));
  if (has_biases) table.add(plain(ours + ".linear_fc2.bias", theirs + ".down_proj.bias", {hidden}));
}

TensorTable llama_body_tensors(const ModelArguments& settings, const AddMlp& add_mlp) {
  constexpr const char* kTheirWords = "model.embed_tokens.weight";
  constexpr const char* kTheirHead = "lm_head.weight";
  TensorTable table;
  const Shape words = {settings.vocabulary(), settings.hidden()};
  table.add(plain("embedding.word_embeddings.weight", kTheirWords, words));
  for (std::int64_t layer = 0; layer < settings.layers(); ++layer) {
    add_layer(settings, layer, add_mlp, table);
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

}  // namespace phalanx::hugging_face
