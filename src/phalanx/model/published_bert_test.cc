// The published BERT, whose layers end in their norms, and Megatron's, in double against losses,
// logits and gradient norms that transformers 5.23 computed of BertForPreTraining and of
// MegatronBertForPreTraining. Their word table leaves the gradient of id 0, the padding's, out
// where it is looked up; for these numbers it has it (padding_idx = None).

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/model/bert_test_support.h"
#include "phalanx/model/published_weights.h"

namespace phalanx {
namespace {

BertConfig published_config(nn::NormPlace place) {
  BertConfig config = tiny_bert_config();
  nn::TransformerConfig& t = config.transformer;
  t.ffn_hidden = 24;
  t.norm_place = place;
  t.norm_epsilon = 1e-12;
  t.activation = ops::ActivationKind::kGeluErf;
  config.vocabulary = 32;
  config.padded_vocabulary = 32;
  config.max_positions = 10;
  config.sequence = 7;
  return config;
}

TinyBertBatch published_batch() {
  return {.sequence = 7,
          .tokens = {{0, 10, 26, 16, 12, 14, 22}, {5, 16, 1, 24, 21, 24, 1}},
          .types = {{0, 0, 0, 0, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1}},
          .lengths = {7, 5},
          .masked = {{0, 1, 9}, {0, 5, 3}, {1, 2, 30}},
          .is_random = {1, 0}};
}

PublishedWeights published_weights(const nn::TransformerConfig& config) {
  const bool post = config.norm_place == nn::NormPlace::kPost;
  PublishedWeights weights;
  weights.embedding("embedding.word_embeddings.weight");
  weights.matrix("embedding.position_embeddings.weight");
  weights.matrix("embedding.tokentype_embeddings.weight");
  if (post) weights.layer_norm("embedding.layernorm");
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = "encoder.layers." + std::to_string(i) + ".";
    if (!post) weights.layer_norm(layer + "input_layernorm");
    weights.by_head(layer + "self_attention.linear_qkv", 3, config.head_size, config.hidden, true);
    weights.linear(layer + "self_attention.linear_proj");
    weights.layer_norm(layer + (post ? "post_self_attn_layernorm" : "pre_mlp_layernorm"));
    weights.linear(layer + "mlp.linear_fc1");
    weights.linear(layer + "mlp.linear_fc2");
    if (post) weights.layer_norm(layer + "post_mlp_layernorm");
  }
  if (!post) weights.layer_norm("encoder.final_layernorm");
  weights.linear("pooler.dense");
  weights.vector("output_layer.bias");
  weights.linear("lm_head.dense");
  weights.layer_norm("lm_head.layer_norm");
  weights.linear("binary_head");
  return weights;
}

void set_weights(TinyBert& bert) {
  const PublishedWeights weights = published_weights(bert.model.transformer());
  const nn::ParamTable& table = bert.all.table;
  for (ParamId id = 0; id < table.size(); ++id) {
    nn::for_each_place(table[id], [&](std::int64_t global, std::int64_t local) {
      nn::write_element(bert.all.parameters[static_cast<std::size_t>(id)], local,
                        weights.at(table[id].name, global));
    });
  }
}

struct Published {
  double lm, sop, gradient_norm;
  std::vector<double> logits;  // the first ones of the first row
};

void expect_published(nn::NormPlace place, const Published& expected) {
  const BertRun run{
      .config = published_config(place), .batch = published_batch(), .change = set_weights};
  const BertResult result = run_bert(run);
  EXPECT_NEAR(result.lm().mean(), expected.lm, 1e-10);
  EXPECT_NEAR(result.sop().mean(), expected.sop, 1e-10);
  double squares = 0.0;
  for (const auto& [name, gradient] : result.gradients) squares += std::pow(result.norm(name), 2);
  EXPECT_NEAR(std::sqrt(squares), expected.gradient_norm, 1e-10);

  nn::TestMachine machine;
  Context& context = machine.context;
  ops::Operands& operands = machine.operands;
  TinyBert bert(operands, run.config, run.batch);
  set_weights(bert);
  nn::Pass pass = bert.pass(context);
  pass.training = false;
  const Tensor logits = operands.output({14, 32});
  nn::InferencePass inference{.pass = pass, .logits = logits};
  bert.chunk.infer(inference, bert.tensors);
  for (std::size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_NEAR(nn::values_of(logits)[i], expected.logits[i], 5e-9);
  }
}

TEST(PublishedBert, NormsBehindTheSublayers) {
  expect_published(nn::NormPlace::kPost, {.lm = 5.416572005949,
                                          .sop = 1.203785920280,
                                          .gradient_norm = 11.881896935358,
                                          .logits = {1.00927182, .0272955627, 1.17107507}});
}

TEST(PublishedBert, NormsBeforeTheSublayers) {
  expect_published(nn::NormPlace::kPre, {.lm = 6.502561708793,
                                         .sop = 1.337332638390,
                                         .gradient_norm = 16.834214324877,
                                         .logits = {-.00928539505, -.0796048871, .408081841}});
}

}  // namespace
}  // namespace phalanx
