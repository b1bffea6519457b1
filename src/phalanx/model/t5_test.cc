#include "phalanx/model/t5.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/model/t5_test_support.h"
#include "phalanx/ops/cases/differentiate.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nn::Values;

constexpr T5Positions kAllPositions[] = {T5Positions::kLearned, T5Positions::kRelative,
                                         T5Positions::kNone};

struct T5Outcome {
  Values loss;
  std::map<std::string, Values> gradients;
  friend bool operator==(const T5Outcome&, const T5Outcome&) = default;
};

T5Outcome run_stages(const T5Config& config, const T5Fixture::Stages& stages, bool split = false,
                     std::unique_ptr<Backend> backend = make_ref_backend()) {
  nn::TestMachine machine(config.transformer.dtype, std::move(backend));
  T5Fixture t5(machine.operands, config, stages);
  t5.forward(machine.context);
  t5.backward(machine.context, split);
  return {nn::values_of(t5.loss().sum), t5.gradients(machine.context, machine.operands)};
}

// Every gradient of the whole model: both stacks, cross attention, the sum of the gradients of the
// encoder's output, shared tables; dropout on. As Megatron has it, and as published: without
// biases, scores as they are, the decoder's output scaled.
TEST(T5, GradientsMatchDifferences) {
  enum class Form { kLearned, kRelative, kPublished };
  for (const Form form : {Form::kLearned, Form::kRelative, Form::kPublished}) {
    const ops::GradientCase row{
        "t5",
        form == Form::kLearned    ? "learned, tied, fused"
        : form == Form::kRelative ? "relative, untied, unfused"
                                  : "relative, tied, scaled, no biases",
        [form](ops::Operands& operands) {
          T5Config config = test_t5_config(
              form == Form::kLearned ? T5Positions::kLearned : T5Positions::kRelative,
              form != Form::kRelative);
          config.transformer.attention =
              form == Form::kRelative ? nn::AttentionKernel::kUnfused : nn::AttentionKernel::kFused;
          if (form == Form::kPublished) {
            config.transformer.linear_bias = false;
            config.transformer.qkv_bias = false;
            config.transformer.attention_scale = 0.5;
            config.output_bias = false;
            config.output_scale = 0.5;
          }
          config.encoder_layers = 1;
          config.transformer.heads = 2;
          config.transformer.query_groups = 2;
          config.transformer.hidden = 4;
          const auto t5 = std::make_shared<T5Fixture>(operands, config, t5_stages(config));
          T5Stage& stage = t5->stage(0);
          ops::GradientJob job;
          std::vector<Tensor> sums;
          for (ParamId id = 0; id < stage.table.size(); ++id) {
            const auto i = static_cast<std::size_t>(id);
            job.operands.push_back({stage.parameters[i], stage.gradient_tensors[i]});
          }
          job.forward = [t5](Context& context) {
            ops::fill(context, {.x = t5->loss().sum, .value = 0.0});
            t5->forward(context);
          };
          job.backward = [t5, &operands](Context& context) {
            t5->backward(context);
            const auto gradients = t5->gradients(context, operands);
            T5Stage& whole = t5->stage(0);
            for (ParamId id = 0; id < whole.table.size(); ++id) {
              const auto& values = gradients.at(whole.table[id].name);
              for (std::size_t e = 0; e < values.size(); ++e) {
                nn::write_element(whole.gradient_tensors[static_cast<std::size_t>(id)],
                                  static_cast<std::int64_t>(e), values[e]);
              }
            }
          };
          job.outputs = {{t5->loss().sum, operands.filled(DType::kF64, {1}, 8.0 / 16.0)}};
          return job;
        }};
    EXPECT_EQ(ops::compare_with_differences(row), "") << row.description;
  }
}

// Whole gradients from those of all ranks: parts side by side, partial sums added up.
T5Outcome run_tensor_parallel(T5Config config, const T5Fixture::Stages& stages, bool split) {
  const int size = config.transformer.tensor.size;
  std::vector<T5Outcome> ranks(static_cast<std::size_t>(size));
  std::vector<std::map<std::string, ParamSpec>> specs(ranks.size());
  run_local_ranks(size, {}, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    T5Config own = config;
    own.transformer.tensor.rank = world.rank();
    nn::TestMachine machine(own.transformer.dtype);
    T5Fixture t5(machine.operands, own, stages, size == 1 ? nullptr : &world);
    t5.forward(machine.context);
    t5.backward(machine.context, split);
    ranks[rank] = {nn::values_of(t5.loss().sum), t5.gradients(machine.context, machine.operands)};
    for (const auto& [name, values] : ranks[rank].gradients) {
      specs[rank].emplace(name, t5.spec(name));
    }
  });
  T5Outcome whole{ranks[0].loss, {}};
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks[r].loss, whole.loss);
    for (const auto& [name, values] : ranks[r].gradients) {
      const ParamSpec& spec = specs[r].at(name);
      Values& sum = whole.gradients[name];
      sum.resize(static_cast<std::size_t>(spec.global_shape.count()), 0.0);
      if (!spec.cut_over.has(Axis::kTensor) && !spec.summed_over.has(Axis::kTensor) && r > 0) {
        EXPECT_EQ(values, ranks[0].gradients.at(name)) << name;
        continue;
      }
      nn::for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
        sum[static_cast<std::size_t>(global)] += values[static_cast<std::size_t>(local)];
      });
    }
  }
  return whole;
}

TEST(T5, TensorParallelRanksAreTheModelOfOne) {
  for (const T5Positions positions : {T5Positions::kLearned, T5Positions::kRelative}) {
    T5Config config = test_t5_config(positions, true);
    const T5Outcome expected = run_tensor_parallel(config, t5_stages(config), false);
    for (const int size : {2, 4}) {
      for (const bool sequence : {false, true}) {
        config.transformer.tensor = {.size = size, .sequence = sequence};
        const T5Outcome fused = run_tensor_parallel(config, t5_stages(config), false);
        SCOPED_TRACE(fmt::format("{} ranks, sequence parallel {}", size, sequence));
        EXPECT_NEAR(fused.loss[0], expected.loss[0], 1e-12);
        ASSERT_EQ(fused.gradients.size(), expected.gradients.size());
        for (const auto& [name, gradient] : expected.gradients) {
          nn::expect_near(fused.gradients.at(name), gradient, 1e-12, name);
        }
        EXPECT_EQ(run_tensor_parallel(config, t5_stages(config), true), fused);
      }
    }
  }
}

// No two places of the model draw the same mask.
TEST(T5, DropoutSites) {
  const T5Config config = test_t5_config(T5Positions::kLearned, true);
  std::set<std::uint32_t> sites;
  std::size_t places = 0;
  for (const auto& stack : {t5_encoder_config(config), t5_decoder_config(config)}) {
    for (const std::int64_t layer : {std::int64_t{0}, std::int64_t{1}, std::int64_t{0xffff}}) {
      for (const auto place :
           {DropoutPlace::kEmbedding, DropoutPlace::kAttention, DropoutPlace::kAttentionOutput,
            DropoutPlace::kMlpOutput, DropoutPlace::kCrossAttention,
            DropoutPlace::kCrossAttentionOutput}) {
        sites.insert(stack.dropout_site(layer, place));
        ++places;
      }
    }
  }
  EXPECT_EQ(sites.size(), places);
}

// Every cut between and within the stacks, bit for bit.
TEST(T5, StagesHaveTheBitsOfOne) {
  for (const auto& [dtype, fp32_residual] :
       {std::pair{DType::kF32, false}, {DType::kBF16, false}, {DType::kBF16, true}}) {
    for (const T5Positions positions : kAllPositions) {
      for (const bool tied : {true, false}) {
        T5Config config = test_t5_config(positions, tied);
        config.transformer.dtype = dtype;
        config.transformer.fp32_residual = fp32_residual;
        const auto cpu = [] { return make_cpu_backend(1, cpu::ProductPrecision::kFp32); };
        const T5Outcome expected = run_stages(config, t5_stages(config), false, cpu());
        ASSERT_TRUE(std::isfinite(expected.loss[0]));
        for (const auto& [stages, split] : {std::pair{2, 1}, {3, 1}, {3, 2}, {4, 2}}) {
          const bool apart = stages == 3;
          EXPECT_EQ(run_stages(config, t5_stages(config, stages, split), apart, cpu()), expected)
              << stages << " stages, decoder from " << split;
        }
      }
    }
  }
}

TEST(T5, RecomputationGivesTheSameBits) {
  using Method = RecomputePlan::Method;
  for (const T5Positions positions : {T5Positions::kLearned, T5Positions::kRelative}) {
    for (const auto kernel : {nn::AttentionKernel::kFused, nn::AttentionKernel::kUnfused}) {
      T5Config config = test_t5_config(positions, true);
      config.transformer.attention = kernel;
      const T5Outcome expected = run_stages(config, t5_stages(config));
      for (const Method method : {Method::kUniform, Method::kBlock}) {
        for (const std::int64_t layers : {1, 2, 9}) {
          config.recompute = {.method = method, .num_layers = layers};
          EXPECT_EQ(run_stages(config, t5_stages(config)), expected) << layers;
          EXPECT_EQ(run_stages(config, t5_stages(config, 2, 1), true), expected) << layers;
        }
      }
    }
  }
}

// Recomputing decoder layers keeps one encoder's output, and computes no encoder layer again.
TEST(T5, TheEncodersOutputIsOneBlock) {
  T5Config config = test_t5_config(T5Positions::kLearned, true);
  config.decoder_layers = 4;
  config.recompute = {.method = RecomputePlan::Method::kUniform, .num_layers = 2};
  nn::ParamTable table;
  const Chunk chunk = T5Model(config).build_chunk(t5_stages(config)[0], table);
  const nn::BatchShapes shapes({.sequence = 8, .micro_batch = 2},
                               {.sequence = 4, .micro_batch = 2});
  std::int64_t count = 0, bytes = 0;
  for (const SavedTensor& saved : chunk.saved_tensors(shapes, false)) {
    if (!saved.name.starts_with("encoder output") || saved.bytes() == 0) continue;
    ++count;
    bytes += saved.bytes();
  }
  EXPECT_EQ(count, 2);  // and its gradient
  EXPECT_EQ(bytes, 2 * 8 * 2 * 6 * size_of(DType::kF64));
}

// The tokens of a sample's padding change nothing.
TEST(T5, PaddingIsNotSeen) {
  const T5Config config = test_t5_config(T5Positions::kRelative, true);
  const auto losses = [&](bool changed) {
    nn::TestMachine machine;
    T5Fixture t5(machine.operands, config, t5_stages(config));
    if (changed) {
      const auto tokens = t5.column("tokens").span<std::int32_t>();
      for (std::size_t s = 5; s < 8; ++s) tokens[2 * s + 1] = 3;  // still padding by its document
      t5.column("decoder_tokens").span<std::int32_t>()[2 * 3 + 1] = 4;
    }
    t5.forward(machine.context);
    t5.backward(machine.context);
    auto gradients = t5.gradients(machine.context, machine.operands);
    gradients.erase("embedding.word_embeddings.weight");
    return std::pair(nn::values_of(t5.loss().sum), gradients);
  };
  EXPECT_EQ(losses(true), losses(false));
}

// The decoder position by position over a key/value cache.
TEST(T5, CachedDecodingIsTheWholePass) {
  for (const T5Positions positions : {T5Positions::kLearned, T5Positions::kRelative}) {
    const T5Config config = test_t5_config(positions, true);
    const auto logits_behind = [&](std::int64_t begin, std::int64_t count,
                                   std::span<nn::KeyValueCache* const> caches,
                                   nn::TestMachine& machine) {
      T5Samples samples = test_t5_samples();
      samples.encoder.erase(samples.encoder.begin());
      samples.decoder = {{7, 3, 10, 5}};
      samples.labels = {{3, 10, 5, 1}};
      for (auto* rows : {&samples.decoder[0], &samples.labels[0]}) {
        *rows = std::vector<double>(rows->begin() + begin, rows->begin() + begin + count);
      }
      T5Fixture t5(machine.operands, config, t5_stages(config), nullptr, samples);
      t5.training = false;
      for (auto& position : t5.batch().rows[1].position.span<std::int32_t>()) {
        position += static_cast<std::int32_t>(begin);
      }
      t5.column("decoder_position_ids") = t5.batch().rows[1].position;
      nn::Pass pass = t5.pass(machine.context, t5.stage(0));
      nn::InferencePass inference{
          .pass = pass, .caches = caches, .logits = machine.operands.output({1, 12})};
      t5.stage(0).chunk.infer(inference, t5.stage(0).tensors);
      return nn::values_of(inference.logits.slice(1, 0, config.vocabulary));
    };
    nn::TestMachine machine;
    nn::KeyValueCache cache{.keys = {}, .values = {}, .rows = {}, .length = 0};
    for (int layer = 0; layer < 2; ++layer) {
      cache.keys.push_back(machine.operands.output({4, 1, 4, 3}));
      cache.values.push_back(machine.operands.output({4, 1, 4, 3}));
    }
    cache.rows = {
        .sample = machine.operands.filled(DType::kI64, {4, 1}, 7.0),
        .position = machine.operands.values(DType::kI32, {4, 1}, std::vector<double>{0, 1, 2, 3}),
        .document = machine.operands.filled(DType::kI32, {4, 1}, 0.0)};
    for (const auto& [begin, count] : {std::pair{0, 2}, {2, 1}, {3, 1}}) {
      cache.length = begin;
      nn::TestMachine other;
      const Values whole = logits_behind(0, begin + count, {}, other);
      nn::KeyValueCache* const caches[] = {&cache};
      nn::expect_near(logits_behind(begin, count, caches, machine), whole, 1e-12, "logits");
    }
  }
}

TEST(T5, Parameters) {
  T5Config config;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 12;
  t.hidden = 768;
  t.ffn_hidden = 3072;
  t.heads = 12;
  t.query_groups = 12;
  t.head_size = 64;
  config.encoder_layers = 12;
  config.decoder_layers = 12;
  config.vocabulary = 30720;
  config.padded_vocabulary = 30720;
  config.max_positions = 512;
  EXPECT_EQ(t5_parameters(config), 222495744);
  config.vocabulary = 30624;  // padding does not count, nor the cut
  t.tensor = {.rank = 1, .size = 2};
  EXPECT_EQ(t5_parameters(config), 222495744 - 96 * (768 + 1));
  config.tied_embedding = false;
  EXPECT_EQ(t5_parameters(config), 222495744 - 96 * (768 + 1) + 30624 * (768 - 1));
  config.positions = T5Positions::kRelative;
  EXPECT_EQ(t5_parameters(config),
            222495744 - 96 * (768 + 1) + 30624 * (768 - 1) - 512 * 768 + 2 * 32 * 12);
}

// t5-small and t5-v1_1-small as published: RMSNorm, no biases, an output matrix that is tied and
// one that is not.
TEST(T5, ParametersOfPublishedModels) {
  T5Config config;
  nn::TransformerConfig& t = config.transformer;
  t.hidden = 512;
  t.ffn_hidden = 2048;
  t.heads = 8;
  t.query_groups = 8;
  t.head_size = 64;
  t.norm = nn::NormKind::kRmsNorm;
  t.linear_bias = false;
  t.qkv_bias = false;
  t.num_layers = config.encoder_layers = config.decoder_layers = 6;
  config.vocabulary = config.padded_vocabulary = 32128;
  config.positions = T5Positions::kRelative;
  config.output_bias = false;
  EXPECT_EQ(t5_parameters(config), 60506624);
  t.ffn_hidden = 1024;
  t.heads = 6;
  t.query_groups = 6;
  t.gated = true;
  t.num_layers = config.encoder_layers = config.decoder_layers = 8;
  config.tied_embedding = false;
  EXPECT_EQ(t5_parameters(config), 76961152);
}

// An encoder layer is a GPT's, with 12 h^2 weights; a decoder layer has 4 h^2 more, of which half
// are multiplied with the encoder's rows.
TEST(T5, FlopsPerSample) {
  T5Config config = test_t5_config(T5Positions::kLearned, true);
  nn::TransformerConfig& t = config.transformer;
  t.hidden = 16;
  t.ffn_hidden = 64;
  t.head_size = 4;
  config.encoder_layers = 3;
  config.decoder_layers = 2;
  config.padded_vocabulary = 100;
  config.max_positions = 10;
  config.sequence = 10;
  config.decoder_sequence = 6;
  const double h = 16.0, e = 10.0, d = 6.0;
  const double encoder = 6.0 * e * 12.0 * h * h + 12.0 * h * e * e;
  const double decoder = 6.0 * d * 14.0 * h * h + 6.0 * e * 2.0 * h * h + 12.0 * h * d * (d + e);
  EXPECT_DOUBLE_EQ(T5Model(config).flops_per_sample(),
                   3.0 * encoder + 2.0 * decoder + 6.0 * d * h * 100.0);
}

// The whole model and its stages have the same parameter names and initial values.
TEST(T5, ParametersOfStages) {
  const T5Config config = test_t5_config(T5Positions::kRelative, true);
  const auto specs_of = [&](const T5Fixture::Stages& stages) {
    std::map<std::string, std::pair<Shape, double>> specs;
    for (const StageRange& range : stages) {
      nn::ParamTable table;
      T5Model(config).build_chunk(range, table);
      for (const ParamSpec& spec : table.specs()) {
        const std::pair fact(spec.global_shape, spec.initialiser.value);
        EXPECT_EQ(specs.emplace(spec.name, fact).first->second, fact) << spec.name;
      }
    }
    return specs;
  };
  const auto whole = specs_of(t5_stages(config));
  EXPECT_EQ(specs_of(t5_stages(config, 4, 2)), whole);
  for (const char* name :
       {"embedding.word_embeddings.weight", "encoder.layers.1.self_attention.linear_qkv.weight",
        "encoder.final_layernorm.bias", "decoder.layers.1.pre_cross_attn_layernorm.weight",
        "decoder.layers.0.cross_attention.linear_q.bias",
        "decoder.layers.0.cross_attention.linear_kv.weight",
        "decoder.layers.0.cross_attention.linear_proj.weight", "decoder.final_layernorm.weight",
        "encoder_relative_pos_emb.relative_attention_bias.weight",
        "decoder_relative_pos_emb.relative_attention_bias.weight", "lm_head.output_layer.bias"}) {
    EXPECT_TRUE(whole.contains(name)) << name;
  }
  EXPECT_FALSE(whole.contains("embedding.position_embeddings.weight"));
  EXPECT_FALSE(whole.contains("lm_head.output_layer.weight"));
  // Both stacks' output projections start by the encoder's depth.
  const double scaled = 0.02 / std::sqrt(2.0 * 2.0);
  for (const char* name : {"encoder.layers.0.mlp.linear_fc2.weight",
                           "decoder.layers.0.self_attention.linear_proj.weight",
                           "decoder.layers.0.cross_attention.linear_proj.weight"}) {
    EXPECT_DOUBLE_EQ(whole.at(name).second, scaled) << name;
  }
}

}  // namespace
}  // namespace phalanx
