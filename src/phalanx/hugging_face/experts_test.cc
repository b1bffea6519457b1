// Folders of Mixtral, Qwen2-MoE and Qwen3-MoE: config.json to flags and back, where every expert
// goes, experts that are joined in one tensor, and folders that are damaged.

#include <gmock/gmock.h>

#include <algorithm>
#include <tuple>

#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/hugging_face/export.h"
#include "phalanx/hugging_face/test_support.h"
#include "phalanx/hugging_face/window.h"
#include "phalanx/hugging_face/write_import.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
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

Json with(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

Json without(Json json, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) json.erase(key);
  return json;
}

TEST(ExpertConfigs, MixtralBecomesFlags) {
  const Json json = with(tiny_mixtral(), {{"head_dim", nullptr}, {"router_aux_loss_coef", 0.02}});
  const std::map<std::string, std::string> expected = {
      {"--num-layers", "2"},
      {"--hidden-size", "16"},
      {"--ffn-hidden-size", "12"},
      {"--moe-ffn-hidden-size", "12"},
      {"--num-experts", "4"},
      {"--moe-router-topk", "2"},
      {"--moe-router-pre-softmax", "false"},
      {"--moe-layer-freq", "1"},
      {"--num-attention-heads", "4"},
      {"--group-query-attention", "true"},
      {"--num-query-groups", "2"},
      {"--kv-channels", "4"},
      {"--model-vocab-size", "32"},
      {"--max-position-embeddings", "64"},
      {"--position-embedding-type", "rope"},
      {"--rotary-base", "1e+06"},
      {"--swiglu", "true"},
      {"--normalization", "RMSNorm"},
      {"--norm-epsilon", "1e-05"},
      {"--init-method-std", "0.02"},
      {"--untie-embeddings-and-output-weights", "true"},
      {"--attention-dropout", "0"},
      {"--hidden-dropout", "0"},
      {"--disable-bias-linear", "true"},
      {"config.architecture", "MixtralForCausalLM"},
      {"config.router_aux_loss_coef", "0.02"},
  };
  auto arguments = settings_of(json).arguments();
  EXPECT_EQ(settings_of(json).number("--rotary-base"), 1e6);
  arguments["--rotary-base"] = "1e+06";
  EXPECT_EQ(arguments, expected);
}

TEST(ExpertConfigs, QwensAreTheirKeys) {
  const ModelArguments qwen2 = settings_of(tiny_qwen2_moe());
  EXPECT_EQ(qwen2.integer("--num-experts"), 3);
  EXPECT_EQ(qwen2.integer("--moe-ffn-hidden-size"), 8);
  EXPECT_EQ(qwen2.integer("--moe-shared-expert-intermediate-size"), 12);
  EXPECT_TRUE(qwen2.is_on("--moe-shared-expert-gate"));
  EXPECT_TRUE(qwen2.is_on("--add-qkv-bias"));
  EXPECT_TRUE(qwen2.is_on("--moe-router-pre-softmax"));
  EXPECT_EQ(qwen2.text("--moe-layer-freq"), "[0]*1+[1]*1");
  EXPECT_FALSE(settings_of(with(tiny_qwen2_moe(), {{"qkv_bias", false}})).is_on("--add-qkv-bias"));

  const ModelArguments qwen3 = settings_of(tiny_qwen3_moe());
  EXPECT_FALSE(qwen3.is_on("--moe-router-pre-softmax"));
  EXPECT_TRUE(qwen3.is_on("--qk-layernorm"));
  EXPECT_FALSE(qwen3.is_on("--add-qkv-bias"));
  EXPECT_EQ(qwen3.head_size(), 8);
  EXPECT_EQ(qwen3.text("--moe-layer-freq"), "[0]*1+[1]*2");
  EXPECT_FALSE(qwen3.has("--moe-shared-expert-intermediate-size"));
}

TEST(ExpertConfigs, AbsentKeysHaveTheirDefaults) {
  const std::vector<std::string> keys = {"num_key_value_heads",
                                         "max_position_embeddings",
                                         "rms_norm_eps",
                                         "num_experts",
                                         "num_local_experts",
                                         "num_experts_per_tok",
                                         "norm_topk_prob",
                                         "moe_intermediate_size",
                                         "decoder_sparse_step",
                                         "mlp_only_layers",
                                         "shared_expert_intermediate_size"};
  const auto facts = [&](Json json) {
    json.update({{"num_attention_heads", 16}, {"hidden_size", 64}});
    const ModelArguments settings = settings_of(without(json, keys));
    EXPECT_EQ(settings.text("--moe-layer-freq"), "1");
    return std::tuple(settings.integer("--num-experts"), settings.integer("--moe-router-topk"),
                      settings.integer("--moe-ffn-hidden-size"), settings.groups(),
                      settings.positions(), settings.number("--norm-epsilon"),
                      settings.number("--rotary-base"), settings.is_on("--moe-router-pre-softmax"));
  };
  EXPECT_EQ(facts(tiny_mixtral()), std::tuple(8, 2, 12, 8, 131072, 1e-5, 1e6, false));
  EXPECT_EQ(facts(tiny_qwen2_moe()), std::tuple(60, 4, 1408, 16, 32768, 1e-6, 1e4, true));
  EXPECT_EQ(facts(tiny_qwen3_moe()), std::tuple(128, 8, 768, 4, 32768, 1e-6, 1e4, true));
  const Json shared =
      with(without(tiny_qwen2_moe(), keys), {{"num_attention_heads", 16}, {"hidden_size", 64}});
  EXPECT_EQ(settings_of(shared).integer("--moe-shared-expert-intermediate-size"), 5632);
}

// transformers 5 writes num_local_experts where older versions write num_experts.
TEST(ExpertConfigs, TheNumberOfExpertsHasTwoNames) {
  Json json = without(tiny_qwen3_moe(), {"num_experts"});
  json["num_local_experts"] = 3;
  EXPECT_EQ(settings_of(json).arguments(), settings_of(tiny_qwen3_moe()).arguments());
  json["num_experts"] = 3;
  EXPECT_EQ(settings_of(json).integer("--num-experts"), 3);
  json["num_experts"] = 2;
  EXPECT_THAT(error_of<DataError>([&] { settings_of(json); }), HasSubstr("'num_local_experts' 3"));
}

// Counted from 1 there, from 0 here.
TEST(ExpertConfigs, WhichLayersHaveExperts) {
  const auto layers = [](std::int64_t count, std::int64_t step, const Json& dense) {
    const Json json = with(
        tiny_qwen3_moe(),
        {{"num_hidden_layers", count}, {"decoder_sparse_step", step}, {"mlp_only_layers", dense}});
    const ModelArguments settings = settings_of(json);
    const Json back = written(settings);
    EXPECT_EQ(back.at("decoder_sparse_step"), step) << json;
    EXPECT_EQ(back.at("mlp_only_layers"), dense) << json;
    return settings.text("--moe-layer-freq");
  };
  const Json none = Json::array();
  EXPECT_EQ(layers(4, 1, none), "1");
  EXPECT_EQ(layers(4, 2, none), "[0]*1+[1]*1+[0]*1+[1]*1");
  EXPECT_EQ(layers(5, 3, none), "[0]*2+[1]*1+[0]*2");
  EXPECT_EQ(layers(4, 1, {0, 3}), "[0]*1+[1]*2+[0]*1");
  // Where both leave some out, the list is written.
  const Json both =
      with(tiny_qwen3_moe(),
           {{"num_hidden_layers", 4}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {1}}});
  EXPECT_EQ(settings_of(both).text("--moe-layer-freq"), "[0]*3+[1]*1");
  EXPECT_EQ(written(settings_of(both)).at("decoder_sparse_step"), 4);

  ModelArguments own = settings_of(with(tiny_qwen3_moe(), {{"num_hidden_layers", 4}}));
  own.set("--moe-layer-freq", 2);
  EXPECT_EQ(written(own).at("mlp_only_layers"), Json({1, 3}));
}

TEST(ExpertConfigs, WhatOnlyTrainingReadsIsKept) {
  const Json json = with(tiny_mixtral(), {{"router_aux_loss_coef", 0.02},
                                          {"output_router_logits", true},
                                          {"router_jitter_noise", 0.01}});
  const ModelArguments settings = settings_of(json);
  EXPECT_FALSE(settings.has("--moe-aux-loss-coeff"));
  EXPECT_FALSE(settings.has("--moe-input-jitter-eps"));
  const Json back = written(settings);
  for (const char* key : {"router_aux_loss_coef", "output_router_logits", "router_jitter_noise"}) {
    EXPECT_EQ(back.at(key), json.at(key)) << key;
    EXPECT_FALSE(written(settings_of(tiny_mixtral())).contains(key)) << key;
  }
}

TEST(ExpertConfigs, Windows) {
  const auto window = [](const Json& json) { return window_of(settings_of(json)); };
  EXPECT_EQ(window(tiny_mixtral()).keys, 0);
  EXPECT_EQ(window(with(tiny_mixtral(), {{"sliding_window", nullptr}})).keys, 0);
  EXPECT_EQ(window(with(tiny_mixtral(), {{"sliding_window", 5}})).keys, 5);
  const Json is_used = {{"use_sliding_window", true}, {"sliding_window", 3}};
  const Json qwen2 = with(with(tiny_qwen2_moe(), is_used),
                          {{"layer_types", {"sliding_attention", "full_attention"}}});
  EXPECT_EQ(window(qwen2).layers, (std::vector<bool>{true, false}));
  const Json qwen3 = with(tiny_qwen3_moe(), is_used);
  EXPECT_EQ(window(qwen3).layers, (std::vector<bool>{true, true, true}));
  // Without the switch it says nothing.
  EXPECT_EQ(window(with(qwen3, {{"use_sliding_window", false}})).keys, 0);
  EXPECT_EQ(window(with(tiny_qwen2_moe(), {{"sliding_window", 0}})).keys, 0);
  for (const Json& json : {qwen2, qwen3, with(tiny_mixtral(), {{"sliding_window", 5}})}) {
    EXPECT_EQ(settings_of(with(json, written(settings_of(json)))).arguments(),
              settings_of(json).arguments());
  }
}

TEST(ExpertConfigs, WhatPhalanxHasNoModelForIsRefused) {
  const auto expect_fault = [](const Json& json, const Json& change, const std::string& mention) {
    EXPECT_THAT(error_of<ConfigError>([&] { settings_of(with(json, change)); }),
                testing::AllOf(HasSubstr(mention), HasSubstr("config.json")));
  };
  for (const Json& json : {tiny_mixtral(), tiny_qwen2_moe(), tiny_qwen3_moe()}) {
    expect_fault(json, {{"n_routed_experts", 8}}, "n_routed_experts");
    expect_fault(json, {{"scoring_func", "sigmoid"}}, "scoring_func");
    expect_fault(json, {{"n_group", 2}}, "n_group");
    expect_fault(json, {{"quantization_config", {{"quant_method", "fp8"}}}}, "quantization_config");
    expect_fault(json, {{"quantization_config", {{"quant_method", "mxfp4"}}}},
                 "quantization_config");
    expect_fault(json, {{"num_experts_per_tok", 1}, {"norm_topk_prob", true}},
                 "num_experts_per_tok");
  }
  expect_fault(tiny_qwen3_moe(), {{"attention_bias", true}}, "attention_bias");
  expect_fault(tiny_of("Qwen3ForCausalLM", "qwen3"), {{"attention_bias", true}}, "attention_bias");
  expect_fault(tiny_of("Qwen3ForCausalLM", "qwen3"), {{"num_experts", 4}}, "num_experts");
  expect_fault(tiny_qwen3_moe(), {{"shared_expert_intermediate_size", 8}},
               "shared_expert_intermediate_size");
  expect_fault(tiny_qwen3_moe(), {{"decoder_sparse_step", 4}}, "decoder_sparse_step");
  expect_fault(tiny_qwen2_moe(), {{"use_sliding_window", true}, {"sliding_window", 3}},
               "layer_types");
  expect_fault(tiny_qwen3_moe(),
               {{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}},
               "max_window_layers");

  const auto expect_malformed = [](const Json& json, const Json& change,
                                   const std::string& mention) {
    EXPECT_THAT(error_of<DataError>([&] { settings_of(with(json, change)); }),
                testing::AllOf(HasSubstr(mention), HasSubstr("config.json")));
  };
  expect_malformed(tiny_mixtral(), {{"num_local_experts", 0}}, "num_local_experts");
  expect_malformed(tiny_mixtral(), {{"num_experts_per_tok", 5}}, "a layer has 4 experts");
  expect_malformed(tiny_qwen3_moe(), {{"mlp_only_layers", {3}}}, "mlp_only_layers");
  expect_malformed(tiny_qwen3_moe(), {{"mlp_only_layers", 0}}, "mlp_only_layers");
  expect_malformed(tiny_qwen3_moe(), {{"moe_intermediate_size", "8"}}, "moe_intermediate_size");
  expect_malformed(tiny_qwen3_moe(), {{"layer_types", {"full_attention"}}}, "layer_types");
}

TEST(ExpertConfigs, ModelsFindTheirArchitecture) {
  const auto faults = [](const Architecture& architecture, const Json& json, const char* flag,
                         const char* value) {
    ModelArguments settings = settings_of(json);
    settings.set(flag, value);
    return faults_of(architecture, settings);
  };
  const std::vector<std::tuple<const Architecture*, Json, const char*, const char*>> cases = {
      {&kMixtral, tiny_mixtral(), "--moe-router-pre-softmax", "true"},
      {&kMixtral, tiny_mixtral(), "--moe-router-score-function", "sigmoid"},
      {&kMixtral, tiny_mixtral(), "--moe-layer-freq", "2"},
      {&kMixtral, tiny_mixtral(), "--moe-shared-expert-intermediate-size", "8"},
      {&kMixtral, tiny_mixtral(), "--qk-layernorm", "true"},
      {&kMixtral, tiny_mixtral(), "--num-experts", "0"},
      {&kQwen2Moe, tiny_qwen2_moe(), "--moe-shared-expert-gate", "false"},
      {&kQwen2Moe, tiny_qwen2_moe(), "--moe-shared-expert-intermediate-size", "0"},
      {&kQwen2Moe, tiny_qwen2_moe(), "--disable-bias-linear", "false"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--qk-layernorm", "false"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--add-qkv-bias", "true"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--moe-router-num-groups", "3"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--moe-router-topk-scaling-factor", "2.5"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--moe-router-enable-expert-bias", "true"},
      {&kQwen3Moe, tiny_qwen3_moe(), "--moe-router-load-balancing-type", "sinkhorn"},
      {&kLlama, tiny_llama(), "--num-experts", "4"},
      {&kQwen3, tiny_of("Qwen3ForCausalLM", "qwen3"), "--num-experts", "4"},
  };
  for (const auto& [architecture, json, flag, value] : cases) {
    EXPECT_THAT(faults(*architecture, json, flag, value), testing::ElementsAre(HasSubstr(flag)))
        << architecture->name;
  }
  // Models of our own go by what they have.
  const auto name_of = [](const Json& json) {
    auto arguments = settings_of(json).arguments();
    arguments.erase(std::string(kConfigArchitecture));
    return architecture_for(ModelArguments(arguments)).name;
  };
  EXPECT_EQ(name_of(tiny_mixtral()), "MixtralForCausalLM");
  EXPECT_EQ(name_of(tiny_qwen2_moe()), "Qwen2MoeForCausalLM");
  EXPECT_EQ(name_of(tiny_qwen3_moe()), "Qwen3MoeForCausalLM");
}

class ExpertFolders : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return directory_.path() / name; }

  CheckpointReader imported(const fs::path& folder) const {
    fs::remove_all(at("checkpoint"));
    EXPECT_TRUE(write_import(Import(folder), {.directory = at("checkpoint")}));
    return CheckpointReader::open(at("checkpoint"));
  }
  static std::string ours(const CheckpointReader& checkpoint, const std::string& name) {
    const auto* entry = checkpoint.find(name);
    if (entry == nullptr) throw InternalError("no tensor {}", name);
    return testing_support::as_text(testing_support::bytes_of(checkpoint, *entry));
  }
  // All of them, by name.
  std::map<std::string, std::string> all_of(const fs::path& folder) const {
    const CheckpointReader checkpoint = imported(folder);
    std::map<std::string, std::string> tensors;
    for (const auto& entry : checkpoint.manifest().tensors) {
      tensors[entry.name] = ours(checkpoint, entry.name);
    }
    return tensors;
  }

  TemporaryDirectory directory_{"hugging_face_experts"};
};

TEST_F(ExpertFolders, ExpertsFindTheirPlaces) {
  TinyFolder mixtral(at("mixtral"), tiny_mixtral());
  mixtral.write();
  const CheckpointReader of_mixtral = imported(mixtral.path);
  const std::string theirs = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(ours(of_mixtral, "decoder.layers.1.mlp.router.weight"),
            mixtral.find(theirs + "gate.weight").bytes);
  EXPECT_EQ(ours(of_mixtral, "decoder.layers.1.mlp.experts.3.linear_fc1.weight"),
            mixtral.find(theirs + "experts.3.w1.weight").bytes +
                mixtral.find(theirs + "experts.3.w3.weight").bytes);
  EXPECT_EQ(ours(of_mixtral, "decoder.layers.1.mlp.experts.3.linear_fc2.weight"),
            mixtral.find(theirs + "experts.3.w2.weight").bytes);
  EXPECT_EQ(mixtral.tensors.size(), 3U + 2 * (6 + 1 + 4 * 3));

  TinyFolder qwen2(at("qwen2"), tiny_qwen2_moe());
  qwen2.write();
  const CheckpointReader of_qwen2 = imported(qwen2.path);
  const std::string mlp = "decoder.layers.1.mlp.";
  EXPECT_EQ(ours(of_qwen2, mlp + "shared_experts.linear_fc1.weight"),
            qwen2.find("model.layers.1.mlp.shared_expert.gate_proj.weight").bytes +
                qwen2.find("model.layers.1.mlp.shared_expert.up_proj.weight").bytes);
  EXPECT_EQ(ours(of_qwen2, mlp + "shared_experts.gate_weight"),
            qwen2.find("model.layers.1.mlp.shared_expert_gate.weight").bytes);
  EXPECT_EQ(ours(of_qwen2, "decoder.layers.0.mlp.linear_fc2.weight"),
            qwen2.find("model.layers.0.mlp.down_proj.weight").bytes);

  TinyFolder qwen3(at("qwen3"), tiny_qwen3_moe());
  qwen3.write();
  EXPECT_EQ(ours(imported(qwen3.path), "decoder.layers.1.self_attention.k_layernorm.weight"),
            qwen3.find("model.layers.1.self_attn.k_norm.weight").bytes);
}

// The experts of each layer as two tensors, which is how transformers 5 has them in memory.
void join_experts(TinyFolder& folder) {
  std::map<std::string, TinyTensor> joined;
  std::vector<TinyTensor> kept;
  for (TinyTensor& tensor : folder.tensors) {
    const std::size_t at = tensor.name.find(".experts.");
    if (at == std::string::npos) {
      kept.push_back(std::move(tensor));
      continue;
    }
    const bool is_down = tensor.name.find("down_proj") != std::string::npos ||
                         tensor.name.find(".w2.") != std::string::npos;
    const std::string name =
        tensor.name.substr(0, at) + (is_down ? ".experts.down_proj" : ".experts.gate_up_proj");
    TinyTensor& whole = joined[name];
    whole.name = name;
    whole.dtype = tensor.dtype;
    whole.bytes += tensor.bytes;
    whole.shape = tensor.shape;
  }
  for (auto& [name, tensor] : joined) {
    const std::int64_t experts = folder.config.value("num_experts", 4);
    const std::int64_t columns = tensor.shape[1];
    const auto elements = std::ssize(tensor.bytes) / size_of(tensor.dtype);
    tensor.shape = {experts, elements / columns / experts, columns};
    kept.push_back(std::move(tensor));
  }
  folder.tensors = std::move(kept);
}

TEST_F(ExpertFolders, JoinedExpertsAreTheSame) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Json& json : {tiny_mixtral(), tiny_qwen2_moe(), tiny_qwen3_moe()}) {
      TinyFolder folder(at("in"), json, dtype);
      folder.write();
      const auto expected = all_of(folder.path);
      join_experts(folder);
      folder.write();
      EXPECT_EQ(all_of(folder.path), expected) << json;
      // Mixtral's MLP has another name in memory.
      for (TinyTensor& tensor : folder.tensors) {
        const std::size_t at = tensor.name.find("block_sparse_moe");
        if (at != std::string::npos) tensor.name.replace(at, 16, "mlp");
      }
      folder.write_shards(3, [](Json&) {});
      fs::remove(folder.path / kWeightsName);
      EXPECT_EQ(all_of(folder.path), expected) << json;
      fs::remove_all(folder.path);
    }
  }
}

TEST_F(ExpertFolders, DamagedOnesAreRefused) {
  const auto expect_fault = [&](const TinyFolder& folder, const std::string& mention) {
    folder.write();
    EXPECT_THAT(error_of<DataError>([&] { const Import model(folder.path); }), HasSubstr(mention));
  };
  const std::string layer = "model.layers.1.mlp.experts.";
  for (const Json& json : {tiny_qwen2_moe(), tiny_qwen3_moe()}) {
    const TinyFolder whole(at("in"), json);
    TinyFolder folder = whole;
    folder.remove(layer + "2.up_proj.weight");
    expect_fault(folder, "has no tensor " + layer + "2.up_proj.weight");

    folder = whole;
    TinyTensor surplus = folder.find(layer + "2.up_proj.weight");
    surplus.name = layer + "3.up_proj.weight";
    folder.tensors.push_back(surplus);
    expect_fault(folder, layer + "3.up_proj.weight is not of the");

    folder = whole;
    folder.find("model.layers.1.mlp.gate.weight").shape = {16, 3};
    expect_fault(folder, "model.layers.1.mlp.gate.weight is [16, 3]");

    folder = whole;
    TinyTensor scale{layer + "0.up_proj.weight_scale_inv", DType::kF32, {1}, std::string(4, '\0')};
    folder.tensors.push_back(scale);
    expect_fault(folder, "weight_scale_inv");

    folder = whole;
    folder.config["num_experts"] = 60000;
    expect_fault(folder, "too few for the 60000 experts");

    folder = whole;
    join_experts(folder);
    folder.find(layer + "down_proj").shape = {3, 8, 16};
    expect_fault(folder, layer + "down_proj is [3, 8, 16], but config.json makes it [3, 16, 8]");

    folder = whole;
    join_experts(folder);
    folder.tensors.push_back(whole.tensors.back());
    folder.tensors.back().name = layer + "0.down_proj.weight";
    expect_fault(folder, layer + "0.down_proj.weight comes twice");

    folder = whole;
    join_experts(folder);
    folder.remove(layer + "gate_up_proj");
    expect_fault(folder, "has no tensor " + layer + "0.gate_proj.weight");
  }
  TinyFolder mixtral(at("in"), tiny_mixtral());
  mixtral.config["num_local_experts"] = 5;
  expect_fault(mixtral, "gate.weight is [4, 16], but config.json makes it [5, 16]");
}

// Thousands of tensors: a published model of 48 layers has 18,867.
TEST_F(ExpertFolders, HundredsOfExpertsComeBack) {
  Json json = tiny_qwen3_moe();
  json.update({{"num_experts", 512},
               {"hidden_size", 4},
               {"num_attention_heads", 1},
               {"num_key_value_heads", 1},
               {"head_dim", 2},
               {"moe_intermediate_size", 1},
               {"mlp_only_layers", Json::array()}});
  const TinyFolder folder(at("in"), json);
  EXPECT_EQ(folder.tensors.size(), 3U + 3 * (8 + 1 + 512 * 3));
  folder.write();
  const CheckpointReader checkpoint = imported(folder.path);
  const ModelArguments settings(checkpoint.manifest().arguments);
  const Export back(checkpoint, settings, architecture_for(settings), std::nullopt);
  ASSERT_TRUE(back.write(at("out"), {.max_shard_bytes = 20000}));
  const Folder out(at("out"));
  EXPECT_EQ(out.tensors().size(), folder.tensors.size());
  for (const TinyTensor& tensor : folder.tensors) {
    ASSERT_EQ(testing_support::as_text(out.tensors().at(tensor.name).bytes()), tensor.bytes)
        << tensor.name;
  }
}

}  // namespace
}  // namespace phalanx::hugging_face
