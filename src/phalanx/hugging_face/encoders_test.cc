// What config.json says of BERT, MegatronBert and T5, in both directions, and the tables of their
// tensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "phalanx/base/test_support.h"
#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Json bert_json() {
  return {{"architectures", {"BertForPreTraining"}},
          {"model_type", "bert"},
          {"hidden_size", 16},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"intermediate_size", 24},
          {"max_position_embeddings", 10},
          {"vocab_size", 32},
          {"hidden_dropout_prob", 0.25}};
}

Json t5_json() {
  return {{"architectures", {"T5ForConditionalGeneration"}},
          {"model_type", "t5"},
          {"d_model", 16},
          {"d_kv", 6},
          {"num_heads", 3},
          {"d_ff", 24},
          {"num_layers", 2},
          {"num_decoder_layers", 3},
          {"vocab_size", 32},
          {"relative_attention_num_buckets", 8},
          {"relative_attention_max_distance", 12}};
}

ModelArguments read(const Json& json) {
  const ConfigFile config(json.dump(), "config.json");
  ModelArguments settings;
  architecture_of(config).read_config(config, settings);
  return settings;
}

std::string refusal_of(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return error_of([&] { read(json); });
}

Json written(const ModelArguments& settings) {
  Json json;
  Faults faults;
  architecture_for(settings).write_config(settings, json, faults);
  EXPECT_THAT(faults, testing::IsEmpty());
  return json;
}

// Where each of our tensors comes from.
std::map<std::string, std::vector<std::string>> sources_of(const Architecture& architecture,
                                                           const ModelArguments& settings) {
  const TensorTable table = architecture.tensors(settings);
  check_table(table);
  std::map<std::string, std::vector<std::string>> sources;
  for (const TensorRow& row : table.rows) {
    for (const TensorPart& part : row.parts) sources[row.name].push_back(part.name);
  }
  return sources;
}

TEST(HuggingFaceBert, Flags) {
  ModelArguments settings = read(bert_json());
  EXPECT_EQ(settings.text("--post-layernorm"), "true");
  EXPECT_EQ(settings.text("--no-bias-gelu-fusion"), "true");
  EXPECT_EQ(settings.number("--norm-epsilon"), 1e-12);
  EXPECT_EQ(settings.number("--hidden-dropout"), 0.25);
  EXPECT_EQ(settings.number("--attention-dropout"), 0.1);
  EXPECT_EQ(settings.integer("--model-vocab-size"), 32);
  EXPECT_EQ(settings.head_size(), 4);
  EXPECT_TRUE(settings.is_tied());

  Json megatron = bert_json();
  megatron["architectures"] = {"MegatronBertForPreTraining"};
  EXPECT_THAT(refusal_of(megatron, "model_type", "bert"), HasSubstr("'model_type' is bert"));
  megatron["model_type"] = "megatron-bert";
  EXPECT_EQ(read(megatron).text("--post-layernorm"), "false");
}

TEST(HuggingFaceBert, IsWrittenAsItWasRead) {
  for (const auto& [name, type] :
       {std::pair("BertForPreTraining", "bert"), std::pair("BertForMaskedLM", "bert"),
        std::pair("MegatronBertForPreTraining", "megatron-bert"),
        std::pair("MegatronBertForMaskedLM", "megatron-bert")}) {
    Json json = bert_json();
    json["architectures"] = {name};
    json["model_type"] = type;
    ModelArguments settings = read(json);
    settings.set("run.family", "bert");
    // A model of Phalanx's own has both heads.
    EXPECT_TRUE(architecture_for(settings).name.ends_with("BertForPreTraining"));
    ModelArguments imported = settings;
    imported.set(kConfigArchitecture, name);
    EXPECT_EQ(architecture_for(imported).name, name);
    Json again = written(settings);
    again["architectures"] = {name};
    again["model_type"] = type;
    for (const auto& item : json.items()) EXPECT_EQ(again[item.key()], item.value()) << item.key();
    EXPECT_EQ(read(again).arguments().size(), settings.arguments().size() - 1);
  }
}

TEST(HuggingFaceBert, WhatItsConfigMayNotSay) {
  const auto refusal = [](const std::string& key, const Json& value) {
    return refusal_of(bert_json(), key, value);
  };
  EXPECT_THAT(refusal("hidden_act", "gelu_new"), HasSubstr("'hidden_act' gelu_new"));
  EXPECT_THAT(refusal("hidden_act", "relu"), HasSubstr("'hidden_act' relu"));
  EXPECT_THAT(refusal("type_vocab_size", 3), HasSubstr("'type_vocab_size' 3"));
  EXPECT_THAT(refusal("is_decoder", true), HasSubstr("is_decoder"));
  EXPECT_THAT(refusal("add_cross_attention", true), HasSubstr("add_cross_attention"));
  EXPECT_THAT(refusal("position_embedding_type", "relative_key"), HasSubstr("relative_key"));
  EXPECT_THAT(refusal("tie_word_embeddings", false), HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(refusal("num_attention_heads", 3), HasSubstr("does not divide into 3 heads"));
  EXPECT_THAT(refusal("vocab_size", 0), HasSubstr("vocab_size"));
}

TEST(HuggingFaceBert, WhatAModelMayNotHave) {
  const auto fault_of = [](const char* flag, const char* value) {
    ModelArguments settings = read(bert_json());
    settings.set(flag, value);
    const Faults faults = faults_of(kBert, settings);
    return faults.empty() ? "none" : faults.front();
  };
  for (const auto& [flag, value] :
       {std::pair("--no-bias-gelu-fusion", "false"), std::pair("--bert-no-binary-head", "true"),
        std::pair("--post-layernorm", "false"), std::pair("--normalization", "RMSNorm"),
        std::pair("--untie-embeddings-and-output-weights", "true"),
        std::pair("--disable-bias-linear", "true"), std::pair("--kv-channels", "8")}) {
    EXPECT_THAT(fault_of(flag, value), HasSubstr(flag));
  }
  EXPECT_EQ(fault_of("--hidden-dropout", "0"), "none");
}

TEST(HuggingFaceBert, Tensors) {
  const ModelArguments settings = read(bert_json());
  auto sources = sources_of(kBert, settings);
  EXPECT_EQ(sources.size(), 3 + 2 + 2 * 12 + 2 + 1 + 2 + 2 + 2);
  EXPECT_THAT(sources["encoder.layers.1.self_attention.linear_qkv.bias"],
              testing::ElementsAre("bert.encoder.layer.1.attention.self.query.bias",
                                   "bert.encoder.layer.1.attention.self.key.bias",
                                   "bert.encoder.layer.1.attention.self.value.bias"));
  EXPECT_THAT(sources["encoder.layers.0.post_self_attn_layernorm.weight"],
              testing::ElementsAre("bert.encoder.layer.0.attention.output.LayerNorm.weight"));
  const auto canonical = kBert.tensors(settings).canonical_name;
  EXPECT_EQ(canonical("bert.embeddings.LayerNorm.gamma"), "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(canonical("bert.embeddings.LayerNorm.beta"), "bert.embeddings.LayerNorm.bias");
  EXPECT_EQ(canonical("bert.pooler.dense.bias"), "bert.pooler.dense.bias");

  ModelArguments before = settings;
  before.set("--post-layernorm", false);
  sources = sources_of(kMegatronBert, before);
  EXPECT_THAT(sources["encoder.layers.1.pre_mlp_layernorm.bias"],
              testing::ElementsAre("bert.encoder.layer.1.ln.bias"));
  EXPECT_THAT(sources["encoder.final_layernorm.weight"],
              testing::ElementsAre("bert.encoder.ln.weight"));
}

Json classifier_json() {
  Json json = bert_json();
  json["architectures"] = {"BertForSequenceClassification"};
  json["id2label"] = {{"0", "not so"}, {"1", "so"}, {"2", "who knows"}};
  json["label2id"] = {{"not so", 0}, {"so", 1}, {"who knows", 2}};
  return json;
}

TEST(HuggingFaceClassifier, Flags) {
  const ModelArguments settings = read(classifier_json());
  EXPECT_EQ(settings.text("--labels"), "not so\tso\twho knows");
  EXPECT_EQ(settings.integer("--num-classes"), 3);
  EXPECT_EQ(settings.text("--no-bias-gelu-fusion"), "true");
  Json json = classifier_json();
  json["hidden_act"] = "gelu_new";
  EXPECT_EQ(read(json).text("--no-bias-gelu-fusion"), "false");
  // As transformers has it, where nothing is said.
  json.erase("id2label");
  json.erase("label2id");
  EXPECT_EQ(read(json).text("--labels"), "LABEL_0\tLABEL_1");
  json["num_labels"] = 3;
  EXPECT_EQ(read(json).text("--labels"), "LABEL_0\tLABEL_1\tLABEL_2");
}

TEST(HuggingFaceClassifier, IsWrittenAsItWasRead) {
  for (const auto& [name, type] :
       {std::pair("BertForSequenceClassification", "bert"),
        std::pair("MegatronBertForSequenceClassification", "megatron-bert")}) {
    Json json = classifier_json();
    json["architectures"] = {name};
    json["model_type"] = type;
    ModelArguments settings = read(json);
    settings.set("run.family", "classify");
    EXPECT_EQ(architecture_for(settings).name, name);
    Json again = written(settings);
    EXPECT_EQ(again["num_labels"], 3);
    EXPECT_EQ(again["problem_type"], "single_label_classification");
    again["architectures"] = {name};
    again["model_type"] = type;
    for (const auto& item : json.items()) EXPECT_EQ(again[item.key()], item.value()) << item.key();
    EXPECT_EQ(read(again).arguments(), read(json).arguments());
  }
}

TEST(HuggingFaceClassifier, WhatItsConfigMayNotSay) {
  const auto refusal = [](const std::string& key, const Json& value) {
    return refusal_of(classifier_json(), key, value);
  };
  EXPECT_THAT(refusal("problem_type", "regression"), HasSubstr("'problem_type' regression"));
  EXPECT_THAT(refusal("problem_type", "multi_label_classification"), HasSubstr("multi_label"));
  EXPECT_THAT(refusal("num_labels", 2), HasSubstr("'num_labels' is 2, but 'id2label' names 3"));
  EXPECT_THAT(refusal("id2label", {{"0", "only"}}), HasSubstr("a regression"));
  EXPECT_THAT(refusal("id2label", {{"0", "a"}, {"1", "a"}}), HasSubstr("has a twice"));
  EXPECT_THAT(refusal("id2label", {{"0", "a"}, {"1", "b\tc"}}), HasSubstr("'id2label' 1"));
  EXPECT_THAT(refusal("id2label", {{"0", "a"}, {"1", 7}}), HasSubstr("id2label"));
  EXPECT_THAT(refusal("hidden_act", "relu"), HasSubstr("'hidden_act' relu"));
}

TEST(HuggingFaceClassifier, Tensors) {
  auto sources = sources_of(kBertClassifier, read(classifier_json()));
  EXPECT_EQ(sources.size(), 3 + 2 + 2 * 12 + 2 + 2);
  EXPECT_THAT(sources["classification_head.weight"], testing::ElementsAre("classifier.weight"));
  EXPECT_THAT(sources["pooler.dense.bias"], testing::ElementsAre("bert.pooler.dense.bias"));
}

TEST(HuggingFaceT5, Flags) {
  const ModelArguments first = read(t5_json());
  EXPECT_EQ(first.text("--activation-func"), "relu");
  EXPECT_EQ(first.text("--gated-linear-unit"), "false");
  EXPECT_EQ(first.number("--attention-scale"), 1.0);
  EXPECT_EQ(first.number("--norm-epsilon"), 1e-6);
  EXPECT_EQ(first.text("--scale-decoder-output"), "true");
  EXPECT_EQ(first.integer("--decoder-num-layers"), 3);
  EXPECT_EQ(first.integer("--kv-channels"), 6);
  EXPECT_TRUE(first.is_tied());

  Json json = t5_json();
  json["feed_forward_proj"] = "gated-gelu";
  json["tie_word_embeddings"] = false;
  json["num_decoder_layers"] = nullptr;
  const ModelArguments second = read(json);
  EXPECT_EQ(second.text("--activation-func"), "gelu");
  EXPECT_EQ(second.text("--gated-linear-unit"), "true");
  EXPECT_EQ(second.text("--scale-decoder-output"), "false");
  EXPECT_EQ(second.integer("--decoder-num-layers"), 2);
  EXPECT_FALSE(second.is_tied());
}

TEST(HuggingFaceT5, IsWrittenAsItWasRead) {
  for (const char* mlp : {"relu", "gated-gelu", "gated-silu"}) {
    for (const bool tied : {true, false}) {
      Json json = t5_json();
      json["feed_forward_proj"] = mlp;
      json["tie_word_embeddings"] = tied;
      json["decoder_start_token_id"] = 3;
      ModelArguments settings = read(json);
      settings.set("run.family", "t5");
      EXPECT_EQ(architecture_for(settings).name, "T5ForConditionalGeneration");
      Json again = written(settings);
      again["architectures"] = json["architectures"];
      again["model_type"] = "t5";
      for (const auto& item : json.items()) {
        EXPECT_EQ(again[item.key()], item.value()) << item.key();
      }
      EXPECT_EQ(read(again).arguments(), read(json).arguments());
    }
  }
}

TEST(HuggingFaceT5, WhatItsConfigMayNotSay) {
  const auto refusal = [](const std::string& key, const Json& value) {
    return refusal_of(t5_json(), key, value);
  };
  EXPECT_THAT(refusal("feed_forward_proj", "gelu"), HasSubstr("'feed_forward_proj' gelu"));
  EXPECT_THAT(refusal("decoder_start_token_id", 32), HasSubstr("decoder_start_token_id"));
  EXPECT_THAT(refusal("is_encoder_decoder", false), HasSubstr("is_encoder_decoder"));
  EXPECT_THAT(refusal("dropout_rate", 1.5), HasSubstr("dropout_rate"));
}

TEST(HuggingFaceT5, WhatAModelMayNotHave) {
  for (const auto& [flag, value] :
       {std::pair("--normalization", "LayerNorm"), std::pair("--disable-bias-linear", "false"),
        std::pair("--attention-scale", "0"), std::pair("--activation-func", "silu"),
        std::pair("--disable-output-bias", "false"),
        std::pair("--position-embedding-type", "learned_absolute"),
        std::pair("--attention-dropout", "0.5"), std::pair("--no-bias-gelu-fusion", "true")}) {
    ModelArguments settings = read(t5_json());
    settings.set(flag, value);
    const Faults faults = faults_of(kT5, settings);
    ASSERT_EQ(faults.size(), 1) << flag;
    EXPECT_THAT(faults.front(), HasSubstr(flag));
  }
}

// transformers 5 says by a key of its own whether a tied model's output is scaled.
TEST(HuggingFaceT5, TiesAndScalesAreIndependent) {
  for (const bool tied : {true, false}) {
    for (const bool scaled : {true, false}) {
      Json json = t5_json();
      json["tie_word_embeddings"] = tied;
      json["scale_decoder_outputs"] = scaled;
      ModelArguments settings = read(json);
      settings.set("run.family", "t5");
      const Json again = written(settings);
      EXPECT_EQ(again["tie_word_embeddings"], tied);
      EXPECT_EQ(again["scale_decoder_outputs"], scaled);
      EXPECT_EQ(kT5.remark(settings).empty(), tied == scaled);
    }
  }
}

TEST(HuggingFaceT5, Tensors) {
  Json json = t5_json();
  auto sources = sources_of(kT5, read(json));
  EXPECT_EQ(sources.size(), 1 + (2 * 6 + 2) + (3 * 10 + 2));
  EXPECT_THAT(sources["decoder.layers.2.cross_attention.linear_kv.weight"],
              testing::ElementsAre("decoder.block.2.layer.1.EncDecAttention.k.weight",
                                   "decoder.block.2.layer.1.EncDecAttention.v.weight"));
  EXPECT_THAT(sources["decoder.layers.1.pre_cross_attn_layernorm.weight"],
              testing::ElementsAre("decoder.block.1.layer.1.layer_norm.weight"));
  EXPECT_THAT(
      sources["encoder_relative_pos_emb.relative_attention_bias.weight"],
      testing::ElementsAre("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_THAT(sources["encoder.layers.1.mlp.linear_fc1.weight"],
              testing::ElementsAre("encoder.block.1.layer.1.DenseReluDense.wi.weight"));

  json["feed_forward_proj"] = "gated-gelu";
  json["tie_word_embeddings"] = false;
  sources = sources_of(kT5, read(json));
  EXPECT_THAT(sources["decoder.layers.0.mlp.linear_fc1.weight"],
              testing::ElementsAre("decoder.block.0.layer.2.DenseReluDense.wi_0.weight",
                                   "decoder.block.0.layer.2.DenseReluDense.wi_1.weight"));
  EXPECT_THAT(sources["lm_head.output_layer.weight"], testing::ElementsAre("lm_head.weight"));
}

}  // namespace
}  // namespace phalanx::hugging_face
