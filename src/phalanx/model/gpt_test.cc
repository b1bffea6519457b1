#include "phalanx/model/gpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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

std::vector<std::string> names_in(const nn::ParamTable& table) {
  std::vector<std::string> names;
  for (const auto& spec : table.specs()) names.push_back(spec.name);
  return names;
}

// The stages of a pipeline, one table each, have the parameters of the whole in the same order.
TEST(Gpt, StagesHaveTheParametersOfTheWhole) {
  const GptConfig config = test_gpt_config(false);
  nn::ParamTable whole, first, last;
  build_gpt_chunk(config, {0, 2, true, true}, whole);
  build_gpt_chunk(config, {0, 1, true, false}, first);
  build_gpt_chunk(config, {1, 1, false, true}, last);
  std::vector<std::string> names = names_in(first);
  for (const std::string& name : names_in(last)) names.push_back(name);
  EXPECT_EQ(names, names_in(whole));
}

TEST(Gpt, ChunksOfARankShareItsTable) {
  nn::ParamTable table;
  const GptConfig config = test_gpt_config(false);
  EXPECT_EQ(table.num_chunks(), 1);
  build_gpt_chunk(config, {0, 1, true, false}, table);
  EXPECT_EQ(table.num_chunks(), 1);
  const ParamId first_of_second = table.size();
  build_gpt_chunk(config, {1, 1, false, true}, table);
  EXPECT_EQ(table.num_chunks(), 2);
  for (ParamId id = 0; id < table.size(); ++id) {
    EXPECT_EQ(table.chunk(id), id < first_of_second ? 0 : 1) << table[id].name;
  }
  nn::ParamTable other;
  other.add(whole_parameter("outside", {3}, DType::kF32, {}));
  EXPECT_EQ(other.chunk(0), 0);
  EXPECT_THROW(other.begin_chunk(), InternalError);
}

ParamId word_table_in(const nn::ParamTable& table) {
  const auto names = names_in(table);
  const auto word = std::ranges::find(names, "embedding.word_embeddings.weight");
  return static_cast<ParamId>(word - names.begin());
}

// Of the word table's roles.
std::vector<int> orders_in(const nn::ParamTable& table) {
  std::vector<int> orders;
  for (const nn::ParamTable::Role& role : table.roles()) {
    EXPECT_EQ(role.id, word_table_in(table));
    const bool of_head = role.role.order == kHeadRole;
    EXPECT_EQ(role.role.gradient,
              of_head ? ParamRole::Gradient::kDense : ParamRole::Gradient::kRows);
    orders.push_back(role.role.order);
  }
  return orders;
}

TEST(Gpt, ATiedHeadUsesTheWordTableOfItsRank) {
  nn::ParamTable table;
  const GptConfig config = test_gpt_config(true);
  build_gpt_chunk(config, {0, 1, true, false}, table);
  const Chunk last = build_gpt_chunk(config, {1, 1, false, true}, table);
  const auto names = names_in(table);
  EXPECT_EQ(std::ranges::count(names, "embedding.word_embeddings.weight"), 1);
  const auto& used = last.units().back()->parameters();
  EXPECT_EQ(std::ranges::count(used, word_table_in(table)), 1);
  EXPECT_EQ(orders_in(table), (std::vector<int>{kEmbeddingRole, kHeadRole}));
  EXPECT_EQ(table.chunk(word_table_in(table)), 0);
}

TEST(Gpt, ATiedHeadOfAnotherRankHasTheWordTableToo) {
  GptConfig config = test_gpt_config(true);
  config.transformer.tensor = {.rank = 1, .size = 2};
  nn::ParamTable whole, first, last;
  build_gpt_chunk(config, {0, 2, true, true}, whole);
  build_gpt_chunk(config, {0, 1, true, false}, first);
  const Chunk head = build_gpt_chunk(config, {1, 1, false, true}, last);
  const ParamSpec& expected = whole[word_table_in(whole)];
  const ParamSpec& of_embedding = first[word_table_in(first)];
  const ParamSpec& of_head = last[word_table_in(last)];
  EXPECT_EQ(orders_in(whole), (std::vector<int>{kEmbeddingRole, kHeadRole}));
  EXPECT_EQ(orders_in(first), (std::vector<int>{kEmbeddingRole}));
  EXPECT_EQ(orders_in(last), (std::vector<int>{kHeadRole}));
  for (const ParamSpec* copy : {&of_embedding, &of_head}) {
    EXPECT_EQ(copy->global_shape, expected.global_shape);
    EXPECT_EQ(copy->local_shape, expected.local_shape);
    EXPECT_EQ(true_count(*copy), true_count(expected));
    EXPECT_EQ(copy->boxes.at(0).global_row, expected.boxes.at(0).global_row);
    EXPECT_EQ(copy->initialiser.kind, expected.initialiser.kind);
    EXPECT_EQ(copy->initialiser.value, expected.initialiser.value);
    EXPECT_EQ(copy->decays, expected.decays);
    EXPECT_EQ(copy->cut_over, expected.cut_over);
  }
  EXPECT_EQ(std::ranges::count(head.units().back()->parameters(), word_table_in(last)), 1);
}

TEST(Gpt, AWordTableIsTiedToOneHead) {
  nn::ParamTable table;
  const GptConfig config = test_gpt_config(true);
  build_gpt_chunk(config, {0, 1, true, true}, table);
  EXPECT_THROW(build_gpt_chunk(config, {1, 1, false, true}, table), InternalError);
  nn::ParamTable untied;
  build_gpt_chunk(test_gpt_config(false), {0, 2, true, true}, untied);
  EXPECT_TRUE(untied.roles().empty());
}

// A stage on a rank of its own that reads the weights and the batch of a whole model.
struct Stage {
  Stage(ops::Operands& operands, const GptFixture& gpt, const ChunkRange& range)
      : chunk(build_gpt_chunk(gpt.config, range, all.table)) {
    all.allocate(operands, {}, gpt.config.vocabulary);
    all.batch = gpt.all.batch;
    all.loss_settings = gpt.all.loss_settings;
    all.losses = gpt.all.losses;
    const auto names = names_in(gpt.all.table);
    for (ParamId id = 0; id < all.table.size(); ++id) {
      const auto place = std::ranges::find(names, all.table[id].name) - names.begin();
      whole_ids.push_back(static_cast<std::size_t>(place));
      all.parameters[static_cast<std::size_t>(id)] = gpt.all.parameters[whole_ids.back()];
    }
    for (const auto& saved : chunk.saved_tensors(all.shape, false)) {
      tensors.push_back(operands.output(saved.dtype, saved.shape));
    }
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  nn::LayerFixture all;
  Chunk chunk;
  std::vector<std::size_t> whole_ids;
  std::vector<Tensor> tensors;
};

// The sum of the two ranks' copies of a tied table's gradient is the whole gradient bit for bit.
TEST(Gpt, CopiesHaveTheGradientOfTheTiedTable) {
  nn::TestMachine machine;
  Context& context = machine.context;
  ops::Operands& operands = machine.operands;
  GptFixture gpt(operands, test_gpt_config(true));
  gpt.forward(context);
  gpt.backward(context);
  gpt.all.join(context);

  Stage first(operands, gpt, {0, 1, true, false});
  Stage last(operands, gpt, {1, 1, false, true});
  nn::Pass first_pass = first.all.pass(context);
  nn::Pass last_pass = last.all.pass(context);
  first.chunk.forward(first_pass, first.tensors, gpt.hooks, 0);
  ops::copy(context, {.destination = last.chunk.input_streams(last.tensors)[0],
                      .source = first.chunk.output_streams(first.tensors)[0]});
  last.chunk.forward(last_pass, last.tensors, gpt.hooks, 0);
  last.chunk.backward(last_pass, last.tensors, last.all.gradients, gpt.hooks, 0);
  ops::copy(context, {.destination = first.chunk.output_gradients(first.tensors)[0],
                      .source = last.chunk.input_gradients(last.tensors)[0]});
  first.chunk.backward(first_pass, first.tensors, first.all.gradients, gpt.hooks, 0);
  first.all.join(context);

  std::vector<std::vector<double>> sums(gpt.all.gradient_tensors.size());
  for (const Stage* stage : {&first, &last}) {
    for (std::size_t i = 0; i < stage->whole_ids.size(); ++i) {
      const auto values = nn::values_of(stage->all.gradient_tensors[i]);
      auto& sum = sums[stage->whole_ids[i]];
      sum.resize(values.size(), 0.0);
      std::ranges::transform(sum, values, sum.begin(), std::plus());
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i], nn::values_of(gpt.all.gradient_tensors[i])) << gpt.all.table.specs()[i].name;
  }
}

ops::GradientCase gpt_case(bool tied, nn::AttentionKernel kernel) {
  return {"gpt", tied ? "tied" : "untied, one key/value head", [=](ops::Operands& operands) {
            GptConfig config = test_gpt_config(tied);
            config.transformer.attention = kernel;
            const auto gpt = std::make_shared<GptFixture>(operands, config);
            const double seed = 8.0 * gpt->all.losses.factor;
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

// Mixtral 8x7B and Qwen3-30B-A3B.
TEST(Gpt, CountsTheParametersOfExperts) {
  GptConfig config{.transformer = {.num_layers = 32,
                                   .hidden = 4096,
                                   .ffn_hidden = 14336,
                                   .heads = 32,
                                   .query_groups = 8,
                                   .head_size = 128,
                                   .norm = nn::NormKind::kRmsNorm,
                                   .activation = ops::ActivationKind::kSilu,
                                   .gated = true,
                                   .linear_bias = false,
                                   .qkv_bias = false,
                                   .tensor = {},
                                   .init_key = {},
                                   .dropout_key = {}},
                   .vocabulary = 32000,
                   .padded_vocabulary = 32000,
                   .position_table = false,
                   .tied_embedding = false,
                   .recompute = {}};
  config.transformer.experts = {.experts = 8, .chosen = 2, .ffn_hidden = 14336};
  const GptModel mixtral(config, 4096);
  EXPECT_EQ(mixtral.parameters(), 46'702'792'704);
  EXPECT_EQ(mixtral.active_parameters(), 12'879'925'248);
  // 6 for each weight that multiplies a token, and attention over half of what a row may see is not
  // left out: 12 L s heads * head size.
  const double weights = 12'879'925'248.0 - 32000.0 * 4096.0 - 65.0 * 4096.0;
  EXPECT_EQ(gpt_flops_per_token(config, 4096), 6.0 * weights + 12.0 * 32 * 4096.0 * 4096.0);

  config.vocabulary = config.padded_vocabulary = 151936;
  config.transformer.num_layers = 48;
  config.transformer.hidden = 2048;
  config.transformer.query_groups = 4;
  config.transformer.qk_norm = true;
  config.transformer.experts = {.experts = 128, .chosen = 8, .ffn_hidden = 768};
  const GptModel qwen3(config, 4096);
  EXPECT_EQ(qwen3.parameters(), 30'532'122'624);
  EXPECT_EQ(qwen3.active_parameters(), 3'353'032'704);
}

}  // namespace
}  // namespace phalanx
