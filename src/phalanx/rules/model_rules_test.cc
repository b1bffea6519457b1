// What the flags of a model's layers come to, and which of them contradict each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The configuration of a command line: sizes of a small model, then `flags` and `more` words.
TrainConfig parsed(const std::string& flags, const std::vector<std::string>& more = {}) {
  return config_tests::parsed({},
                              "--num-layers 4 --hidden-size 96 --num-attention-heads 4 "
                              "--max-position-embeddings 32 --seq-length 32 --micro-batch-size 1 "
                              "--train-iters 10 --lr 0.001 --data-path data " +
                                  flags,
                              /*plans=*/false, more);
}

std::string refusal_of(const std::string& flags) {
  return error_of([&] { parsed(flags); });
}

nn::TransformerConfig layers_of(const std::string& flags,
                                const std::vector<std::string>& more = {}) {
  return transformer_config(parsed(flags, more));
}

TEST(ConfigModel, AGptIsAsBefore) {
  const GptConfig gpt = gpt_config(parsed(""), 100);
  const nn::TransformerConfig& t = gpt.transformer;
  EXPECT_EQ(t.norm, nn::NormKind::kLayerNorm);
  EXPECT_EQ(t.activation, ops::ActivationKind::kGeluTanh);
  EXPECT_FALSE(t.norm_zero_centred || t.gated || t.qk_norm || t.rotary || t.attention_scale);
  EXPECT_TRUE(t.linear_bias && t.qkv_bias && gpt.position_table);
  EXPECT_EQ(t.window, 0);
  EXPECT_EQ(t.ffn_hidden, 384);
  EXPECT_EQ(gpt.vocabulary, 100);
}

TEST(ConfigModel, ALlamaInMegatronsFlags) {
  const TrainConfig c = parsed(
      "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear "
      "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 "
      "--rotary-base 500000 --use-rope-scaling");
  const GptConfig gpt = gpt_config(c, 100);
  const nn::TransformerConfig& t = gpt.transformer;
  EXPECT_FALSE(gpt.position_table);
  EXPECT_EQ(t.norm, nn::NormKind::kRmsNorm);
  EXPECT_TRUE(t.gated);
  EXPECT_FALSE(t.linear_bias || t.qkv_bias);
  EXPECT_EQ(t.ffn_hidden, 256);
  EXPECT_EQ(*t.rotary, (ops::Rotary{.dimensions = 24,
                                    .base = 500000.0,
                                    .scaling = ops::Rotary::Scaling::kLlama3,
                                    .factor = 8.0}));
}

TEST(ConfigModel, WidthOfAGatedMlp) {
  const auto width = [](const char* hidden) {
    return parsed(std::string("--swiglu --hidden-size ") + hidden).model.ffn_hidden_size;
  };
  EXPECT_EQ(width("1024"), 2688);
  EXPECT_EQ(width("2048"), 5440);
  EXPECT_EQ(width("4096"), 10880);
  EXPECT_EQ(width("8192"), 21824);
  EXPECT_EQ(parsed("--gated-linear-unit").model.ffn_hidden_size, 384);
  EXPECT_THAT(refusal_of("--hidden-size 16 --swiglu"),
              HasSubstr("--hidden-size 16 needs --ffn-hidden-size"));
}

TEST(ConfigModel, SwitchesAndNamesOfActivationsAreTheSame) {
  const auto said = [](const std::string& flags) {
    TrainConfig c = parsed(flags);
    const ModelConfig m = c.model;
    resolve(c, true);
    EXPECT_EQ(c.model.activation_func, m.activation_func);
    return m.activation_func + (m.gated_linear_unit ? " gated" : "") + (m.swiglu ? " swiglu" : "") +
           (m.squared_relu ? " squared" : "");
  };
  EXPECT_EQ(said("--swiglu"), "silu gated swiglu");
  EXPECT_EQ(said("--activation-func silu --gated-linear-unit"), "silu gated swiglu");
  EXPECT_EQ(said("--activation-func swiglu"), "silu gated swiglu");
  EXPECT_EQ(said("--squared-relu"), "squaredrelu squared");
  EXPECT_EQ(said("--activation-func squaredrelu"), "squaredrelu squared");
  EXPECT_EQ(said("--activation-func silu"), "silu");
  EXPECT_EQ(said("--gated-linear-unit"), "gelu gated");
  EXPECT_EQ(said("--activation-func relu"), "relu");
  EXPECT_EQ(said("--swiglu --no-bias-gelu-fusion"), "silu gated swiglu");
  EXPECT_THAT(refusal_of("--swiglu --squared-relu"),
              HasSubstr("--swiglu and --squared-relu exclude each other"));
  EXPECT_THAT(refusal_of("--swiglu --activation-func gelu"), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of("--squared-relu --activation-func gelu"), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of("--activation-func tanh"), HasSubstr("choose one of gelu"));
  // Without a command line too.
  TrainConfig both = with_flags(parsed(""), "--swiglu --activation-func relu");
  EXPECT_THROW(resolve(both, true), ConfigError);
}

TEST(ConfigModel, KindsOfActivations) {
  const auto kind = [](const std::string& flags) { return layers_of(flags).activation; };
  EXPECT_EQ(kind("--swiglu"), ops::ActivationKind::kSilu);
  EXPECT_EQ(kind("--activation-func relu"), ops::ActivationKind::kRelu);
  EXPECT_EQ(kind("--squared-relu"), ops::ActivationKind::kSquaredRelu);
  EXPECT_EQ(kind("--gated-linear-unit"), ops::ActivationKind::kGeluTanh);
  EXPECT_EQ(kind("--no-bias-gelu-fusion"), ops::ActivationKind::kGeluErf);
}

TEST(ConfigModel, BiasesOfQueriesKeysAndValuesAlone) {
  const nn::TransformerConfig qwen = layers_of("--disable-bias-linear --add-qkv-bias");
  EXPECT_FALSE(qwen.linear_bias);
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_FALSE(parsed("--add-qkv-bias").model.add_qkv_bias);
}

TEST(ConfigModel, NamesOfPositions) {
  const auto positions = [](const std::string& flags) {
    return parsed(flags).model.position_embedding_type;
  };
  EXPECT_EQ(positions("--use-rotary-position-embeddings"), "rope");
  EXPECT_EQ(positions("--no-position-embedding"), "none");
  EXPECT_EQ(positions("--use-rotary-position-embeddings --no-position-embedding"), "rope");
  EXPECT_EQ(positions("--position-embedding-type rope --no-position-embedding"), "rope");
  EXPECT_FALSE(parsed("--no-position-embedding").model.no_position_embedding);
  EXPECT_FALSE(gpt_config(parsed("--position-embedding-type none"), 100).position_table);
  EXPECT_THAT(refusal_of("--position-embedding-type relative"),
              HasSubstr("--position-embedding-type relative is a T5's"));
}

TEST(ConfigModel, RotaryFlagsNeedRotaryPositions) {
  EXPECT_EQ(refusal_of("--rotary-base 10000 --rotary-percent 1.0"), "no error");
  EXPECT_EQ(refusal_of("--rotary-base 500000"),
            "--rotary-base 500000 needs --position-embedding-type rope");
  EXPECT_EQ(refusal_of("--rotary-interleaved"),
            "--rotary-interleaved needs --position-embedding-type rope");
  const auto refused = [](const std::string& flags) {
    return refusal_of(flags + " --use-rotary-position-embeddings");
  };
  EXPECT_EQ(refused("--rope-low-freq-factor 2"),
            "--rope-low-freq-factor 2 needs --use-rope-scaling");
  EXPECT_EQ(refused("--yarn-beta-fast 16"), "--yarn-beta-fast 16 needs --rope-type yarn");
  EXPECT_EQ(refused("--rope-scaling-factor 4"),
            "--rope-scaling-factor 4 needs --use-rope-scaling or --rope-type yarn");
  EXPECT_THAT(refused("--use-rope-scaling --rope-type yarn"), HasSubstr("exclude each other"));
  EXPECT_THAT(refused("--use-rope-scaling --rope-low-freq-factor 4"),
              HasSubstr("must be below --rope-high-freq-factor 4"));
  EXPECT_THAT(refused("--rope-type yarn --yarn-beta-slow 32"),
              HasSubstr("must be below --yarn-beta-fast 32"));
  EXPECT_THAT(refused("--rotary-percent 0.3"),
              AllOf(HasSubstr("--rotary-percent 0.3"), HasSubstr("are 7 dimensions")));
  EXPECT_THAT(refused("--rotary-percent 0"), HasSubstr("must be above 0"));
}

TEST(ConfigModel, WhatYarnMultipliesBy) {
  const auto rotary = [](const std::string& flags) {
    return *layers_of(flags + " --position-embedding-type rope --rope-type yarn").rotary;
  };
  const ops::Rotary yarn = rotary(
      "--rope-scaling-factor 4 --rope-original-max-positions 2048 --rotary-percent 0.5 "
      "--yarn-no-truncate");
  EXPECT_EQ(yarn.dimensions, 12);
  EXPECT_EQ(yarn.scaling, ops::Rotary::Scaling::kYarn);
  EXPECT_EQ(yarn.original_positions, 2048.0);
  EXPECT_FALSE(yarn.truncate);
  EXPECT_NEAR(yarn.attention_factor, 1.138629436, 1e-9);
  EXPECT_EQ(rotary("--yarn-attention-factor 1.25").attention_factor, 1.25);
  EXPECT_EQ(rotary("--rope-scaling-factor 0.5").attention_factor, 1.0);
}

TEST(ConfigModel, Windows) {
  const nn::TransformerConfig all = layers_of("--window-size", {"(2, 0)"});
  EXPECT_EQ(all.window, 3);
  EXPECT_THAT(all.window_layers, ElementsAre(true, true, true, true));
  const nn::TransformerConfig some =
      layers_of("--window-size 2,0 --window-attn-skip-freq [0]*1+[1]*3");
  EXPECT_EQ(some.window_of(0), 0);
  EXPECT_EQ(some.window_of(3), 3);
  EXPECT_THAT(layers_of("--window-size -1,0").window_layers, IsEmpty());
  // Equal windows are equal texts in a checkpoint.
  EXPECT_EQ(parsed("--window-size", {"(2, 0)"}).model.window_size, "2,0");
  EXPECT_EQ(parsed("--window-size -7,0").model.window_size, ModelConfig{}.window_size);
  EXPECT_EQ(refusal_of("--window-attn-skip-freq 2"),
            "--window-attn-skip-freq 2 needs --window-size");
  EXPECT_EQ(parsed("--window-size -1,0").model.window_attn_skip_freq, "");
  EXPECT_THAT(refusal_of("--window-size 2,0 --window-attn-skip-freq [1]*3"),
              HasSubstr("for --num-layers 4"));
}

TEST(ConfigModel, IdsBeyondTheTokenizers) {
  const TrainConfig c = parsed("--model-vocab-size 130");
  const GptConfig gpt = gpt_config(c, 100);
  EXPECT_EQ(gpt.vocabulary, 130);
  EXPECT_EQ(gpt.padded_vocabulary, 256);
  EXPECT_THAT(error_of<ConfigError>([&] { gpt_config(c, 131); }),
              HasSubstr("--model-vocab-size 130 is below the tokenizer's 131 ids"));
}

TEST(ConfigModel, ScaleOfScores) {
  EXPECT_EQ(layers_of("--attention-scale 1").score_scale(), 1.0);
  EXPECT_EQ(layers_of("").score_scale(), 1.0 / std::sqrt(24.0));
}

// A checkpoint keeps the arguments as text; what comes back is the same to the bit.
TEST(ConfigModel, ArgumentsComeBackFromACheckpoint) {
  const TrainConfig c = parsed(
      "--use-rotary-position-embeddings --rotary-base 1234567.891 --rope-type yarn "
      "--rope-scaling-factor 3.3333333333333335 --yarn-attention-factor 1.1000000000000001 "
      "--norm-epsilon 1e-12 --swiglu --normalization RMSNorm --window-size 3,0 "
      "--window-attn-skip-freq [1]*2+[0]*2 --model-vocab-size 131 --attention-scale "
      "0.12345678901234566");
  TrainConfig back;
  FlagSet flags("", "");
  add_train_flags(flags, back);
  for (const auto& [name, text] : argument_values(c)) flags.set_default(name, text);
  EXPECT_EQ(argument_values(back), argument_values(c));
  resolve(back, true);
  EXPECT_EQ(argument_values(back), argument_values(c));
  EXPECT_EQ(*transformer_config(back).rotary, *transformer_config(c).rotary);
  EXPECT_EQ(back.model.attention_scale, 0.12345678901234566);
}

TEST(ConfigModel, KeysOfMegatronsYamlFiles) {
  const auto file = std::filesystem::path(testing::TempDir()) / "config_model_test.yaml";
  std::ofstream(file) << "language_model:\n"
                         "  add_bias_linear: False\n"
                         "  add_qkv_bias: True\n"
                         "  normalization: RMSNorm\n"
                         "  layernorm_zero_centered_gamma: True\n"
                         "  activation_func: swiglu\n"
                         "  gated_linear_unit: False\n"
                         "  window_size: \"7,0\"\n"
                         "add_position_embedding: False\n"
                         "position_embedding_type: rope\n"
                         "rotary_percent: 0.5\n"
                         "rotary_seq_len_interpolation_factor: 2\n";
  const nn::TransformerConfig t = layers_of("--yaml-cfg", {file.string()});
  std::filesystem::remove(file);
  EXPECT_FALSE(t.linear_bias);
  EXPECT_TRUE(t.qkv_bias && t.gated && t.norm_zero_centred);
  EXPECT_EQ(t.norm, nn::NormKind::kRmsNorm);
  EXPECT_EQ(t.window, 8);
  EXPECT_EQ(*t.rotary, (ops::Rotary{.dimensions = 12, .interpolation = 2.0}));
}

// A resumed run must have the values of its weights; with --finetune those that decide their shape.
TEST(ConfigModel, ClassesOfAResumedRun) {
  const auto class_of = [](const char* name) { return find_train_flag(name)->spec.resume; };
  for (const char* name :
       {"--position-embedding-type", "--rotary-percent", "--rotary-interleaved", "--normalization",
        "--apply-layernorm-1p", "--activation-func", "--gated-linear-unit", "--swiglu",
        "--squared-relu", "--disable-bias-linear", "--add-qkv-bias", "--qk-layernorm",
        "--model-vocab-size", "--disable-output-bias"}) {
    EXPECT_EQ(class_of(name), ResumeClass::kShape) << name;
  }
  for (const char* name :
       {"--rotary-base", "--rotary-seq-len-interpolation-factor", "--use-rope-scaling",
        "--rope-scaling-factor", "--rope-type", "--window-size", "--window-attn-skip-freq",
        "--attention-scale", "--scale-decoder-output"}) {
    EXPECT_EQ(class_of(name), ResumeClass::kFixed) << name;
    EXPECT_TRUE(describes_model(*find_train_flag(name))) << name;
  }
}

}  // namespace
}  // namespace phalanx
