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

}  // namespace
}  // namespace phalanx
