// Layers beyond their derivatives: accumulation, recomputation, dropout, masks, caches.

#include <gtest/gtest.h>

#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx::nn {
namespace {

class Layers : public testing::Test {
 protected:
  TestMachine machine_;
  Context& context_ = machine_.context;
  ops::Operands& operands_ = machine_.operands;
};

TEST_F(Layers, NormAppliedAgainIsTheForwardBitForBit) {
  LayerFixture all;
  TransformerConfig config = test_config();
  config.hidden = 6;
  const Norm norm(all.table, all.owned, all.slots, "norm", config);
  all.allocate(operands_, all.slots.slots());
  const Tensor x = all.stream(operands_, 6);
  const Tensor y = all.empty_stream(operands_, 6);
  const Tensor again = all.empty_stream(operands_, 6);
  Pass pass = all.pass(context_);
  norm.forward(pass, y, x, all.saved());
  norm.apply(pass, again, x, all.saved());
  EXPECT_EQ(values_of(again), values_of(y));
}

TEST_F(Layers, WeightGradientsAreAdded) {
  const auto all = std::make_shared<LayerFixture>();
  const auto layer = std::make_shared<TransformerLayer>(all->table, 0, 0, test_config());
  all->allocate(operands_, layer->saved_slots());
  const auto job = unit_job(operands_, all, layer);
  job.forward(context_);
  job.backward(context_);
  std::vector<std::vector<double>> once;
  for (const auto& gradient : all->gradient_tensors) once.push_back(values_of(gradient));
  job.backward(context_);
  for (std::size_t i = 0; i < once.size(); ++i) {
    const auto twice = values_of(all->gradient_tensors[i]);
    for (std::size_t e = 0; e < twice.size(); ++e) EXPECT_NEAR(twice[e], 2.0 * once[i][e], 1e-12);
  }
}

// Evaluation draws no mask; training draws another one for another sample.
TEST_F(Layers, DropoutIsAFunctionOfTheSample) {
  const auto all = std::make_shared<LayerFixture>();
  const auto layer = std::make_shared<TransformerLayer>(all->table, 0, 0, test_config());
  all->allocate(operands_, layer->saved_slots());
  const std::vector<Tensor> in = {all->stream(operands_, 10)};
  const std::vector<Tensor> out = {all->empty_stream(operands_, 10)};
  const auto run = [&](bool training) {
    Pass pass = all->pass(context_);
    pass.training = training;
    layer->forward(pass, in, out, all->saved());
    return values_of(out[0]);
  };
  const auto trained = run(true);
  const auto evaluated = run(false);
  EXPECT_EQ(run(true), trained);
  EXPECT_NE(evaluated, trained);
  for (auto& sample : all->batch.rows[0].sample.span<std::int64_t>()) sample += 2;
  EXPECT_NE(run(true), trained);
  EXPECT_EQ(run(false), evaluated);
}

// A row of the second document does not depend on the first document, nor a row on later rows.
TEST_F(Layers, AttentionSeesItsDocumentAndThePast) {
  TransformerConfig config = test_config();
  config.mask_documents = true;
  const auto all = std::make_shared<LayerFixture>();
  const auto layer = std::make_shared<TransformerLayer>(all->table, 0, 0, config);
  all->allocate(operands_, layer->saved_slots());
  const std::vector<Tensor> in = {all->stream(operands_, 10)};
  const std::vector<Tensor> out = {all->empty_stream(operands_, 10)};
  Pass pass = all->pass(context_);
  const auto row = [&](std::int64_t s) { return values_of(out[0].select(0, s)); };
  layer->forward(pass, in, out, all->saved());
  std::vector<std::vector<double>> before;
  for (std::int64_t s = 0; s < 5; ++s) before.push_back(row(s));
  // Documents are rows 0-1 and 2-4; row 3 changes.
  in[0].select(0, 3).span<double>()[4] += 1.0;
  layer->forward(pass, in, out, all->saved());
  for (const std::int64_t s : {0, 1, 2}) EXPECT_EQ(row(s), before[s]) << s;
  for (const std::int64_t s : {3, 4}) EXPECT_NE(row(s), before[s]) << s;
  in[0].select(0, 3).span<double>()[4] -= 1.0;
  in[0].select(0, 0).span<double>()[4] += 1.0;
  layer->forward(pass, in, out, all->saved());
  for (const std::int64_t s : {0, 1}) EXPECT_NE(row(s), before[s]) << s;
  for (const std::int64_t s : {2, 3, 4}) EXPECT_EQ(row(s), before[s]) << s;
}

// Passes over a part of the positions, for both kernels and grouped queries.
TEST_F(Layers, CachedAttentionIsTheWholePass) {
  for (const auto kernel : {AttentionKernel::kFused, AttentionKernel::kUnfused}) {
    TransformerConfig config = test_config();
    config.attention = kernel;
    config.query_groups = 2;
    expect_cached_is_whole(machine_, config, {{0, 2}, {2, 1}, {3, 2}});
  }
}

TEST_F(Layers, RecomputedLayersGiveTheSameGradients) {
  TransformerConfig post_norm = test_config();
  post_norm.norm_place = NormPlace::kPost;
  for (const TransformerConfig& config : {test_config(), post_norm, llama_config()}) {
    LayerFixture all;
    expect_recomputed_gradients(machine_, all, TransformerLayer(all.table, 1, 0, config));
  }
}

// Large logits in the padding change nothing.
TEST_F(Layers, LossIgnoresThePaddedVocabulary) {
  const auto all = std::make_shared<LayerFixture>();
  const auto head = std::make_shared<LanguageModelHead>(all->table, LanguageModelHead::Output::kOwn,
                                                        13, 16, kTestTargetColumns, test_config());
  all->allocate(operands_, head->saved_slots(), 13);
  const auto job = unit_job(operands_, all, head);
  job.forward(context_);
  const double loss = all->losses.sum.span<double>()[0];
  const Tensor output_weight = all->parameters.back();
  for (auto& value : output_weight.slice(0, 13, 3).span<double>()) value = 100.0;
  job.forward(context_);
  EXPECT_EQ(all->losses.sum.span<double>()[0], loss);
  EXPECT_EQ(all->losses.count.span<double>()[0], 16.0);  // two passes of eight unmasked tokens
  job.backward(context_);
  for (const double gradient : values_of(all->gradient_tensors.back().slice(0, 13, 3))) {
    EXPECT_EQ(gradient, 0.0);
  }
}

}  // namespace
}  // namespace phalanx::nn
