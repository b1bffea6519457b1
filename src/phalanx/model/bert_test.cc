#include "phalanx/model/bert.h"

#include <gtest/gtest.h>

#include "phalanx/model/bert_test_support.h"
#include "phalanx/ops/cases/differentiate.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

TEST(Bert, FormulaHash) {
  const std::uint32_t first[] = {0U, 1834104592U, 2889141741U, 593034902U};
  const std::uint32_t third[] = {3520614255U, 4216417093U, 3725285190U, 2606614379U};
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(formula_hash(i, 0), first[i]);
    EXPECT_EQ(formula_hash(i, 3), third[i]);
  }
}

TEST(Bert, ParametersInGlobalOrder) {
  BertConfig config = tiny_bert_config();
  config.transformer.num_layers = 0;
  const auto names_of = [&] {
    nn::ParamTable table;
    const BertModel model(config);
    model.build_chunk(model.whole(), table);
    std::vector<std::string> names;
    for (const auto& spec : table.specs()) names.push_back(spec.name);
    return names;
  };
  std::vector<std::string> expected = {"embedding.word_embeddings.weight",
                                       "embedding.position_embeddings.weight",
                                       "embedding.tokentype_embeddings.weight",
                                       "encoder.final_layernorm.weight",
                                       "encoder.final_layernorm.bias",
                                       "lm_head.dense.weight",
                                       "lm_head.dense.bias",
                                       "lm_head.layer_norm.weight",
                                       "lm_head.layer_norm.bias",
                                       "output_layer.bias",
                                       "pooler.dense.weight",
                                       "pooler.dense.bias",
                                       "binary_head.weight",
                                       "binary_head.bias"};
  EXPECT_EQ(names_of(), expected);
  config.tied_embedding = false;
  expected.insert(expected.begin() + 9, "output_layer.weight");
  EXPECT_EQ(names_of(), expected);
  config.binary_head = false;
  expected.resize(expected.size() - 4);
  expected.erase(expected.begin() + 2);
  EXPECT_EQ(names_of(), expected);
  config.transformer.norm_place = nn::NormPlace::kPost;
  expected.erase(expected.begin() + 2, expected.begin() + 4);
  expected.insert(expected.begin() + 2, {"embedding.layernorm.weight", "embedding.layernorm.bias"});
  EXPECT_EQ(names_of(), expected);
}

// BERT-large of bert-large-uncased's vocabulary with [BOS] and [EOS].
TEST(Bert, Parameters) {
  BertConfig config = tiny_bert_config();
  config.transformer.num_layers = 24;
  config.transformer.hidden = 1024;
  config.transformer.ffn_hidden = 4096;
  config.transformer.heads = config.transformer.query_groups = 16;
  config.transformer.head_size = 64;
  config.vocabulary = 30524;
  config.padded_vocabulary = 30592;
  config.max_positions = 512;
  const std::int64_t h = 1024, v = 30524, p = 512;
  const std::int64_t body = 24 * (12 * h * h + 13 * h) + 2 * h + v * h + p * h;
  const std::int64_t head = h * h + h + 2 * h + v;
  const std::int64_t binary = 2 * h + h * h + h + 2 * h + 2;
  EXPECT_EQ(bert_parameters(config), body + head + binary);
  config.binary_head = false;
  EXPECT_EQ(bert_parameters(config), body + head);
  config.tied_embedding = false;
  EXPECT_EQ(bert_parameters(config), body + head + v * h);
}

// 6 per matrix weight and token, and full attention.
TEST(Bert, FlopsOfASample) {
  const BertModel model(tiny_bert_config());
  const double layer = 12.0 * 16 * 16;
  const double expected =
      16 * (6.0 * (2 * layer + 16 * 16 + 16 * 64) + 12.0 * 2 * 16 * 16) + 6.0 * (16 * 16 + 2 * 16);
  EXPECT_DOUBLE_EQ(model.flops_per_sample(), expected);
  EXPECT_EQ(model.tokens_per_sample(), 16);
}

TEST(Bert, StagesHaveTheParametersOfTheWhole) {
  const BertModel model(tiny_bert_config());
  nn::ParamTable whole;
  model.build_chunk(model.whole(), whole);
  std::vector<std::string> expected, names;
  for (const auto& spec : whole.specs()) expected.push_back(spec.name);
  for (const StageRange& range : one_stack_stages(std::array<std::int64_t, 2>{1, 1})) {
    nn::ParamTable stage;
    model.build_chunk(range, stage);
    for (const auto& spec : stage.specs()) {
      // The last stage's copy of the word table.
      if (range.has_head && spec.name == "embedding.word_embeddings.weight") continue;
      names.push_back(spec.name);
    }
  }
  EXPECT_EQ(names, expected);
}

// Which gradients are partial sums over the sequence: the pooler's and the binary head's are not.
TEST(Bert, SaysHowGradientsComeTogether) {
  BertConfig config = tiny_bert_config();
  config.transformer.num_layers = 0;
  config.transformer.tensor = {.rank = 1, .size = 2, .sequence = true};
  nn::ParamTable table;
  const BertModel model(config);
  model.build_chunk(model.whole(), table);
  std::vector<std::string> partial, cut;
  for (const ParamSpec& spec : table.specs()) {
    if (spec.summed_over.has(Axis::kTensor)) partial.push_back(spec.name);
    if (spec.cut_over.has(Axis::kTensor)) cut.push_back(spec.name);
  }
  EXPECT_EQ(partial, (std::vector<std::string>{
                         "encoder.final_layernorm.weight", "encoder.final_layernorm.bias",
                         "lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight",
                         "lm_head.layer_norm.bias"}));
  EXPECT_EQ(cut,
            (std::vector<std::string>{"embedding.word_embeddings.weight", "output_layer.bias"}));
}

constexpr double kExact = 1e-9;

TEST(TinyBert, Losses) {
  struct Expected {
    ops::ActivationKind activation;
    bool binary_head;
    double lm, sop;
  };
  for (const Expected& expected :
       {Expected{ops::ActivationKind::kGeluTanh, true, 5.267985110804246, 1.2940279516317716},
        Expected{ops::ActivationKind::kGeluTanh, false, 5.086939208028416, 0.0},
        Expected{ops::ActivationKind::kGeluErf, true, 5.267974586444058, 1.2941105353884947},
        Expected{ops::ActivationKind::kGeluErf, false, 5.086955803829512, 0.0}}) {
    BertRun run;
    run.config.transformer.activation = expected.activation;
    run.config.binary_head = expected.binary_head;
    const BertResult result = run_bert(run);
    EXPECT_NEAR(result.lm().mean(), expected.lm, kExact);
    EXPECT_EQ(result.lm().count, 3.0);
    if (!expected.binary_head) {
      EXPECT_EQ(result.sop(), BertLoss());
      continue;
    }
    EXPECT_NEAR(result.sop().mean(), expected.sop, kExact);
    EXPECT_EQ(result.sop().count, 2.0);
  }
}

TEST(TinyBert, LossesOfEachSample) {
  const std::array<BertLoss, 2> expected = {BertLoss{9.895546680547112, 2.0},
                                            BertLoss{5.908408651865628, 1.0}};
  double mean_of_means = 0.0;
  for (std::size_t sample = 0; sample < 2; ++sample) {
    BertRun run;
    run.batch = tiny_bert_batch().only(sample);
    const BertResult result = run_bert(run);
    EXPECT_NEAR(result.lm().sum, expected[sample].sum, kExact);
    EXPECT_EQ(result.lm().count, expected[sample].count);
    mean_of_means += result.lm().mean() / 2.0;
  }
  EXPECT_NEAR(mean_of_means, 5.428090996069592, kExact);
}

TEST(TinyBert, GradientNorms) {
  const std::map<std::string, double> expected = {
      {"binary_head.weight", 1.81923},
      {"binary_head.bias", 0.620771},
      {"embedding.position_embeddings.weight", 2.3047},
      {"embedding.tokentype_embeddings.weight", 2.35486},
      {"embedding.word_embeddings.weight", 3.33802},
      {"encoder.final_layernorm.weight", 0.724323},
      {"encoder.final_layernorm.bias", 0.778635},
      {"encoder.layers.0.input_layernorm.weight", 1.18803},
      {"encoder.layers.0.input_layernorm.bias", 1.38447},
      {"encoder.layers.0.mlp.linear_fc1.weight", 3.25047},
      {"encoder.layers.0.mlp.linear_fc1.bias", 0.94759},
      {"encoder.layers.0.mlp.linear_fc2.weight", 4.02112},
      {"encoder.layers.0.mlp.linear_fc2.bias", 0.674607},
      {"encoder.layers.0.pre_mlp_layernorm.weight", 0.666305},
      {"encoder.layers.0.pre_mlp_layernorm.bias", 0.873819},
      {"encoder.layers.0.self_attention.linear_proj.weight", 3.67154},
      {"encoder.layers.0.self_attention.linear_proj.bias", 1.1954},
      {"encoder.layers.0.self_attention.linear_qkv.weight", 4.33837},
      {"encoder.layers.0.self_attention.linear_qkv.bias", 1.3585},
      {"encoder.layers.1.input_layernorm.weight", 0.592067},
      {"encoder.layers.1.input_layernorm.bias", 0.678369},
      {"encoder.layers.1.mlp.linear_fc1.weight", 2.12414},
      {"encoder.layers.1.mlp.linear_fc1.bias", 0.517125},
      {"encoder.layers.1.mlp.linear_fc2.weight", 2.03931},
      {"encoder.layers.1.mlp.linear_fc2.bias", 0.353882},
      {"encoder.layers.1.pre_mlp_layernorm.weight", 0.48459},
      {"encoder.layers.1.pre_mlp_layernorm.bias", 0.489903},
      {"encoder.layers.1.self_attention.linear_proj.weight", 1.92538},
      {"encoder.layers.1.self_attention.linear_proj.bias", 0.458137},
      {"encoder.layers.1.self_attention.linear_qkv.weight", 1.91337},
      {"encoder.layers.1.self_attention.linear_qkv.bias", 0.547602},
      {"lm_head.dense.weight", 2.44594},
      {"lm_head.dense.bias", 0.459594},
      {"lm_head.layer_norm.weight", 0.772265},
      {"lm_head.layer_norm.bias", 0.79958},
      {"output_layer.bias", 0.590391},
      {"pooler.dense.weight", 2.31115},
      {"pooler.dense.bias", 0.452884}};
  for (const bool fused : {false, true}) {
    BertRun run;
    run.fused = fused;
    const BertResult result = run_bert(run);
    EXPECT_EQ(result.gradients.size(), expected.size());
    for (const auto& [name, norm] : expected) {
      // Six digits are printed.
      EXPECT_NEAR(result.norm(name) / norm, 1.0, 6e-6) << name;
    }
  }
}

void clear(const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.count(); ++i) nn::write_element(tensor, i, 0.0);
}

// The losses of wrong models, made by changing the input or the weights.
TEST(TinyBert, WhatItReadsMatters) {
  BertRun no_padding;
  no_padding.batch.lengths = {16, 16};
  EXPECT_NEAR(run_bert(no_padding).lm().mean(), 5.105707253098039, kExact);
  BertRun no_types;
  for (auto& types : no_types.batch.types) types.assign(16, 0);
  EXPECT_NEAR(run_bert(no_types).lm().mean(), 6.166008814832938, kExact);
  BertRun no_bias;
  no_bias.change = [](TinyBert& bert) { clear(bert.parameter("output_layer.bias")); };
  EXPECT_NEAR(run_bert(no_bias).lm().mean(), 5.284226060044248, kExact);
}

// What padding holds changes nothing, neither losses nor gradients of anything else.
TEST(TinyBert, PaddingIsInvisible) {
  BertRun run;
  const BertResult expected = run_bert(run);
  for (std::size_t i = 11; i < 16; ++i) {
    run.batch.tokens[1][i] = 7;
    run.batch.types[1][i] = 1;
  }
  const BertResult result = run_bert(run);
  EXPECT_EQ(result, expected);
}

// Norms behind the sub-layers and the embedding, none at the end: Hugging Face's BERT.
TEST(TinyBert, PostNorm) {
  BertRun run;
  run.config.transformer.norm_place = nn::NormPlace::kPost;
  run.config.transformer.activation = ops::ActivationKind::kGeluErf;
  const BertResult result = run_bert(run);
  EXPECT_NEAR(result.lm().mean(), 5.71954876470406, kExact);
  EXPECT_NEAR(result.sop().mean(), 1.14520058865305, kExact);
}

TEST(TinyBert, LogitsOfAllPositions) {
  nn::TestMachine machine;
  Context& context = machine.context;
  ops::Operands& operands = machine.operands;
  TinyBert bert(operands, tiny_bert_config(), tiny_bert_batch().only(0));
  nn::Pass pass = bert.pass(context);
  pass.training = false;
  for (const std::int64_t rows : {16, 15, 1}) {
    const Tensor logits = operands.output({rows, 64});
    nn::InferencePass inference{.pass = pass, .logits = logits};
    bert.chunk.infer(inference, bert.tensors);
    const nn::Values values = nn::values_of(logits);
    EXPECT_TRUE(std::ranges::all_of(values, [](double value) { return std::isfinite(value); }));
    if (rows == 1) continue;
    const auto second = static_cast<std::size_t>((rows - 15) * 64);
    // As exact as the weights' rounding to float.
    EXPECT_NEAR(values[second], 0.8248528131258953, 4e-9);
    EXPECT_NEAR(values[second + 1], 0.43855175328642054, 4e-9);
    EXPECT_NEAR(values[second + 2], -2.3800685121239376, 4e-9);
  }
}

// No masked token, no class: the losses count nothing and have no gradient, and nothing is NaN.
TEST(TinyBert, NothingToPredict) {
  BertRun run;
  run.batch.masked.clear();
  run.batch.is_random = {-1, -1};
  const BertResult result = run_bert(run);
  EXPECT_EQ(result.losses, (std::array<BertLoss, 2>()));
  for (const auto& [name, gradient] : result.gradients) EXPECT_EQ(result.norm(name), 0.0) << name;
}

// A sample without a class has no part in the second loss.
TEST(TinyBert, ASampleWithoutAClass) {
  BertRun run;
  run.batch.is_random = {0, -1};
  const BertResult result = run_bert(run);
  EXPECT_EQ(result.sop().count, 1.0);
  BertRun first;
  first.batch = tiny_bert_batch().only(0);
  EXPECT_NEAR(result.sop().sum, run_bert(first).sop().sum, kExact);
}

BertRun with_dropout(bool binary_head, nn::NormPlace place) {
  BertRun run;
  run.config.binary_head = binary_head;
  run.config.transformer.norm_place = place;
  run.config.transformer.hidden_dropout = 0.1;
  run.config.transformer.attention_dropout = 0.2;
  run.config.padded_vocabulary = 68;
  return run;
}

void expect_near(const BertResult& actual, const BertResult& expected) {
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(actual.losses[i].sum, expected.losses[i].sum, 1e-11);
    EXPECT_EQ(actual.losses[i].count, expected.losses[i].count);
  }
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    nn::expect_near(actual.gradients.at(name), gradient, 1e-11, name);
  }
}

// Tensor and sequence parallelism, both orders of the backward passes.
TEST(TinyBert, OnManyRanksIsTheOneOfOneRank) {
  for (const auto& [binary_head, place] :
       {std::pair(true, nn::NormPlace::kPre), std::pair(false, nn::NormPlace::kPre),
        std::pair(true, nn::NormPlace::kPost)}) {
    BertRun run = with_dropout(binary_head, place);
    const BertResult expected = run_bert(run);
    EXPECT_GT(expected.norm("embedding.word_embeddings.weight"), 0.0);
    run.fused = false;
    EXPECT_EQ(run_bert(run), expected);
    for (const int size : {2, 4}) {
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(fmt::format("{} ranks, sequence parallel {}, binary head {}, post-norm {}",
                                 size, sequence, binary_head, place == nn::NormPlace::kPost));
        run.config.transformer.tensor = {.size = size, .sequence = sequence};
        run.fused = true;
        const BertResult together = run_bert(run);
        expect_near(together, expected);
        run.fused = false;
        EXPECT_EQ(run_bert(run), together);
      }
    }
    run.config.transformer.tensor = {};
  }
}

TEST(TinyBert, RecomputationGivesTheSameBits) {
  for (const nn::NormPlace place : {nn::NormPlace::kPre, nn::NormPlace::kPost}) {
    BertRun run = with_dropout(true, place);
    const BertResult expected = run_bert(run);
    for (const std::int64_t layers : {1, 2}) {
      run.config.recompute = {.method = RecomputePlan::Method::kUniform, .num_layers = layers};
      EXPECT_EQ(run_bert(run), expected);
    }
  }
}

// The processor's kernels in fp32 and bf16 against the reference, the same bits with any number of
// threads.
TEST(TinyBert, OnTheProcessor) {
  for (const nn::NormPlace place : {nn::NormPlace::kPre, nn::NormPlace::kPost}) {
    BertRun run = with_dropout(true, place);
    const BertResult expected = run_bert(run);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const bool full = dtype == DType::kF32;
      run.config.transformer.dtype = dtype;
      run.backend = [] { return make_cpu_backend(1, cpu::ProductPrecision::kFp32); };
      const BertResult result = run_bert(run);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_NEAR(result.losses[i].mean(), expected.losses[i].mean(), full ? 1e-5 : 0.1);
      }
      for (const auto& [name, gradient] : expected.gradients) {
        // The true gradient of the keys' biases is 0.
        if (name.ends_with("linear_qkv.bias")) continue;
        EXPECT_LT(nn::relative_error(result.gradients.at(name), gradient), full ? 2e-5 : 0.2)
            << name << ", " << name_of(dtype);
      }
      run.backend = [] { return make_cpu_backend(3, cpu::ProductPrecision::kFp32); };
      EXPECT_EQ(run_bert(run), result);
      run.fused = !run.fused;
      EXPECT_EQ(run_bert(run), result);
    }
  }
}

// Losses and embeddings against finite differences, dropout on.
ops::GradientCase bert_case(bool binary_head, nn::NormPlace place) {
  return {"bert", "", [=](ops::Operands& operands) {
            BertConfig config = with_dropout(binary_head, place).config;
            config.transformer.num_layers = 1;
            config.transformer.hidden = 6;
            config.transformer.ffn_hidden = 8;
            config.transformer.heads = config.transformer.query_groups = 2;
            config.transformer.head_size = 3;
            config.vocabulary = 9;
            config.padded_vocabulary = 10;
            config.max_positions = 5;
            config.sequence = 5;
            const TinyBertBatch batch = {.sequence = 5,
                                         .tokens = {{2, 4, 5, 6, 3}, {2, 8, 3, 0, 0}},
                                         .types = {{0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}},
                                         .lengths = {5, 3},
                                         .masked = {{0, 1, 7}, {1, 1, 8}},
                                         .is_random = {1, 0}};
            const auto bert = std::make_shared<TinyBert>(operands, config, batch);
            ops::GradientJob job{
                .forward = [bert](Context& context) { bert->forward(context); },
                .backward = [bert](Context& context) { bert->backward(context, false); },
                .outputs = {},
                .operands = bert->all.parameter_pairs()};
            for (std::size_t i = 0; i < (binary_head ? 2U : 1U); ++i) {
              const nn::LossTerm& term = bert->losses[i];
              job.outputs.push_back({term.sum, operands.filled(DType::kF64, {1}, term.factor)});
            }
            return job;
          }};
}

TEST(TinyBert, GradientsMatchDifferences) {
  EXPECT_EQ(ops::compare_with_differences(bert_case(true, nn::NormPlace::kPre)), "");
  EXPECT_EQ(ops::compare_with_differences(bert_case(false, nn::NormPlace::kPre)), "");
  EXPECT_EQ(ops::compare_with_differences(bert_case(true, nn::NormPlace::kPost)), "");
}

}  // namespace
}  // namespace phalanx
