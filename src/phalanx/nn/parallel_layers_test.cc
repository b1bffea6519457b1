// Every layer cut over 2 and 4 tensor-parallel ranks against itself on one rank, with and without
// sequence parallelism, dropout on: in double on the reference.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <ostream>

#include "phalanx/comm/meta/meta_communicator.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/nn/transformer_layer.h"

namespace phalanx::nn {
namespace {

constexpr std::int64_t kVocabulary = 11;
constexpr std::int64_t kPaddedVocabulary = 16;  // of four ranks the last has padding alone

std::unique_ptr<Unit> make_attention(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<SublayerUnit>(table, config, make_test_attention);
}

std::unique_ptr<Unit> make_mlp(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<SublayerUnit>(table, config, make_test_mlp);
}

std::unique_ptr<Unit> make_layer(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<TransformerLayer>(table, 1, 0, config);
}

template <bool tied>
std::unique_ptr<Unit> make_embedding(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<Embedding>(table, kVocabulary, kPaddedVocabulary, 8,
                                     EmbeddingSharing{.words = tied}, kTestEmbeddingColumns,
                                     config);
}

std::unique_ptr<Unit> make_head(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<LanguageModelHead>(table, LanguageModelHead::Output::kOwn, kVocabulary,
                                             kPaddedVocabulary, kTestTargetColumns, config);
}

// Tied to a word table whose other role is another unit's.
std::unique_ptr<Unit> make_tied_head(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<LanguageModelHead>(table, LanguageModelHead::Output::kTied, kVocabulary,
                                             kPaddedVocabulary, kTestTargetColumns, config);
}

TransformerConfig parallel_config(std::int64_t heads = 4, std::int64_t groups = 4,
                                  AttentionKernel kernel = AttentionKernel::kFused) {
  TransformerConfig config = test_config();
  config.ffn_hidden = 16;
  config.heads = heads;
  config.query_groups = groups;
  config.attention = kernel;
  return config;
}

TransformerConfig post_norm_config(std::int64_t heads = 4, std::int64_t groups = 4) {
  TransformerConfig config = parallel_config(heads, groups);
  config.norm_place = NormPlace::kPost;
  return config;
}

TransformerConfig gated_config(bool bias) {
  TransformerConfig config = llama_config(parallel_config());
  config.linear_bias = bias;
  return config;
}

struct LayerCase {
  std::string name;
  MakeUnit make;
  TransformerConfig config;
  double tolerance = 1e-12;

  friend void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }
};

std::vector<LayerCase> layer_cases() {
  const auto unfused = AttentionKernel::kUnfused;
  return {{"attention", make_attention, parallel_config()},
          {"attention_unfused", make_attention, parallel_config(4, 4, unfused)},
          {"attention_grouped", make_attention, parallel_config(8, 4)},
          {"attention_grouped_unfused", make_attention, parallel_config(8, 4, unfused)},
          // On four ranks, two of them or all have the same keys and values.
          {"attention_two_groups", make_attention, parallel_config(8, 2)},
          {"attention_one_group", make_attention, parallel_config(4, 1)},
          {"attention_one_group_unfused", make_attention, parallel_config(8, 1, unfused)},
          {"mlp", make_mlp, parallel_config()},
          {"layer", make_layer, parallel_config(8, 4)},
          {"attention_post_norm", make_attention, post_norm_config(8, 4)},
          {"mlp_post_norm", make_mlp, post_norm_config()},
          {"layer_post_norm", make_layer, post_norm_config()},
          {"mlp_gated", make_mlp, gated_config(true)},
          {"mlp_gated_no_bias", make_mlp, gated_config(false)},
          {"layer_llama", make_layer, llama_config(parallel_config(8, 4))},
          {"layer_llama_post_norm", make_layer, llama_config(post_norm_config(8, 4))},
          // Every row is on one rank, so rounding is the same.
          {"embedding_tied", make_embedding<true>, parallel_config(), 0.0},
          {"embedding_untied", make_embedding<false>, parallel_config(), 0.0},
          {"head_untied", make_head, parallel_config()},
          {"head_rms_norm", make_head, llama_config(parallel_config())},
          {"head_tied", make_tied_head, parallel_config()}};
}

class ParallelLayers : public testing::TestWithParam<LayerCase> {};

UnitResult result_on(const LayerCase& layer, const TensorParallel& tensor, bool fused_backward) {
  TransformerConfig config = layer.config;
  config.tensor = tensor;
  return result_of({.make = layer.make,
                    .config = config,
                    .vocabulary = kVocabulary,
                    .fused_backward = fused_backward});
}

TEST_P(ParallelLayers, AreTheLayerOfOneRank) {
  const UnitResult expected = result_on(GetParam(), {}, false);
  ASSERT_FALSE(expected.gradients.empty());
  EXPECT_EQ(result_on(GetParam(), {}, true), expected);
  for (const int size : {2, 4}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(fmt::format("{} ranks, sequence parallel {}", size, sequence));
      const UnitResult separate =
          result_on(GetParam(), {.size = size, .sequence = sequence}, false);
      expect_near(separate, expected, GetParam().tolerance);
      for (const bool async : {true, false}) {
        EXPECT_EQ(result_on(GetParam(), {.size = size, .sequence = sequence, .async_reduce = async},
                            true),
                  separate)
            << "fused backward, asynchronous reduction " << async;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, ParallelLayers, testing::ValuesIn(layer_cases()),
                         [](const auto& instance) { return instance.param.name; });

// Dropout is really on: without it the numbers differ.
TEST(ParallelDropout, IsOn) {
  for (const LayerCase& layer : layer_cases()) {
    if (layer.name.starts_with("head")) continue;
    UnitRun run{.make = layer.make, .config = layer.config};
    const UnitResult trained = result_of(run);
    run.training = false;
    EXPECT_NE(result_of(run).output, trained.output) << layer.name;
  }
}

// The mean of a microbatch is over all its unmasked tokens, wherever their rows are.
TEST(ParallelHead, MeanOfMicrobatch) {
  UnitRun run{.make = make_head, .config = parallel_config()};
  const UnitResult plain = result_of(run);
  run.mean_of_microbatch = true;
  const UnitResult expected = result_of(run);
  EXPECT_NE(expected.input_gradient, plain.input_gradient);
  for (const int size : {2, 4}) {
    for (const bool sequence : {false, true}) {
      run.config.tensor = {.size = size, .sequence = sequence};
      expect_near(result_of(run), expected, 1e-12);
    }
  }
}

// Saved tensors of the residual stream are cut by rows, the others by features.
TEST(ParallelLayer, SavesItsShare) {
  TransformerConfig config = parallel_config();
  config.tensor = {.rank = 1, .size = 2, .sequence = true};
  const BatchShape shape{.sequence = 8, .micro_batch = 2, .sequence_shards = 2};
  ParamTable table;
  const TransformerLayer layer(table, 0, 0, config);
  std::map<std::string, Shape> shapes;
  for (const auto& slot : layer.saved_slots()) shapes[slot.name] = slot.shape(shape);
  EXPECT_EQ(shapes.at("attention output"), (Shape{4, 2, config.hidden}));
  EXPECT_EQ(shapes.at("qkv"), (Shape{8, 2, 12 * config.head_size / 2}));
  EXPECT_EQ(shapes.at("fc1 output"), (Shape{8, 2, config.ffn_hidden / 2}));
  EXPECT_EQ(shapes.at("decoder.layers.0.pre_mlp_layernorm.mean"), (Shape{8}));
}

// A rank has its part of both halves of a gated fc1. RMSNorm saves one number for each row, and
// layers without biases have no bias parameters.
TEST(ParallelLayer, OfTheLlamaFamily) {
  TransformerConfig config = llama_config(parallel_config());
  config.tensor = {.rank = 1, .size = 4, .sequence = true};
  const BatchShape shape{.sequence = 8, .micro_batch = 2, .sequence_shards = 4};
  ParamTable table;
  const TransformerLayer layer(table, 0, 0, config);
  const std::string prefix = "decoder.layers.0.";
  std::vector<std::string> names;
  for (const ParamSpec& spec : table.specs()) names.push_back(spec.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                prefix + "input_layernorm.weight", prefix + "self_attention.linear_qkv.weight",
                prefix + "self_attention.linear_proj.weight", prefix + "pre_mlp_layernorm.weight",
                prefix + "mlp.linear_fc1.weight", prefix + "mlp.linear_fc2.weight"}));
  const ParamSpec& fc1 = table[4];
  EXPECT_EQ(fc1.global_shape, (Shape{32, config.hidden}));
  EXPECT_EQ(fc1.local_shape, (Shape{8, config.hidden}));
  ASSERT_EQ(fc1.boxes.size(), 2U);
  EXPECT_EQ(fc1.boxes[0].global_row, 4);
  EXPECT_EQ(fc1.boxes[1].global_row, 16 + 4);
  EXPECT_EQ(fc1.boxes[1].local_row, 4);
  std::int64_t statistics = 0;
  for (const auto& slot : layer.saved_slots()) {
    if (slot.name == "fc1 output") {
      EXPECT_EQ(slot.shape(shape), (Shape{8, 2, 8}));
    }
    if (slot.name.ends_with(".mean") || slot.name.ends_with(".rstd")) {
      statistics += slot.shape(shape).count();
    }
  }
  EXPECT_EQ(statistics, 2 * shape.stream_rows());
}

// Between the start of an input gradient's reduction and the norm that needs it, the weight
// gradients of the sub-layer's two linears are computed; without overlap, none.
TEST(ParallelLayer, ReducesWhileWeightGradientsAreComputed) {
  for (const bool async : {true, false}) {
    TransformerConfig config = parallel_config();
    config.tensor = {.rank = 0, .size = 2, .sequence = true, .async_reduce = async};
    const auto world = make_meta_world(0, 2);
    TestMachine machine;
    Context& context = machine.context;
    ops::Operands& operands = machine.operands;
    Recorder recorder;
    LayerFixture all;
    all.shape = {.sequence = 8, .micro_batch = 2, .sequence_shards = 2};
    all.region = TensorRegion(config.tensor, world.get());
    const TransformerLayer layer(all.table, 0, 0, config);
    all.allocate(operands, layer.saved_slots());
    const auto stream = [&] { return operands.uniform({4, 2, config.hidden}); };
    const std::vector<Tensor> in = {stream()}, out = {stream()}, dout = {stream()},
                              din = {stream()};
    Pass pass = all.pass(context);
    layer.forward(pass, in, out, all.saved());
    context.recorder = &recorder;
    layer.backward(pass, in, dout, din, all.saved(), all.gradients);

    std::vector<int> meanwhile;
    const auto count = [&](std::size_t first) {
      int weight_gradients = 0;
      for (std::size_t i = first; i < recorder.events().size(); ++i) {
        const auto* run = std::get_if<OpRun>(&recorder.events()[i]);
        if (run == nullptr) continue;
        if (run->cost.name == "layer_norm_backward") break;
        weight_gradients += run->cost.name == "linear_weight_gradient" ? 1 : 0;
      }
      return weight_gradients;
    };
    for (std::size_t m = 0; m < recorder.events().size(); ++m) {
      const auto* message = std::get_if<MessageBegun>(&recorder.events()[m]);
      if (message != nullptr && message->op == "reduce_scatter") meanwhile.push_back(count(m));
    }
    EXPECT_EQ(meanwhile, (async ? std::vector<int>{2, 2} : std::vector<int>{0, 0}));
  }
}

// Which gradients are partial sums over the sequence, and which are cut.
TEST(ParallelLayer, SaysHowGradientsComeTogether) {
  for (const bool sequence : {false, true}) {
    TransformerConfig config = parallel_config();
    config.tensor = {.rank = 0, .size = 2, .sequence = sequence};
    ParamTable table;
    const TransformerLayer layer(table, 0, 0, config);
    const LanguageModelHead head(table, LanguageModelHead::Output::kOwn, kVocabulary,
                                 kPaddedVocabulary, kTestTargetColumns, config);
    std::vector<std::string> partial, cut;
    for (const ParamSpec& spec : table.specs()) {
      if (spec.summed_over.has(Axis::kTensor)) partial.push_back(spec.name);
      if (spec.cut_over.has(Axis::kTensor)) cut.push_back(spec.name);
    }
    const std::string prefix = "decoder.layers.0.";
    const std::vector<std::string> of_the_stream = {
        prefix + "input_layernorm.weight",          prefix + "input_layernorm.bias",
        prefix + "self_attention.linear_proj.bias", prefix + "pre_mlp_layernorm.weight",
        prefix + "pre_mlp_layernorm.bias",          prefix + "mlp.linear_fc2.bias",
        "decoder.final_layernorm.weight",           "decoder.final_layernorm.bias"};
    EXPECT_EQ(partial, sequence ? of_the_stream : std::vector<std::string>{});
    const std::vector<std::string> in_the_region = {prefix + "self_attention.linear_qkv.weight",
                                                    prefix + "self_attention.linear_qkv.bias",
                                                    prefix + "self_attention.linear_proj.weight",
                                                    prefix + "mlp.linear_fc1.weight",
                                                    prefix + "mlp.linear_fc1.bias",
                                                    prefix + "mlp.linear_fc2.weight",
                                                    "output_layer.weight"};
    EXPECT_EQ(cut, in_the_region);
  }
}

}  // namespace
}  // namespace phalanx::nn
