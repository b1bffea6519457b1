// Layers beyond their derivatives: accumulation, recomputation, dropout, masks, caches.

#include <gtest/gtest.h>

#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::nn {
namespace {

class Layers : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena memory_{"operands", 8 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  ops::Operands operands_{memory_, DType::kF64, context_};
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

// Passes over one position at a time with cached keys and values give the rows of one pass over all
// positions, for both kernels and grouped queries.
TEST_F(Layers, CachedAttentionIsTheWholePass) {
  for (const auto kernel : {AttentionKernel::kFused, AttentionKernel::kUnfused}) {
    TransformerConfig config = test_config();
    config.attention = kernel;
    config.query_groups = 2;
    LayerFixture all;
    const TransformerLayer layer(all.table, 0, 0, config);
    all.allocate(operands_, layer.saved_slots());
    const std::vector<Tensor> in = {all.stream(operands_, 10)};
    const std::vector<Tensor> out = {all.empty_stream(operands_, 10)};
    Pass whole = all.pass(context_);
    whole.training = false;
    layer.forward(whole, in, out, all.saved());

    const Shape cached{5, 1, config.query_groups, config.head_size};
    std::vector<KeyValueCache> caches;
    for (const std::int64_t sample : {0, 1}) {
      const RowCoordinates& rows = all.batch.rows[0];
      caches.push_back({.keys = {operands_.output(cached)},
                        .values = {operands_.output(cached)},
                        .rows = {.sample = rows.sample.slice(1, sample, 1),
                                 .position = rows.position.slice(1, sample, 1),
                                 .document = rows.document.slice(1, sample, 1)},
                        .length = 0});
    }
    const std::vector<KeyValueCache*> both = {&caches[0], &caches[1]};
    for (const auto& [begin, count] : {std::pair{0, 2}, {2, 1}, {3, 2}}) {
      const BatchShape shape{.sequence = count, .micro_batch = 2};
      Batch batch = all.batch;
      RowCoordinates& rows = batch.rows[0];
      rows = {.sample = rows.sample.slice(0, begin, count),
              .position = rows.position.slice(0, begin, count),
              .document = rows.document.slice(0, begin, count)};
      std::vector<Tensor> saved;
      for (const auto& slot : layer.saved_slots()) {
        saved.push_back(operands_.output(slot.dtype, slot.shape(shape)));
      }
      const std::vector<Tensor> part = {operands_.output({count, 2, 10})};
      Pass pass{.ops = context_,
                .weights = all.weights,
                .batch = batch,
                .shapes = shape,
                .region = {},
                .training = false,
                .loss_settings = {},
                .losses = {}};
      InferencePass inference{.pass = pass, .caches = both};
      for (KeyValueCache& cache : caches) cache.length = begin;
      layer.infer(inference, std::vector<Tensor>{in[0].slice(0, begin, count)}, part, Saved(saved));
      const auto expected = values_of(out[0].slice(0, begin, count));
      const auto actual = values_of(part[0]);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 1e-12) << begin;
      }
    }
  }
}

// Recomputation writes everything that backward reads of the forward pass.
TEST_F(Layers, RecomputedLayersGiveTheSameGradients) {
  TransformerConfig post_norm = test_config();
  post_norm.norm_place = NormPlace::kPost;
  for (const TransformerConfig& config : {test_config(), post_norm, llama_config()}) {
    LayerFixture all;
    const TransformerLayer layer(all.table, 1, 0, config);
    all.allocate(operands_, layer.saved_slots());
    const std::vector<Tensor> in = {all.stream(operands_, 10)};
    const std::vector<Tensor> out = {all.empty_stream(operands_, 10)};
    const std::vector<Tensor> dout = {all.stream(operands_, 10)};
    const std::vector<Tensor> din = {all.empty_stream(operands_, 10)};
    Pass pass = all.pass(context_);
    const auto backward = [&] {
      std::vector<std::vector<double>> values;
      for (const Tensor& gradient : all.gradient_tensors) {
        ops::fill(context_, {.x = gradient, .value = 0.0});
      }
      layer.backward_input(pass, in, dout, din, all.saved());
      layer.backward_weight(pass, in, all.saved(), all.gradients);
      values.push_back(values_of(din[0]));
      for (const Tensor& gradient : all.gradient_tensors) values.push_back(values_of(gradient));
      return values;
    };
    layer.forward(pass, in, out, all.saved());
    const auto expected = backward();
    for (const Tensor& saved : all.saved_tensors) operands_.poison(saved);
    layer.recompute(pass, in, all.saved());
    EXPECT_EQ(backward(), expected);
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
