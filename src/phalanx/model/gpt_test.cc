#include "phalanx/model/gpt.h"

#include <gtest/gtest.h>

#include <string>

#include "phalanx/model/test_support.h"
#include "phalanx/ops/cases/differentiate.h"

namespace phalanx {
namespace {

TEST(Gpt, ParametersInGlobalOrder) {
  nn::ParamTable table;
  GptConfig config = test_gpt_config(false);
  config.transformer.num_layers = 1;
  build_gpt_chunk(config, {0, 1, true, true}, table);
  std::vector<std::string> names;
  for (const auto& spec : table.specs()) names.push_back(spec.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "embedding.word_embeddings.weight",
                       "embedding.position_embeddings.weight",
                       "decoder.layers.0.input_layernorm.weight",
                       "decoder.layers.0.input_layernorm.bias",
                       "decoder.layers.0.self_attention.linear_qkv.weight",
                       "decoder.layers.0.self_attention.linear_qkv.bias",
                       "decoder.layers.0.self_attention.linear_proj.weight",
                       "decoder.layers.0.self_attention.linear_proj.bias",
                       "decoder.layers.0.pre_mlp_layernorm.weight",
                       "decoder.layers.0.pre_mlp_layernorm.bias",
                       "decoder.layers.0.mlp.linear_fc1.weight",
                       "decoder.layers.0.mlp.linear_fc1.bias",
                       "decoder.layers.0.mlp.linear_fc2.weight",
                       "decoder.layers.0.mlp.linear_fc2.bias",
                       "decoder.final_layernorm.weight",
                       "decoder.final_layernorm.bias",
                       "output_layer.weight",
                   }));
}

// Residual projections start smaller by sqrt(2 L); only matrices decay; only the word table is
// tied and padded.
TEST(Gpt, ParameterSpecifications) {
  nn::ParamTable table;
  GptConfig config = test_gpt_config(true);
  config.transformer.num_layers = 8;
  build_gpt_chunk(config, {0, 8, true, true}, table);
  for (const auto& spec : table.specs()) {
    const auto has = [&](const char* part) { return spec.name.find(part) != std::string::npos; };
    const bool matrix = spec.global_shape.rank() == 2;
    EXPECT_EQ(spec.decays, matrix) << spec.name;
    EXPECT_EQ(spec.tied_embedding, has("word_embeddings")) << spec.name;
    EXPECT_EQ(spec.local_shape == spec.global_shape, !has("word_embeddings")) << spec.name;
    const bool normal = spec.initialiser.kind == Initialiser::Kind::kNormal;
    EXPECT_EQ(normal, matrix) << spec.name;
    const bool residual = has("linear_proj.weight") || has("linear_fc2.weight");
    const double expected = residual                  ? 0.02 / 4.0
                            : matrix                  ? 0.02
                            : has("layernorm.weight") ? 1.0
                                                      : 0.0;
    EXPECT_DOUBLE_EQ(spec.initialiser.value, expected) << spec.name;
  }
}

GptConfig gpt_config(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                     std::int64_t padded_vocabulary) {
  nn::TransformerConfig transformer;
  transformer.num_layers = layers;
  transformer.hidden = hidden;
  transformer.ffn_hidden = 4 * hidden;
  transformer.heads = heads;
  transformer.query_groups = heads;
  transformer.head_size = hidden / heads;
  return {.transformer = transformer,
          .vocabulary = 50257,
          .padded_vocabulary = padded_vocabulary,
          .max_positions = 1024,
          .recompute = {}};
}

// GPT-2 124M and GPT-3 175B (Narayanan et al., 2021, equation 2 with untied positions counted).
TEST(Gpt, Parameters) {
  GptConfig config = gpt_config(12, 768, 12, 50304);
  EXPECT_EQ(gpt_parameters(config), 124439808);
  config.tied_embedding = false;
  EXPECT_EQ(gpt_parameters(config), 124439808 + 50257 * 768);
  config = gpt_config(96, 12288, 96, 50304);
  const std::int64_t h = 12288;
  EXPECT_EQ(gpt_parameters(config), 12 * 96 * h * h + 13 * 96 * h + (50257 + 1024) * h + 2 * h);
}

// 96 B s l h^2 (1 + s / 6h + V / 16lh) with recomputation is 72 B s l h^2 (1 + s / 6h + V / 12lh)
// without (Narayanan et al., 2021, equation 3).
TEST(Gpt, FlopsPerToken) {
  GptConfig config = gpt_config(24, 1024, 16, 51200);
  const double h = 1024;
  const double l = 24;
  const double s = 2048;
  const double v = 51200;
  EXPECT_NEAR(gpt_flops_per_token(config, 2048) /
                  (72.0 * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h))),
              1.0, 1e-12);
}

TEST(Gpt, TiedHeadNeedsItsEmbedding) {
  nn::ParamTable table;
  EXPECT_THROW(build_gpt_chunk(test_gpt_config(true), {0, 1, false, true}, table), InternalError);
}

ops::GradientCase gpt_case(bool tied, nn::AttentionKernel kernel) {
  return {"gpt", tied ? "tied" : "untied, one key/value head", [=](ops::Operands& operands) {
            GptConfig config = test_gpt_config(tied);
            config.transformer.attention = kernel;
            const auto gpt = std::make_shared<GptFixture>(operands, config);
            const double seed = 8.0 * gpt->all.loss_settings.factor;
            return ops::GradientJob{
                .forward =
                    [gpt](Context& context) {
                      ops::fill(context, {.x = gpt->all.losses.sum, .value = 0.0});
                      gpt->forward(context);
                    },
                .backward =
                    [gpt](Context& context) {
                      gpt->backward(context);
                      gpt->all.join(context);
                    },
                .outputs = {{gpt->all.losses.sum, operands.filled(DType::kF64, {1}, seed)}},
                .operands = gpt->all.parameter_pairs()};
          }};
}

TEST(Gpt, GradientsMatchDifferences) {
  EXPECT_EQ(ops::compare_with_differences(gpt_case(true, nn::AttentionKernel::kFused)), "");
  EXPECT_EQ(ops::compare_with_differences(gpt_case(false, nn::AttentionKernel::kUnfused)), "");
}

}  // namespace
}  // namespace phalanx
