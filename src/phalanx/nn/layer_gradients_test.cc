// Every layer's backward passes against finite differences of its forward, in double on the
// reference, dropout on.

#include <gtest/gtest.h>

#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/nn/transformer_layer.h"
#include "phalanx/ops/cases/differentiate.h"

namespace phalanx::nn {
namespace {

using ops::GradientCase;
using ops::GradientJob;
using ops::Operands;

GradientCase linear_case(Linear::Bias bias) {
  const char* const description = bias == Linear::Bias::kInProduct  ? "bias"
                                  : bias == Linear::Bias::kByCaller ? "bias by the caller"
                                                                    : "no bias";
  return {"linear", description, [bias](Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            const auto layer =
                std::make_shared<Linear>(all->table, all->owned, "linear", 7, 5, test_config(), 1.0,
                                         Linear::Cut::kColumn, bias);
            all->allocate(operands, {});
            const Tensor x = all->stream(operands, 5);
            const Tensor dx = all->empty_stream(operands, 5);
            const Tensor y = all->empty_stream(operands, 7);
            const Tensor dy = all->stream(operands, 7);
            GradientJob job{.forward =
                                [=](Context& context) {
                                  Pass pass = all->pass(context);
                                  layer->forward(pass, y, x);
                                  // The fused operation that follows adds the bias.
                                  if (bias != Linear::Bias::kByCaller) return;
                                  for (std::int64_t r = 0; r < all->shape.rows(); ++r) {
                                    ops::accumulate(context, {.destination = y.rows().select(0, r),
                                                              .source = all->parameters[1]});
                                  }
                                },
                            .backward =
                                [=](Context& context) {
                                  Pass pass = all->pass(context);
                                  layer->backward_input(pass, dx, dy);
                                  layer->backward_weight(pass, dy, x, all->gradients);
                                },
                            .outputs = {{y, dy}},
                            .operands = {{x, dx}}};
            for (const auto& pair : all->parameter_pairs()) job.operands.push_back(pair);
            return job;
          }};
}

// With a residual the loss also reads x itself: sum(residual's gradient * x).
GradientCase norm_case(NormKind kind, bool zero_centred, bool with_residual) {
  return {kind == NormKind::kRmsNorm ? "rms_norm" : "layer_norm",
          fmt::format("{}{}", with_residual ? "residual" : "alone",
                      zero_centred ? ", zero-centred" : ""),
          [=](Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            TransformerConfig config = test_config();
            config.hidden = 6;
            config.norm = kind;
            config.norm_zero_centred = zero_centred;
            const auto layer =
                std::make_shared<Norm>(all->table, all->owned, all->slots, "norm", config);
            all->allocate(operands, all->slots.slots());
            const Tensor x = all->stream(operands, 6);
            const Tensor dx = all->empty_stream(operands, 6);
            const Tensor y = all->empty_stream(operands, 6);
            const Tensor dy = all->stream(operands, 6);
            const Tensor residual = with_residual ? all->stream(operands, 6) : Tensor{};
            GradientJob job{.forward =
                                [=](Context& context) {
                                  Pass pass = all->pass(context);
                                  layer->forward(pass, y, x, all->saved());
                                },
                            .backward =
                                [=](Context& context) {
                                  Pass pass = all->pass(context);
                                  layer->backward_input(pass, dx, dy, x, residual, all->saved());
                                  layer->backward_weight(pass, all->saved(), all->gradients);
                                },
                            .outputs = {{y, dy}},
                            .operands = {{x, dx}}};
            if (with_residual) job.outputs.push_back({x, residual});
            for (const auto& pair : all->parameter_pairs()) job.operands.push_back(pair);
            return job;
          }};
}

TransformerConfig attention_config(std::int64_t groups, AttentionKernel kernel, bool documents) {
  TransformerConfig config = test_config();
  config.query_groups = groups;
  config.attention = kernel;
  config.mask_documents = documents;
  return config;
}

std::string describe(const TransformerConfig& config) {
  return fmt::format("{} heads in {} groups, {}{}{}{}", config.heads, config.query_groups,
                     config.attention == AttentionKernel::kFused ? "fused" : "unfused",
                     config.mask_documents ? ", documents" : "",
                     config.norm_place == NormPlace::kPost ? ", post-norm" : "",
                     config.norm == NormKind::kRmsNorm ? ", RMSNorm, gated" : "");
}

GradientCase sublayer_case(const std::string& name, const std::string& shape,
                           const TransformerConfig& config, const SublayerUnit::Make& make) {
  return {name, shape, [config, make](Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            const auto unit = std::make_shared<SublayerUnit>(all->table, config, make);
            all->allocate(operands, unit->saved_slots());
            return unit_job(operands, all, unit);
          }};
}

GradientCase attention_case(const TransformerConfig& config) {
  return sublayer_case("self_attention", describe(config), config, make_test_attention);
}

GradientCase mlp_case(ops::ActivationKind activation, bool gated, bool bias) {
  TransformerConfig config = test_config();
  config.activation = activation;
  config.gated = gated;
  config.linear_bias = bias;
  return sublayer_case(
      "mlp",
      fmt::format("{}{}{}", name_of(activation), gated ? ", gated" : "", bias ? "" : ", no bias"),
      config, make_test_mlp);
}

GradientCase layer_case(const TransformerConfig& config) {
  return {"transformer_layer", describe(config), [config](Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            const auto layer = std::make_shared<TransformerLayer>(all->table, 1, 1, config);
            all->allocate(operands, layer->saved_slots());
            return unit_job(operands, all, layer);
          }};
}

// The same with adapters of these parts.
TransformerConfig with_adapters(TransformerConfig config, std::initializer_list<AdapterPart> parts,
                                double dropout) {
  config.adapters = {.rank = 2, .scale = 1.5, .dropout = dropout};
  for (const AdapterPart part : parts) {
    config.adapters.parts[static_cast<std::size_t>(part)] = true;
  }
  return config;
}

// Parts of every linear, some of them, and linears that are one part, with and without dropout.
std::vector<GradientCase> adapter_cases() {
  using enum AdapterPart;
  std::vector<GradientCase> cases;
  for (const double dropout : {0.0, 0.3}) {
    const TransformerConfig llama =
        llama_config(attention_config(2, AttentionKernel::kFused, true));
    const TransformerConfig gpt = attention_config(4, AttentionKernel::kUnfused, false);
    cases.push_back(layer_case(
        with_adapters(llama, {kQuery, kKey, kValue, kOutput, kGate, kUp, kDown}, dropout)));
    cases.push_back(layer_case(with_adapters(llama, {kQuery, kValue, kUp}, dropout)));
    cases.push_back(layer_case(with_adapters(llama, {kKey, kFc1}, dropout)));
    cases.push_back(layer_case(with_adapters(gpt, {kQkv, kFc1}, dropout)));
    cases.push_back(layer_case(with_adapters(gpt, {kOutput, kDown}, dropout)));
  }
  return cases;
}

TEST(LayerGradients, OfAdaptersMatchDifferences) {
  for (const GradientCase& row : adapter_cases()) {
    EXPECT_EQ(ops::compare_with_differences(row), "");
  }
}

constexpr std::int64_t kVocabulary = 13;
constexpr std::int64_t kPaddedVocabulary = 16;

GradientCase embedding_case(bool tied) {
  return {"embedding", tied ? "tied" : "untied", [tied](Operands& operands) {
            const TransformerConfig config = test_config();
            const auto all = std::make_shared<LayerFixture>();
            const auto unit = std::make_shared<Embedding>(
                all->table, kVocabulary, kPaddedVocabulary, 5, EmbeddingSharing{.words = tied},
                kTestEmbeddingColumns, config);
            all->allocate(operands, unit->saved_slots(), kVocabulary);
            GradientJob job = unit_job(operands, all, unit);
            if (!tied) return job;
            job.backward = [all, backward = job.backward](Context& context) {
              backward(context);
              all->join(context);
            };
            return job;
          }};
}

GradientCase head_case(double row_scale = 1.0) {
  return {"language_model_head", fmt::format("untied, rows x {}", row_scale),
          [row_scale](Operands& operands) {
            const auto all = std::make_shared<LayerFixture>();
            const auto unit = std::make_shared<LanguageModelHead>(
                all->table,
                VocabularyOptions{.vocabulary = kVocabulary,
                                  .padded_vocabulary = kPaddedVocabulary,
                                  .tied = false,
                                  .bias = row_scale != 1.0,
                                  .row_scale = row_scale,
                                  .columns = kTestTargetColumns},
                test_config());
            all->allocate(operands, unit->saved_slots(), kVocabulary);
            return unit_job(operands, all, unit);
          }};
}

std::vector<GradientCase> layer_cases() {
  std::vector<GradientCase> cases = {linear_case(Linear::Bias::kInProduct),
                                     linear_case(Linear::Bias::kByCaller),
                                     linear_case(Linear::Bias::kNone),
                                     embedding_case(true),
                                     embedding_case(false),
                                     head_case(),
                                     head_case(0.5)};
  for (const bool either : {false, true}) {
    for (const bool other : {false, true}) {
      cases.push_back(norm_case(NormKind::kLayerNorm, either, other));
      cases.push_back(norm_case(NormKind::kRmsNorm, either, other));
      for (const ops::ActivationKind activation : ops::kActivationKinds) {
        cases.push_back(mlp_case(activation, either, other));
      }
    }
  }
  for (const auto kernel : {AttentionKernel::kFused, AttentionKernel::kUnfused}) {
    for (const std::int64_t groups : {4, 2, 1}) {
      cases.push_back(attention_case(attention_config(groups, kernel, groups == 2)));
    }
    TransformerConfig config = attention_config(2, kernel, true);
    cases.push_back(layer_case(config));
    config.norm_place = NormPlace::kPost;
    cases.push_back(layer_case(config));
    cases.push_back(layer_case(llama_config(config)));
    config.norm_place = NormPlace::kPre;
    cases.push_back(layer_case(llama_config(config)));
  }
  return cases;
}

TEST(LayerGradients, MatchDifferences) {
  for (const GradientCase& row : layer_cases()) {
    EXPECT_EQ(ops::compare_with_differences(row), "");
  }
}

// A mean per microbatch: the seed is divided by the microbatch's unmasked tokens, eight of ten.
TEST(LanguageModelHead, MeanOfMicrobatch) {
  GradientCase row = head_case();
  row.build = [](Operands& operands) {
    const auto all = std::make_shared<LayerFixture>();
    const auto unit = std::make_shared<LanguageModelHead>(
        all->table, LanguageModelHead::Output::kOwn, kVocabulary, kPaddedVocabulary,
        kTestTargetColumns, test_config());
    all->allocate(operands, unit->saved_slots(), kVocabulary);
    all->losses.factor = 0.5;
    all->loss_settings.mean_of_microbatch = true;
    GradientJob job = unit_job(operands, all, unit);
    job.outputs[0].gradient = operands.filled(DType::kF64, {1}, 8.0 * 0.5 / 8.0);
    return job;
  };
  EXPECT_EQ(ops::compare_with_differences(row), "");
}

}  // namespace
}  // namespace phalanx::nn
