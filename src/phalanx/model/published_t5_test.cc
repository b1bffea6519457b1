// The published T5, versions 1.0 and 1.1, in double against losses and gradient norms that
// transformers 5.23 computed of T5ForConditionalGeneration.

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/model/published_weights.h"
#include "phalanx/model/t5_test_support.h"

namespace phalanx {
namespace {

enum class Version { k10, k11 };

T5Config published_config(Version version) {
  const bool first = version == Version::k10;
  T5Config config = test_t5_config(T5Positions::kRelative, first);
  nn::TransformerConfig& t = config.transformer;
  t.hidden = 16;
  t.heads = 3;
  t.query_groups = 3;
  t.head_size = 6;
  t.ffn_hidden = 24;
  t.hidden_dropout = 0.0;
  t.attention_dropout = 0.0;
  t.norm = nn::NormKind::kRmsNorm;
  t.norm_epsilon = 1e-6;
  t.activation = first ? ops::ActivationKind::kRelu : ops::ActivationKind::kGeluTanh;
  t.gated = !first;
  t.linear_bias = false;
  t.qkv_bias = false;
  t.attention_scale = 1.0;
  config.vocabulary = 32;
  config.padded_vocabulary = 32;
  config.max_positions = 7;
  config.sequence = 7;
  config.decoder_sequence = 5;
  config.relative_buckets = 8;
  config.relative_max_distance = 12;
  config.output_bias = false;
  config.output_scale = first ? 0.25 : 1.0;
  return config;
}

T5Samples published_samples() {
  return {.encoder = {{0, 10, 26, 16, 12, 14, 22}, {5, 16, 1, 24, 21, 24, 1}},
          .decoder = {{0, 0, 6, 14, 24}, {0, 11, 17, 25, 3}},
          .labels = {{0, 6, 14, 24, 1}, {11, 17, 25, 3, 1}}};
}

void add_stack(const T5Config& config, bool is_decoder, PublishedWeights& weights) {
  const nn::TransformerConfig& t = config.transformer;
  const std::string stack = is_decoder ? "decoder" : "encoder";
  for (int i = 0; i < 2; ++i) {
    const std::string layer = stack + ".layers." + std::to_string(i) + ".";
    weights.by_head(layer + "self_attention.linear_qkv", 3, t.head_size, t.hidden, false);
    weights.matrix(layer + "self_attention.linear_proj.weight");
    if (i == 0) weights.matrix(stack + "_relative_pos_emb.relative_attention_bias.weight");
    weights.norm(layer + "input_layernorm.weight");
    if (is_decoder) {
      weights.matrix(layer + "cross_attention.linear_q.weight");
      weights.by_head(layer + "cross_attention.linear_kv", 2, t.head_size, t.hidden, false);
      weights.matrix(layer + "cross_attention.linear_proj.weight");
      weights.norm(layer + "pre_cross_attn_layernorm.weight");
    }
    weights.stacked(layer + "mlp.linear_fc1.weight", t.gated ? 2 : 1, t.ffn_hidden * t.hidden);
    weights.matrix(layer + "mlp.linear_fc2.weight");
    weights.norm(layer + "pre_mlp_layernorm.weight");
  }
  weights.norm(stack + ".final_layernorm.weight");
}

PublishedWeights published_weights(const T5Config& config) {
  PublishedWeights weights;
  weights.embedding("embedding.word_embeddings.weight");
  add_stack(config, false, weights);
  add_stack(config, true, weights);
  if (!config.tied_embedding) weights.matrix("lm_head.output_layer.weight");
  return weights;
}

struct Published {
  double loss, gradient_norm;
  std::vector<double> tables;  // gradient norms of both stacks' relative tables
};

void expect_published(Version version, const Published& expected) {
  nn::TestMachine machine;
  Context& context = machine.context;
  ops::Operands& operands = machine.operands;
  const T5Config config = published_config(version);
  const PublishedWeights weights = published_weights(config);
  T5Fixture t5(operands, config, t5_stages(config), nullptr, published_samples(),
               [&](const std::string& name, std::int64_t i) { return weights.at(name, i); });
  // Here id 0 is a word like others; the end of the second text is padding.
  for (std::int64_t i = 0; i < 14; ++i) {
    nn::write_element(t5.column("document"), i, i == 11 || i == 13 ? -1.0 : 0.0);
  }
  for (std::int64_t i = 0; i < 10; ++i) nn::write_element(t5.column("decoder_document"), i, 0.0);
  // The gradient of the mean over 10 labels, times a loss scale of 8.
  t5.loss().factor = 1.0 / (8.0 * 10.0);
  t5.forward(context);
  t5.backward(context);
  EXPECT_NEAR(nn::values_of(t5.loss().sum)[0] / 10.0, expected.loss, 1e-10);

  double squares = 0.0;
  std::map<std::string, double> norms;
  for (const auto& [name, values] : t5.gradients(context, operands)) {
    double of_name = 0.0;
    for (const double value : values) of_name += value * value;
    norms[name] = std::sqrt(of_name);
    squares += of_name;
  }
  EXPECT_NEAR(std::sqrt(squares), expected.gradient_norm, 1e-10);
  const std::string table = "_relative_pos_emb.relative_attention_bias.weight";
  EXPECT_NEAR(norms.at("encoder" + table), expected.tables[0], 1e-9);
  EXPECT_NEAR(norms.at("decoder" + table), expected.tables[1], 1e-9);
}

TEST(PublishedT5, Version10) {
  expect_published(Version::k10, {.loss = 3.489003033741,
                                  .gradient_norm = 1.968693513598,
                                  .tables = {.030631502, .033589590}});
}

TEST(PublishedT5, Version11) {
  expect_published(Version::k11, {.loss = 4.482518680310,
                                  .gradient_norm = 8.812956495060,
                                  .tables = {.353224725, .067145045}});
}

}  // namespace
}  // namespace phalanx
