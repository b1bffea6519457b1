#include "phalanx/settings/trained_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/model/gpt.h"

namespace phalanx {
namespace {

GptModel model() {
  GptConfig config;
  config.vocabulary = 50;
  config.padded_vocabulary = 64;
  config.max_positions = 8;
  config.tied_embedding = false;
  config.transformer.num_layers = 3;
  config.transformer.hidden = 8;
  config.transformer.ffn_hidden = 32;
  config.transformer.heads = 2;
  config.transformer.query_groups = 2;
  config.transformer.head_size = 4;
  return GptModel(config, 8);
}

TrainConfig choice(std::vector<std::string> trainable, std::vector<std::string> freeze) {
  TrainConfig config;
  config.optimizer.trainable = std::move(trainable);
  config.optimizer.freeze = std::move(freeze);
  return config;
}

TEST(TrainedParameters, TheLastOfTrainableAndFreezeThatMatchesDecides) {
  EXPECT_FALSE(frozen_parameters({}));
  const auto frozen = frozen_parameters(choice({"layers\\.2", "norm"}, {"mlp", "bias$"}));
  EXPECT_TRUE(frozen("embedding.word_embeddings.weight"));
  EXPECT_FALSE(frozen("decoder.layers.2.self_attention.linear_qkv.weight"));
  EXPECT_TRUE(frozen("decoder.layers.2.self_attention.linear_qkv.bias"));
  EXPECT_TRUE(frozen("decoder.layers.2.mlp.linear_fc1.weight"));
  EXPECT_FALSE(frozen("decoder.layers.0.input_layernorm.weight"));
  const auto upper = frozen_parameters(choice({}, {"^embedding"}));
  EXPECT_TRUE(upper("embedding.position_embeddings.weight"));
  EXPECT_FALSE(upper("output_layer.weight"));
}

TEST(TrainedParameters, WithAdaptersTheseAreTrainedAndWhatIsNamed) {
  const std::string a = "decoder.layers.1.self_attention.linear_qkv.lora.q.A.weight";
  const std::string b = "decoder.layers.0.mlp.linear_fc2.lora.down.B.weight";
  const std::string norm = "decoder.layers.0.input_layernorm.weight";
  TrainConfig config = choice({}, {});
  EXPECT_FALSE(frozen_parameters(config));
  config.lora.rank = 2;
  auto frozen = frozen_parameters(config);
  EXPECT_FALSE(frozen(a) || frozen(b));
  EXPECT_TRUE(frozen(norm));
  config.optimizer.trainable = {"norm"};
  config.optimizer.freeze = {"fc2"};
  frozen = frozen_parameters(config);
  EXPECT_FALSE(frozen(a) || frozen(norm));
  EXPECT_TRUE(frozen(b) && frozen("output_layer.weight"));
}

// Layers have 12 * 64 = 768 weights each in matrices, the head 8 * 50.
TEST(TrainedParameters, FlopsAreThoseOfThePassesThatRun) {
  EXPECT_EQ(trained_share({}, model()).flops, 1.0);
  EXPECT_EQ(trained_share({}, model()).parameters, model().parameters());
  constexpr double kAll = 3.0 * (3 * 768 + 400);
  // Below layer 2 nothing is trained, so it is forward alone; layer 2 and the head are as ever.
  const auto top = trained_share(choice({}, {"embedding", "layers\\.[01]"}), model());
  EXPECT_DOUBLE_EQ(top.flops, (2 * 768 + 3.0 * (768 + 400)) / kAll);
  // Gradients pass through everything for the first layer's norm.
  const auto norm = trained_share(choice({"layers.0.input_layernorm"}, {}), model());
  EXPECT_DOUBLE_EQ(norm.flops, 2.0 / 3.0);
  EXPECT_EQ(norm.parameters, 16);
}

// A token is computed with 2 of the 8 experts of 8 * 16 * 2 weights, and with the router's 8 * 8.
TEST(TrainedParameters, FlopsCountTheExpertsOfAToken) {
  GptConfig config;
  config.vocabulary = 50;
  config.padded_vocabulary = 50;
  config.max_positions = 8;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 3;
  t.hidden = 8;
  t.ffn_hidden = 32;
  t.heads = 2;
  t.query_groups = 2;
  t.head_size = 4;
  t.linear_bias = false;
  t.experts = {.experts = 8, .chosen = 2, .ffn_hidden = 16, .losses = {}};
  const GptModel sparse(config, 8);
  constexpr double kAttention = 4 * 64;
  constexpr double kExperts = 2 * 256;
  constexpr double kAll = 3.0 * (3 * (kAttention + kExperts + 64) + 400);
  EXPECT_DOUBLE_EQ(trained_share(choice({}, {"experts"}), sparse).flops,
                   (kAll - 3 * kExperts) / kAll);
  EXPECT_DOUBLE_EQ(trained_share(choice({"experts"}, {}), sparse).flops,
                   (2.0 * kAll / 3.0 + 3 * kExperts) / kAll);
}

// The adapters of a model of Llama's family.
struct LlamaSize {
  std::int64_t layers, hidden, ffn, heads, groups;
};
std::int64_t adapter_parameters(const LlamaSize& size, std::int64_t rank,
                                const std::vector<nn::AdapterPart>& parts) {
  GptConfig config;
  config.vocabulary = 64;
  config.padded_vocabulary = 64;
  config.max_positions = 8;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = size.layers;
  t.hidden = size.hidden;
  t.ffn_hidden = size.ffn;
  t.heads = size.heads;
  t.query_groups = size.groups;
  t.head_size = 128;
  t.gated = true;
  t.adapters.rank = rank;
  for (const nn::AdapterPart part : parts) {
    t.adapters.parts[static_cast<std::size_t>(part)] = true;
  }
  TrainConfig all;
  all.lora.rank = rank;
  return trained_share(all, GptModel(config, 8)).parameters;
}

TEST(TrainedParameters, AdaptersOfKnownModels) {
  using enum nn::AdapterPart;
  const std::vector<nn::AdapterPart> all = {kQuery, kKey, kValue, kOutput, kGate, kUp, kDown};
  constexpr LlamaSize kLlama3{32, 4096, 14336, 32, 8};
  EXPECT_EQ(adapter_parameters(kLlama3, 16, all), 41'943'040);
  EXPECT_EQ(adapter_parameters({32, 4096, 11008, 32, 32}, 16, all), 39'976'960);
  EXPECT_EQ(adapter_parameters({80, 8192, 28672, 64, 8}, 16, all), 207'093'760);
  EXPECT_EQ(adapter_parameters(kLlama3, 8, {kQuery, kValue}), 3'407'872);
}

// The model has a forward pass and the gradient of its input, adapters all three, so of 6 N there
// are 4 N and 6 of each weight of adapters.
TEST(TrainedParameters, FlopsOfAdaptersAreTheirsAndTwoThirdsOfTheModels) {
  GptConfig config;
  config.vocabulary = 64;
  config.padded_vocabulary = 64;
  config.max_positions = 8;
  config.tied_embedding = false;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 2;
  t.hidden = 8;
  t.ffn_hidden = 32;
  t.heads = 2;
  t.query_groups = 2;
  t.head_size = 4;
  const double before = GptModel(config, 8).flops_per_sample();
  using enum nn::AdapterPart;
  t.adapters.rank = 2;
  for (const nn::AdapterPart part : {kQuery, kKey, kValue, kOutput, kFc1, kDown}) {
    t.adapters.parts[static_cast<std::size_t>(part)] = true;
  }
  const GptModel adapted(config, 8);
  // q, k, v and o have 8 + 8 features each, fc1 and fc2 8 + 32.
  constexpr double kAdapters = 2.0 * 2 * (4 * 16 + 2 * 40);
  constexpr double kModel = 2 * 768 + 8 * 64;
  EXPECT_DOUBLE_EQ(adapted.flops_per_sample() - before, 8 * 6.0 * kAdapters);
  TrainConfig all;
  all.lora.rank = 2;
  const TrainedShare share = trained_share(all, adapted);
  EXPECT_EQ(share.parameters, static_cast<std::int64_t>(kAdapters));
  EXPECT_DOUBLE_EQ(share.flops, (2.0 * kModel + 3.0 * kAdapters) / (3.0 * (kModel + kAdapters)));
}

}  // namespace
}  // namespace phalanx
