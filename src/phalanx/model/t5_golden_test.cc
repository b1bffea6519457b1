// A tiny T5 in double against losses, logits and gradient norms of Megatron-core 0.16.1 and of an
// independent program.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "phalanx/model/t5_test_support.h"

namespace phalanx {
namespace {

T5Config golden_config(ops::ActivationKind gelu, T5Positions positions, bool tied) {
  T5Config config = test_t5_config(positions, tied);
  nn::TransformerConfig& t = config.transformer;
  t.hidden = 16;
  t.heads = 4;
  t.query_groups = 4;
  t.head_size = 4;
  t.ffn_hidden = 64;
  t.hidden_dropout = 0.0;
  t.attention_dropout = 0.0;
  t.activation = gelu;
  config.encoder_layers = 3;
  config.decoder_layers = 2;
  config.vocabulary = 64;
  config.padded_vocabulary = 64;
  config.max_positions = 16;
  config.sequence = 16;
  config.decoder_sequence = 8;
  config.relative_buckets = 32;
  config.relative_max_distance = 128;
  return config;
}

T5Samples golden_samples() {
  return {.encoder = {{5, 13, 23, 35, 49, 6, 24, 44, 7, 31, 57, 26, 56, 29, 63, 40},
                      {16, 24, 34, 46, 60, 17, 35, 55, 18, 42, 9, 37, 0, 0, 0, 0}},
          .decoder = {{5, 11, 19, 29, 41, 55, 12, 30}, {8, 14, 22, 32, 44, 0, 0, 0}},
          .labels = {{5, 9, 15, 23, 33, 45, 59, 16}, {18, 22, 28, 36, 46, -1, -1, -1}}};
}

std::uint32_t mix(std::uint32_t i, std::uint32_t q) {
  std::uint32_t x = i * 0x9E3779B1U + q * 0x85EBCA77U;
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

// Element i of parameter number q in the order of the names.
WeightAt formula_weights(const T5Config& config) {
  nn::ParamTable table;
  T5Model(config).build_chunk(t5_stages(config)[0], table);
  std::map<std::string, std::uint32_t> numbers;
  for (const ParamSpec& spec : table.specs()) numbers.emplace(spec.name, 0);
  std::uint32_t next = 0;
  for (auto& [name, number] : numbers) number = next++;
  return [numbers](const std::string& name, std::int64_t index) {
    const double u = 2.0 * mix(static_cast<std::uint32_t>(index), numbers.at(name)) / 0x1p32 - 1.0;
    const bool scale = name.find("layernorm") != std::string::npos && name.ends_with("weight");
    return static_cast<double>(static_cast<float>(0.3 * std::sqrt(3.0) * u + (scale ? 1.0 : 0.0)));
  };
}

class TinyT5 {
 public:
  explicit TinyT5(const T5Config& config, const T5Samples& samples = golden_samples())
      : t5_(operands_, config, t5_stages(config), nullptr, samples, formula_weights(config)) {
    // The gradient of the mean over 13 labels.
    t5_.loss().factor = 1.0 / (8.0 * 13.0);
  }
  double loss() {
    t5_.forward(context_);
    return nn::values_of(t5_.loss().sum)[0] / nn::values_of(t5_.loss().count)[0];
  }
  std::map<std::string, double> gradient_norms() {
    t5_.forward(context_);
    t5_.backward(context_);
    std::map<std::string, double> norms;
    for (const auto& [name, values] : t5_.gradients(context_, operands_)) {
      double squares = 0.0;
      for (const double value : values) squares += value * value;
      norms[name] = std::sqrt(squares);
    }
    return norms;
  }
  // The losses of all rows [s, b], or the logits of the last.
  nn::Values infer(bool rows) {
    const Tensor tensor = operands_.output(rows ? Shape{16} : Shape{1, 64});
    t5_.training = false;
    nn::Pass pass = t5_.pass(context_, t5_.stage(0));
    nn::InferencePass inference{.pass = pass,
                                .caches = {},
                                .logits = rows ? Tensor{} : tensor,
                                .row_losses = rows ? tensor : Tensor{}};
    t5_.stage(0).chunk.infer(inference, t5_.stage(0).tensors);
    return nn::values_of(tensor);
  }
  void set_zero(const std::string& name) {
    T5Stage& stage = t5_.stage(0);
    for (ParamId id = 0; id < stage.table.size(); ++id) {
      if (stage.table[id].name != name) continue;
      ops::fill(context_, {.x = stage.parameters[static_cast<std::size_t>(id)], .value = 0.0});
    }
  }

 private:
  nn::TestMachine machine_;
  Context& context_ = machine_.context;
  ops::Operands& operands_ = machine_.operands;
  T5Fixture t5_;
};

constexpr auto kTanh = ops::ActivationKind::kGeluTanh;
constexpr auto kErf = ops::ActivationKind::kGeluErf;
constexpr auto kLearned = T5Positions::kLearned;

TEST(TinyT5, Losses) {
  EXPECT_NEAR(TinyT5(golden_config(kTanh, kLearned, true)).loss(), 4.208881850815561, 1e-9);
  EXPECT_NEAR(TinyT5(golden_config(kErf, kLearned, true)).loss(), 4.20892624658245, 1e-9);
  EXPECT_NEAR(TinyT5(golden_config(kTanh, T5Positions::kRelative, true)).loss(), 4.198257941071798,
              1e-9);
  EXPECT_NEAR(TinyT5(golden_config(kTanh, kLearned, false)).loss(), 5.0030583680762, 1e-9);
}

TEST(TinyT5, UnfusedAttention) {
  T5Config config = golden_config(kTanh, T5Positions::kRelative, true);
  config.transformer.attention = nn::AttentionKernel::kUnfused;
  EXPECT_NEAR(TinyT5(config).loss(), 4.198257941071798, 1e-9);
}

// The bias of the logits is there, and without it the loss is another known one.
TEST(TinyT5, WithoutTheLogitBias) {
  TinyT5 t5(golden_config(kTanh, kLearned, true));
  t5.set_zero("lm_head.output_layer.bias");
  EXPECT_NEAR(t5.loss(), 4.018547396640924, 1e-9);
}

TEST(TinyT5, LossesOfSamples) {
  const nn::Values rows = TinyT5(golden_config(kTanh, kLearned, true)).infer(true);
  double sums[2] = {0.0, 0.0};
  for (std::size_t s = 0; s < 8; ++s) {
    sums[0] += rows[2 * s];
    if (s < 5) sums[1] += rows[2 * s + 1];
  }
  EXPECT_NEAR(sums[0], 33.866445578288875, 1e-9);
  EXPECT_NEAR(sums[1], 20.84901848231343, 1e-9);
}

TEST(TinyT5, Logits) {
  T5Samples first = golden_samples();
  for (auto* rows : {&first.encoder, &first.decoder, &first.labels}) rows->resize(1);
  first.decoder[0].resize(2);
  first.labels[0].resize(2);
  const nn::Values logits = TinyT5(golden_config(kTanh, kLearned, true), first).infer(false);
  EXPECT_NEAR(logits[0], -0.10779241673190898, 1e-9);
  EXPECT_NEAR(logits[1], -0.3422162425754648, 1e-9);
  EXPECT_NEAR(logits[2], -0.8713482473186163, 1e-9);
}

// To the printed digits: weight, then bias where there is one.
TEST(TinyT5, GradientNorms) {
  const std::map<std::string, std::vector<double>> expected = {
      {"decoder.final_layernorm", {0.297917, 0.252337}},
      {"decoder.layers.0.cross_attention.linear_kv", {0.615448, 0.13155}},
      {"decoder.layers.0.cross_attention.linear_proj", {0.455836, 0.104023}},
      {"decoder.layers.0.cross_attention.linear_q", {0.17762, 0.0340066}},
      {"decoder.layers.0.input_layernorm", {0.191004, 0.252343}},
      {"decoder.layers.0.mlp.linear_fc1", {0.415255, 0.0813333}},
      {"decoder.layers.0.mlp.linear_fc2", {0.386234, 0.0503527}},
      {"decoder.layers.0.pre_cross_attn_layernorm", {0.0430484, 0.0389583}},
      {"decoder.layers.0.pre_mlp_layernorm", {0.109099, 0.133303}},
      {"decoder.layers.0.self_attention.linear_proj", {0.581139, 0.113874}},
      {"decoder.layers.0.self_attention.linear_qkv", {0.829543, 0.190119}},
      {"decoder.layers.1.cross_attention.linear_kv", {0.370802, 0.0783067}},
      {"decoder.layers.1.cross_attention.linear_proj", {0.305093, 0.0494338}},
      {"decoder.layers.1.cross_attention.linear_q", {0.0954081, 0.018583}},
      {"decoder.layers.1.input_layernorm", {0.0576178, 0.0669497}},
      {"decoder.layers.1.mlp.linear_fc1", {0.42433, 0.0878381}},
      {"decoder.layers.1.mlp.linear_fc2", {0.444746, 0.0504282}},
      {"decoder.layers.1.pre_cross_attn_layernorm", {0.0261307, 0.0225096}},
      {"decoder.layers.1.pre_mlp_layernorm", {0.0759332, 0.0795212}},
      {"decoder.layers.1.self_attention.linear_proj", {0.276763, 0.0495729}},
      {"decoder.layers.1.self_attention.linear_qkv", {0.30637, 0.0674246}},
      {"embedding.position_embeddings", {0.731843}},
      {"embedding.word_embeddings", {1.17522}},
      {"encoder.final_layernorm", {0.204982, 0.190506}},
      {"encoder.layers.0.input_layernorm", {0.175902, 0.355809}},
      {"encoder.layers.0.mlp.linear_fc1", {0.470301, 0.12422}},
      {"encoder.layers.0.mlp.linear_fc2", {0.479974, 0.0825774}},
      {"encoder.layers.0.pre_mlp_layernorm", {0.142775, 0.161129}},
      {"encoder.layers.0.self_attention.linear_proj", {0.509463, 0.170357}},
      {"encoder.layers.0.self_attention.linear_qkv", {0.701503, 0.269011}},
      {"encoder.layers.1.input_layernorm", {0.105758, 0.0948853}},
      {"encoder.layers.1.mlp.linear_fc1", {0.374636, 0.0933258}},
      {"encoder.layers.1.mlp.linear_fc2", {0.330789, 0.0658401}},
      {"encoder.layers.1.pre_mlp_layernorm", {0.0784374, 0.0909587}},
      {"encoder.layers.1.self_attention.linear_proj", {0.325976, 0.0699559}},
      {"encoder.layers.1.self_attention.linear_qkv", {0.397424, 0.0966639}},
      {"encoder.layers.2.input_layernorm", {0.0778022, 0.100004}},
      {"encoder.layers.2.mlp.linear_fc1", {0.31874, 0.0762111}},
      {"encoder.layers.2.mlp.linear_fc2", {0.410422, 0.0423333}},
      {"encoder.layers.2.pre_mlp_layernorm", {0.0708698, 0.0726368}},
      {"encoder.layers.2.self_attention.linear_proj", {0.175939, 0.0595647}},
      {"encoder.layers.2.self_attention.linear_qkv", {0.34967, 0.0924309}}};
  const auto norms = TinyT5(golden_config(kTanh, kLearned, true)).gradient_norms();
  for (const auto& [name, pair] : expected) {
    EXPECT_NEAR(norms.at(name + ".weight"), pair[0], 6e-6 * pair[0]) << name;
    if (pair.size() == 2) {
      EXPECT_NEAR(norms.at(name + ".bias"), pair[1], 6e-6 * pair[1]) << name;
    }
  }
  EXPECT_NEAR(norms.at("lm_head.output_layer.bias"), 0.27339, 2e-6);
  EXPECT_EQ(norms.size(), 2 * expected.size() - 2 + 1);

  const auto relative = TinyT5(golden_config(kTanh, T5Positions::kRelative, true)).gradient_norms();
  const std::string table = "_relative_pos_emb.relative_attention_bias.weight";
  EXPECT_NEAR(relative.at("encoder" + table), 0.0778197388, 1e-10);
  EXPECT_NEAR(relative.at("decoder" + table), 0.0633263492, 1e-10);
}

}  // namespace
}  // namespace phalanx
