// config.json to flags and back.

#include <gmock/gmock.h>

#include <cmath>

#include "phalanx/base/test_support.h"
#include "phalanx/hugging_face/test_support.h"
#include "phalanx/hugging_face/window.h"

namespace phalanx::hugging_face {
namespace {

using testing::HasSubstr;

ModelArguments settings_of(const Json& json) {
  const ConfigFile file(json.dump(), "config.json");
  const Architecture& architecture = architecture_of(file);
  ModelArguments settings;
  architecture.read_config(file, settings);
  settings.set(kConfigArchitecture, std::string(architecture.name));
  return settings;
}

Json written(const ModelArguments& settings) {
  Json json = Json::object();
  Faults faults;
  architecture_for(settings).write_config(settings, json, faults);
  EXPECT_THAT(faults, testing::IsEmpty());
  return json;
}

// The lines that the call logs.
template <typename Call>
std::string logged(const Call& call) {
  testing::internal::CaptureStderr();
  call();
  return testing::internal::GetCapturedStderr();
}

template <typename Fault>
void expect_fault(const Json& json, const std::string& mention) {
  EXPECT_THAT(error_of<Fault>([&] { settings_of(json); }),
              testing::AllOf(HasSubstr(mention), HasSubstr("config.json")))
      << json.dump();
}

Json with(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

TEST(HuggingFaceConfig, LlamaBecomesFlags) {
  const ModelArguments settings = settings_of(tiny_llama());
  const std::map<std::string, std::string> expected = {
      {"--num-layers", "2"},
      {"--hidden-size", "16"},
      {"--ffn-hidden-size", "24"},
      {"--num-attention-heads", "4"},
      {"--group-query-attention", "true"},
      {"--num-query-groups", "2"},
      {"--kv-channels", "4"},
      {"--model-vocab-size", "32"},
      {"--max-position-embeddings", "64"},
      {"--position-embedding-type", "rope"},
      {"--rotary-base", "10000"},
      {"--swiglu", "true"},
      {"--normalization", "RMSNorm"},
      {"--norm-epsilon", "1e-05"},
      {"--init-method-std", "0.02"},
      {"--untie-embeddings-and-output-weights", "true"},
      {"--attention-dropout", "0"},
      {"--hidden-dropout", "0"},
      {"--disable-bias-linear", "true"},
      {"config.architecture", "LlamaForCausalLM"},
  };
  EXPECT_EQ(settings.arguments(), expected);
  EXPECT_EQ(settings_of(with(tiny_llama(), {{"num_key_value_heads", nullptr}})).groups(), 4);
  EXPECT_EQ(settings_of(with(tiny_llama(), {{"head_dim", 10}})).head_size(), 10);
  const Json biased = with(tiny_llama(), {{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_FALSE(settings_of(biased).is_on("--disable-bias-linear"));
}

TEST(HuggingFaceConfig, AbsentKeysHaveTheDialectsDefaults) {
  Json json = tiny_llama();
  for (const char* key : {"num_key_value_heads", "max_position_embeddings", "rms_norm_eps"}) {
    json.erase(key);
  }
  json["num_attention_heads"] = 32;
  json["hidden_size"] = 64;
  const auto facts = [&](const std::string& name, const std::string& type) {
    json["architectures"] = {name};
    json["model_type"] = type;
    const ModelArguments settings = settings_of(json);
    EXPECT_EQ(settings.number("--norm-epsilon"), 1e-6);
    return std::tuple(settings.groups(), settings.positions(), window_of(settings).keys);
  };
  EXPECT_EQ(facts("LlamaForCausalLM", "llama"), std::tuple(32, 2048, 0));
  EXPECT_EQ(facts("MistralForCausalLM", "mistral"), std::tuple(8, 131072, 4096));
  EXPECT_EQ(facts("Qwen2ForCausalLM", "qwen2"), std::tuple(32, 32768, 0));
  EXPECT_EQ(facts("Qwen3ForCausalLM", "qwen3"), std::tuple(32, 32768, 0));
  EXPECT_EQ(settings_of(json).head_size(), 128);
  EXPECT_TRUE(settings_of(tiny_gpt2()).is_tied());
  EXPECT_EQ(settings_of(tiny_gpt2()).ffn_hidden(), 64);
}

TEST(HuggingFaceConfig, RotationsInEitherSpelling) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.5},
                       {"low_freq_factor", 1.5},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 32}};
  const ModelArguments old =
      settings_of(with(tiny_llama(), {{"rope_theta", 500000.0}, {"rope_scaling", llama3}}));
  EXPECT_EQ(old.number("--rotary-base"), 500000.0);
  EXPECT_TRUE(old.is_on("--use-rope-scaling"));
  EXPECT_EQ(old.number("--rope-scaling-factor"), 8.5);
  EXPECT_EQ(old.number("--rope-low-freq-factor"), 1.5);
  EXPECT_EQ(old.integer("--rope-original-max-positions"), 32);

  const Json fresh = {{"rope_theta", 1.0},
                      {"rope_parameters", with(llama3, {{"rope_theta", 500000.0}})}};
  EXPECT_EQ(settings_of(with(tiny_llama(), fresh)).arguments(), old.arguments());

  const Json linear = with(tiny_llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  EXPECT_EQ(settings_of(linear).number("--rotary-seq-len-interpolation-factor"), 2.0);

  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", nullptr},     {"original_max_position_embeddings", 16},
      {"mscale", 1.0},       {"mscale_all_dim", 0.5}, {"truncate", false}};
  const ModelArguments scaled = settings_of(with(tiny_llama(), {{"rope_scaling", yarn}}));
  EXPECT_EQ(scaled.text("--rope-type"), "yarn");
  EXPECT_EQ(scaled.number("--rope-scaling-factor"), 4.0);
  EXPECT_TRUE(scaled.is_on("--yarn-no-truncate"));
  EXPECT_DOUBLE_EQ(scaled.number("--yarn-attention-factor"),
                   (0.1 * std::log(4.0) + 1.0) / (0.05 * std::log(4.0) + 1.0));

  // Written in the old spelling, and read again as the same.
  for (const ModelArguments& settings : {old, settings_of(linear), scaled}) {
    const Json config = written(settings);
    EXPECT_FALSE(config.contains("rope_parameters"));
    EXPECT_EQ(settings_of(with(tiny_llama(), config)).arguments(), settings.arguments());
  }
}

TEST(HuggingFaceConfig, Windows) {
  const auto window = [](const Json& json) { return window_of(settings_of(json)); };
  const Json mistral = tiny_of("MistralForCausalLM", "mistral");
  EXPECT_EQ(settings_of(with(mistral, {{"sliding_window", 3}})).text("--window-size"), "2,0");
  EXPECT_EQ(window(with(mistral, {{"sliding_window", nullptr}})).keys, 0);

  const Json qwen2 = tiny_of("Qwen2ForCausalLM", "qwen2");
  // Without the switch it means nothing.
  EXPECT_EQ(window(with(qwen2, {{"sliding_window", 3}, {"max_window_layers", 0}})).keys, 0);
  const Json windowed = {
      {"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}};
  EXPECT_EQ(window(with(qwen2, windowed)).layers, (std::vector<bool>{false, true}));
  EXPECT_EQ(window(with(qwen2, windowed)).keys, 3);
  // What the layers are called counts more.
  const Json named = {{"layer_types", {"sliding_attention", "full_attention"}}};
  EXPECT_EQ(window(with(with(qwen2, windowed), named)).layers, (std::vector<bool>{true, false}));
  const Json outside = {{"max_window_layers", 2}};
  EXPECT_EQ(window(with(with(qwen2, windowed), outside)).keys, 0);

  for (const Json& json : {with(qwen2, windowed), with(mistral, {{"sliding_window", 3}})}) {
    const ModelArguments settings = settings_of(json);
    EXPECT_EQ(settings_of(with(json, written(settings))).arguments(), settings.arguments());
  }
  ModelArguments settings = settings_of(qwen2);
  settings.set("--window-size", "(2, 0)");
  settings.set("--window-attn-skip-freq", "2");
  EXPECT_EQ(window_of(settings).layers, (std::vector<bool>{true, false}));
  settings.set("--window-attn-skip-freq", "[0,1,1]");
  EXPECT_THROW(window_of(settings), ConfigError);
}

TEST(HuggingFaceConfig, WhatPhalanxHasNoModelForIsRefused) {
  const Json llama = tiny_llama();
  const Json qwen2 = with(tiny_of("Qwen2ForCausalLM", "qwen2"), {{"use_sliding_window", true}});
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"architectures", {"LlamaModel"}}}, "LlamaModel"},
      {{{"architectures", Json::array()}}, "architectures"},
      {{{"model_type", "qwen2"}}, "model_type"},
      {{{"hidden_act", "gelu"}}, "hidden_act"},
      {{{"attention_bias", true}}, "attention_bias"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
      {{{"num_local_experts", 8}}, "num_local_experts"},
      {{{"final_logit_softcapping", 30.0}}, "final_logit_softcapping"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {{{"rope_scaling", {{"rope_type", "longrope"}}}}, "longrope"},
      {{{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, "dynamic"},
      {{{"rope_parameters", {{"full_attention", {{"rope_theta", 1.0}}}}}}, "full_attention"},
  };
  for (const auto& [change, mention] : cases) {
    expect_fault<ConfigError>(with(llama, change), mention);
  }
  expect_fault<ConfigError>(with(qwen2, {{"layer_types", {"full_attention", "linear_attention"}}}),
                            "linear_attention");
  expect_fault<ConfigError>(with(tiny_gpt2(), {{"activation_function", "relu"}}), "relu");
  expect_fault<ConfigError>(with(tiny_gpt2(), {{"scale_attn_weights", false}}),
                            "scale_attn_weights");
  expect_fault<ConfigError>(with(tiny_gpt2(), {{"scale_attn_by_inverse_layer_idx", true}}),
                            "scale_attn_by_inverse_layer_idx");
}

TEST(HuggingFaceConfig, MalformedValuesAreRefused) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"hidden_size", nullptr}}, "hidden_size"},
      {{{"hidden_size", "16"}}, "hidden_size"},
      {{{"hidden_size", 16.0}}, "hidden_size"},
      {{{"hidden_size", 18446744073709551615U}}, "hidden_size"},
      {{{"hidden_size", 18}}, "hidden_size"},
      {{{"num_hidden_layers", 0}}, "num_hidden_layers"},
      {{{"num_key_value_heads", 3}}, "num_key_value_heads"},
      {{{"vocab_size", -1}}, "vocab_size"},
      {{{"head_dim", 3}}, "heads of 3 elements"},
      {{{"rms_norm_eps", "tiny"}}, "rms_norm_eps"},
      {{{"tie_word_embeddings", 1}}, "tie_word_embeddings"},
      {{{"attention_dropout", 1.0}}, "attention_dropout"},
      {{{"rope_theta", 0.0}}, "rope_theta"},
      {{{"rope_scaling", "linear"}}, "rope_scaling"},
      {{{"rope_scaling", {{"type", "linear"}}}}, "factor"},
      {{{"architectures", "LlamaForCausalLM"}}, "architectures"},
  };
  for (const auto& [change, mention] : cases) {
    expect_fault<DataError>(with(tiny_llama(), change), mention);
  }
  Json qwen2 = with(tiny_of("Qwen2ForCausalLM", "qwen2"), {{"use_sliding_window", true}});
  expect_fault<DataError>(with(qwen2, {{"layer_types", {"full_attention"}}}), "layer_types");
  EXPECT_THROW(ConfigFile("[]", "config.json"), DataError);
  EXPECT_THROW(ConfigFile(R"({"a": 1, "a": 2})", "config.json"), DataError);
  EXPECT_THAT(error_of<DataError>([] { ConfigFile("{\"a\": 1,\n}", "config.json"); }),
              HasSubstr("config.json: not JSON: line 2, column 1: a comma before }"));
}

// The values are what transformers 5.24 computes with.
TEST(HuggingFaceConfig, OfTwoRotationsTheOlderKeyCounts) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  const Json fresh = {{"rope_type", "default"}, {"rope_theta", 5.0}};
  ModelArguments both;
  EXPECT_THAT(logged([&] {
                both = settings_of(
                    with(tiny_llama(), {{"rope_scaling", yarn}, {"rope_parameters", fresh}}));
              }),
              HasSubstr("'rope_scaling' and 'rope_parameters' are both there"));
  EXPECT_EQ(both.text("--rope-type"), "yarn");
  EXPECT_EQ(both.number("--rope-scaling-factor"), 4.0);
  EXPECT_EQ(both.number("--rotary-base"), 10000.0);
  const Json with_base = {{"rope_theta", 7.0}, {"rope_scaling", yarn}, {"rope_parameters", fresh}};
  EXPECT_EQ(settings_of(with(tiny_llama(), with_base)).number("--rotary-base"), 7.0);
  const Json same_base = {{"rope_scaling", with(yarn, {{"rope_theta", 5.0}})},
                          {"rope_parameters", fresh}};
  EXPECT_THAT(logged([&] { settings_of(with(tiny_llama(), same_base)); }),
              HasSubstr("say different things"));
  // An empty one is none.
  const Json empty = {{"rope_scaling", Json::object()}, {"rope_parameters", fresh}};
  EXPECT_EQ(settings_of(with(tiny_llama(), empty)).number("--rotary-base"), 5.0);
}

TEST(HuggingFaceConfig, TwoEqualRotationsAreOne) {
  const Json linear = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5.0}};
  const Json both = with(tiny_llama(), {{"rope_scaling", linear}, {"rope_parameters", linear}});
  EXPECT_EQ(logged([&] { EXPECT_EQ(settings_of(both).number("--rotary-base"), 5.0); }), "");
}

TEST(HuggingFaceConfig, OriginalPositionsAtTheTopCount) {
  const auto positions = [](const Json& rope) {
    const Json changes = {{"original_max_position_embeddings", 32}, {"rope_scaling", rope}};
    return settings_of(with(tiny_llama(), changes)).integer("--rope-original-max-positions");
  };
  EXPECT_EQ(positions({{"rope_type", "yarn"}, {"factor", 4.0}}), 32);
  const Json inside = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
  EXPECT_THAT(logged([&] { EXPECT_EQ(positions(inside), 32); }),
              HasSubstr("it counts, as in transformers 5; version 4 took 16"));
  EXPECT_EQ(positions({{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0}}),
            32);
}

TEST(HuggingFaceConfig, KeysOfARotationThatAreNotUnderstoodAreTold) {
  const auto warnings = [](const Json& rope) {
    return logged([&] { settings_of(with(tiny_llama(), {{"rope_scaling", rope}})); });
  };
  EXPECT_THAT(warnings({{"rope_type", "yarn"}, {"factor", 4.0}, {"attn_factor", 0.878}}),
              HasSubstr("rope_scaling: not understood, nothing depends on it: attn_factor"));
  EXPECT_THAT(warnings({{"rope_type", "linear"}, {"factor", 4.0}, {"beta_fast", 32}}),
              HasSubstr("beta_fast"));
  EXPECT_THAT(warnings({{"rope_type", "default"}, {"factor", 4.0}}), HasSubstr("factor"));
  EXPECT_EQ(warnings({{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 1.0}}), "");
}

TEST(HuggingFaceConfig, TwoNamesOfOneKey) {
  Json json = tiny_gpt2();
  json["hidden_size"] = 32;
  expect_fault<ConfigError>(json, "'n_embd' is 16 and 'hidden_size' is 32");
  json.erase("n_embd");
  EXPECT_EQ(settings_of(json).hidden(), 32);
  json["n_embd"] = 32;
  EXPECT_EQ(settings_of(json).hidden(), 32);
  const Json qwen = with(tiny_of("Qwen2ForCausalLM", "qwen2"),
                         {{"layer_types", {"full_attention", "sliding_attention"}}});
  expect_fault<ConfigError>(qwen, "'use_sliding_window' is not true");
}

TEST(HuggingFaceConfig, NumbersOfPythonAreReadAndDecideNothing) {
  Json json = tiny_llama();
  std::string text = json.dump();
  text.insert(text.size() - 1, R"(,"time_step_limit":[0.0,Infinity],"x":NaN,"y":-Infinity)");
  const ConfigFile file(text, "config.json");
  ModelArguments settings;
  architecture_of(file).read_config(file, settings);
  EXPECT_EQ(settings.hidden(), 16);
  text.replace(text.find("1e-05"), 5, "NaN");
  const ConfigFile wrong(text, "config.json");
  EXPECT_THAT(error_of<DataError>([&] { architecture_of(wrong).read_config(wrong, settings); }),
              HasSubstr("'rms_norm_eps' is NaN"));
}

TEST(HuggingFaceConfig, KeysWithoutEffectAreListed) {
  const ConfigFile file(
      with(tiny_of("Qwen2ForCausalLM", "qwen2"), {{"sliding_window", 8},
                                                  {"use_sliding_window", false},
                                                  {"rope_theta", 3.0},
                                                  {"rope_parameters", {{"rope_theta", 5.0}}},
                                                  {"foo", 1},
                                                  {"bar", nullptr}})
          .dump(),
      "it");
  ModelArguments settings;
  architecture_of(file).read_config(file, settings);
  using testing::Contains;
  for (const char* key : {"rope_theta (", "sliding_window (", "foo"}) {
    EXPECT_THAT(file.unused(), Contains(testing::StartsWith(key)));
  }
  EXPECT_THAT(file.unused(), testing::Not(Contains("bar")));
  EXPECT_THAT(file.unused(true), Contains("bar"));
}

TEST(HuggingFaceConfig, KeysThatNobodyReadAreKnown) {
  const ConfigFile file(with(tiny_llama(), {{"pretraining_tp", 1}, {"foo", 2}}).dump(), "it");
  ModelArguments settings;
  architecture_of(file).read_config(file, settings);
  EXPECT_THAT(file.ignored(), testing::IsSupersetOf({"foo", "pretraining_tp"}));
  EXPECT_THAT(file.ignored(), testing::Not(testing::Contains("hidden_size")));
}

TEST(HuggingFaceConfig, ModelsFindTheirArchitecture) {
  const auto name_of = [](const Json& json, std::string_view flag, std::string_view value) {
    ModelArguments settings = settings_of(json);
    auto arguments = settings.arguments();
    arguments.erase(std::string(kConfigArchitecture));
    arguments[std::string(flag)] = value;
    return architecture_for(ModelArguments(arguments)).name;
  };
  EXPECT_EQ(name_of(tiny_llama(), "--rotary-interleaved", "true"), "LlamaForCausalLM");
  EXPECT_EQ(name_of(tiny_llama(), "--window-size", "2,0"), "MistralForCausalLM");
  EXPECT_EQ(name_of(tiny_llama(), "--add-qkv-bias", "true"), "Qwen2ForCausalLM");
  EXPECT_EQ(name_of(tiny_llama(), "--qk-layernorm", "true"), "Qwen3ForCausalLM");
  EXPECT_EQ(name_of(tiny_gpt2(), "--window-size", "-1,0"), "GPT2LMHeadModel");
  // It stays what it was.
  const Json mistral =
      with(tiny_of("MistralForCausalLM", "mistral"), {{"sliding_window", nullptr}});
  EXPECT_EQ(architecture_for(settings_of(mistral)).name, "MistralForCausalLM");

  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {tiny_llama(), "--apply-layernorm-1p", "true"},
      {tiny_llama(), "--rotary-percent", "0.5"},
      {tiny_llama(), "--attention-scale", "1"},
      {tiny_gpt2(), "--squared-relu", "true"},
      {tiny_gpt2(), "--position-embedding-type", "none"},
      {tiny_gpt2(), "--kv-channels", "8"},
      {tiny_gpt2(), "--num-experts", "4"},
  };
  for (const auto& [json, flag, value] : cases) {
    EXPECT_THAT(error_of<ConfigError>([&] { name_of(json, flag, value); }), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace phalanx::hugging_face
