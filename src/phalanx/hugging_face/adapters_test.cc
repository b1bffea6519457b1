#include "phalanx/hugging_face/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/hugging_face/adapter_folder.h"
#include "phalanx/hugging_face/export.h"
#include "phalanx/hugging_face/import.h"
#include "phalanx/hugging_face/test_support.h"
#include "phalanx/hugging_face/write_import.h"

namespace phalanx::hugging_face {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRank = 2;

Json lora_config(std::vector<std::string> targets) {
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"r", kRank},
          {"lora_alpha", 4},
          {"lora_dropout", 0.1},
          {"target_modules", targets},
          {"inference_mode", true},
          {"bias", "none"},
          {"use_dora", false},
          {"megatron_core", "megatron.core"}};
}

// A folder of adapters of some modules of a model; every element is another number.
struct TinyAdapters {
  std::filesystem::path path;
  Json config;
  std::vector<TinyTensor> tensors;

  TinyAdapters(const std::filesystem::path& directory, Json json,
               const std::vector<AdapterModule>& modules,
               const std::function<bool(const AdapterModule&)>& is_adapted,
               DType dtype = DType::kF32)
      : path(directory), config(std::move(json)) {
    std::int64_t first = 0;
    const auto add = [&](const std::string& name, const Shape& shape) {
      tensors.push_back({name, dtype, shape, counted_bytes(dtype, shape.count(), first)});
      first += shape.count();
    };
    for (const AdapterModule& module : modules) {
      if (!is_adapted(module)) continue;
      add("base_model.model." + module.name + ".lora_A.weight", {kRank, module.columns});
      add("base_model.model." + module.name + ".lora_B.weight", {module.rows, kRank});
    }
  }
  TinyTensor& find(const std::string& end) {
    for (TinyTensor& tensor : tensors) {
      if (tensor.name.ends_with(end)) return tensor;
    }
    throw InternalError("no tensor {}", end);
  }
  void write() const {
    std::filesystem::create_directories(path);
    put_file(path / kAdapterConfigName, config.dump());
    write_tensors(path / kAdapterWeightsName, tensors);
  }
};

// A base model in a folder of its own.
struct TinyBase {
  TemporaryDirectory directory;
  TinyFolder folder;
  Import model;
  std::vector<AdapterModule> modules;

  explicit TinyBase(const Json& config)
      : folder(written(path("base"), config)),
        model(path("base")),
        modules(adapter_modules(model.table())) {}

  std::filesystem::path path(std::string_view name) const { return directory.path() / name; }
  static TinyFolder written(const std::filesystem::path& path, const Json& config) {
    TinyFolder folder(path, config);
    folder.write();
    return folder;
  }
  TinyAdapters adapters(Json config, const std::function<bool(const AdapterModule&)>& is_adapted,
                        DType dtype = DType::kF32) const {
    return {path("lora"), std::move(config), modules, is_adapted, dtype};
  }
  AdapterFolder read() const { return {path("lora"), model.settings()}; }
  // Base and adapters as checkpoints.
  CheckpointReader imported(const AdapterFolder& adapters) const {
    write_import(model, {.directory = path("save"), .adapters = &adapters});
    return open_with_base(path("save/adapters"), Verify::kYes);
  }
  ModelArguments settings(const CheckpointReader& checkpoint) const {
    return ModelArguments(checkpoint.manifest().arguments);
  }
};

bool all(const AdapterModule& /*module*/) { return true; }

const std::vector<std::string> kSeven = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                         "gate_proj", "up_proj", "down_proj"};

const MemoryTensor& find(const AdapterFolder& folder, const std::string& name) {
  for (const MemoryTensor& tensor : folder.tensors()) {
    if (tensor.name == name) return tensor;
  }
  throw InternalError("no tensor {}", name);
}

TEST(AdapterFolder, LlamaHasAPartForEachModule) {
  const TinyBase base(tiny_llama());
  auto adapters = base.adapters(lora_config(kSeven), all);
  adapters.write();
  const AdapterFolder folder = base.read();
  EXPECT_EQ(folder.tensors().size(), 2 * 7 * 2);
  EXPECT_EQ(folder.settings().rank, 2);
  EXPECT_EQ(folder.settings().alpha, 4.0);
  EXPECT_EQ(folder.settings().dropout, 0.1);
  EXPECT_EQ(folder.settings().scale(), 2.0);
  EXPECT_TRUE(folder.settings().layers.empty());
  EXPECT_THAT(folder.settings().targets,
              testing::ElementsAre("q", "k", "v", "o", "gate", "up", "down"));
  const auto& b = find(folder, "decoder.layers.1.self_attention.linear_qkv.lora.k.B.weight");
  EXPECT_EQ(b.shape, Shape({8, 2}));
  const auto& theirs = adapters.find("layers.1.self_attn.k_proj.lora_B.weight");
  EXPECT_EQ(b.values[6], theirs.at(3, 0));
  const auto& a = find(folder, "decoder.layers.0.mlp.linear_fc2.lora.down.A.weight");
  EXPECT_EQ(a.shape, Shape({2, 24}));
  EXPECT_EQ(a.values[25], adapters.find("layers.0.mlp.down_proj.lora_A.weight").at(1, 1));
  EXPECT_TRUE(folder.config().not_read.empty());
}

TEST(AdapterFolder, SomeLayersSomeModulesAndRankStabilized) {
  const TinyBase base(tiny_llama());
  Json config = lora_config({"q_proj", "v_proj"});
  config["use_rslora"] = true;
  config["layers_to_transform"] = 1;
  config["a_key_of_tomorrow"] = 3;
  config["init_lora_weights"] = "gaussian";
  base.adapters(config,
                [](const AdapterModule& module) {
                  return module.layer == 1 && (module.word == "q" || module.word == "v");
                })
      .write();
  const AdapterFolder folder = base.read();
  EXPECT_THAT(folder.settings().layers, testing::ElementsAre(1));
  EXPECT_THAT(folder.settings().targets, testing::ElementsAre("q", "v"));
  EXPECT_EQ(folder.settings().scale(), 4.0 / std::sqrt(2.0));
  EXPECT_THAT(folder.config().not_read, testing::ElementsAre("a_key_of_tomorrow"));
}

// The function stays what it was: zeros behind the smaller factors, and B times the quotient of the
// scales.
TEST(AdapterFolder, RanksAndAlphasOfSomeModules) {
  const TinyBase base(tiny_llama());
  Json config = lora_config({"q_proj", "v_proj"});
  config["rank_pattern"] = {{"v_proj", 1}};
  config["alpha_pattern"] = {{"^model.layers.0.*v_proj", 8}};
  auto adapters =
      base.adapters(config, [](const AdapterModule& m) { return m.word == "q" || m.word == "v"; });
  for (const std::int64_t layer : {0, 1}) {
    const std::string module = fmt::format("layers.{}.self_attn.v_proj", layer);
    auto& a = adapters.find(module + ".lora_A.weight");
    a = {a.name, a.dtype, {1, 16}, counted_bytes(DType::kF32, 16, 1)};
    auto& b = adapters.find(module + ".lora_B.weight");
    b = {b.name, b.dtype, {8, 1}, counted_bytes(DType::kF32, 8, 1)};
  }
  adapters.write();
  const AdapterFolder folder = base.read();
  EXPECT_EQ(folder.settings().rank, 2);
  EXPECT_EQ(folder.settings().scale(), 2.0);
  const auto& a = find(folder, "decoder.layers.0.self_attention.linear_qkv.lora.v.A.weight");
  EXPECT_EQ(a.shape, Shape({2, 16}));
  EXPECT_EQ(a.values[15], 16.0F);
  EXPECT_EQ(a.values[16], 0.0F);
  // Layer 0 has 8 / 1, layer 1 4 / 1, all others 4 / 2.
  const auto& b0 = find(folder, "decoder.layers.0.self_attention.linear_qkv.lora.v.B.weight");
  const auto& b1 = find(folder, "decoder.layers.1.self_attention.linear_qkv.lora.v.B.weight");
  EXPECT_EQ(b0.values[2], 2.0F * 4.0F);
  EXPECT_EQ(b1.values[2], 2.0F * 2.0F);
  EXPECT_EQ(b0.values[3], 0.0F);
}

TEST(AdapterFolder, HalfPrecisionIsRead) {
  const TinyBase base(tiny_llama());
  base.adapters(lora_config(kSeven), all, DType::kBF16).write();
  const AdapterFolder folder = base.read();
  EXPECT_EQ(folder.tensors()[0].values[3], 3.0F);
}

std::string fault_of(const TinyBase& base) {
  try {
    base.read();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "none";
}

TEST(AdapterFolder, WhatIsNotSupportedIsNamed) {
  const TinyBase base(tiny_llama());
  struct Case {
    std::string key;
    Json value;
    std::string message;
  };
  const std::vector<Case> cases = {{"use_dora", true, "'use_dora'"},
                                   {"bias", "lora_only", "'bias' is lora_only"},
                                   {"lora_bias", true, "'lora_bias'"},
                                   {"trainable_token_indices", {1, 2}, "'trainable_token_indices'"},
                                   {"target_parameters", {"x"}, "'target_parameters'"},
                                   {"layer_replication", {{0, 1}}, "'layer_replication'"},
                                   {"fan_in_fan_out", true, "'fan_in_fan_out'"},
                                   {"use_qalora", true, "'use_qalora'"},
                                   {"alora_invocation_tokens", {1}, "'alora_invocation_tokens'"},
                                   {"init_lora_weights", "pissa", "'init_lora_weights' is pissa"},
                                   {"init_lora_weights", "loftq", "'init_lora_weights' is loftq"},
                                   {"peft_type", "IA3", "'peft_type' is IA3"},
                                   {"task_type", "SEQ_CLS", "'task_type' is SEQ_CLS"}};
  for (const Case& one : cases) {
    Json config = lora_config(kSeven);
    config[one.key] = one.value;
    base.adapters(config, all).write();
    EXPECT_THAT(fault_of(base), HasSubstr(one.message)) << one.key;
    EXPECT_THAT(fault_of(base), testing::StartsWith("78")) << one.key;
  }
}

TEST(AdapterFolder, DamageIsNamed) {
  const TinyBase base(tiny_llama());
  const auto fault = [&](const std::function<void(TinyAdapters&)>& spoil) {
    auto adapters = base.adapters(lora_config(kSeven), all);
    spoil(adapters);
    adapters.write();
    return fault_of(base);
  };
  for (const char* key :
       {"peft_type", "task_type", "r", "lora_alpha", "lora_dropout", "target_modules"}) {
    const std::string text = fault([&](TinyAdapters& a) { a.config.erase(key); });
    EXPECT_THAT(text, HasSubstr("'" + std::string(key) + "' is missing"));
    EXPECT_THAT(text, testing::StartsWith("65"));
  }
  const auto expect = [&](const std::function<void(TinyAdapters&)>& spoil,
                          const std::string& message) {
    const std::string text = fault(spoil);
    EXPECT_THAT(text, HasSubstr(message));
    EXPECT_THAT(text, testing::StartsWith("65")) << text;
  };
  expect([](TinyAdapters& a) { a.tensors.pop_back(); },
         "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight is missing");
  expect([](TinyAdapters& a) { a.config["r"] = 4; }, "with rank 4 and this base model it is");
  expect([](TinyAdapters& a) { a.config["target_modules"].push_back("lm_head"); },
         "has no tensor of lm_head");
  expect([](TinyAdapters& a) { a.tensors.clear(); }, "has no adapters");
  expect(
      [](TinyAdapters& a) {
        a.tensors[0].name = "base_model.model.model.embed_tokens.lora_embedding_A";
      },
      "lora_embedding_A is no adapter of a linear");
  expect(
      [](TinyAdapters& a) {
        a.tensors[0].name = "base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight";
      },
      "base_layer.weight is no adapter of a linear");
  expect(
      [](TinyAdapters& a) {
        a.tensors[0].name = "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight";
      },
      "is of a module that the base model does not have");
  expect(
      [](TinyAdapters& a) {
        a.config["rank_pattern"] = {{"q_proj(", 2}};
      },
      "'q_proj(' is no regular expression");
  // Layers that differ.
  base.adapters(lora_config(kSeven),
                [](const AdapterModule& module) { return module.layer == 0 || module.word != "k"; })
      .write();
  EXPECT_THAT(fault_of(base), HasSubstr("layer 1 are of other modules than those of layer 0"));
  // Files that are not there.
  std::filesystem::remove(base.path("lora") / kAdapterConfigName);
  EXPECT_THAT(fault_of(base), HasSubstr("adapter_config.json is missing"));
  EXPECT_THAT(fault_of(base), testing::StartsWith("66"));
  base.adapters(lora_config(kSeven), all).write();
  std::filesystem::remove(base.path("lora") / kAdapterWeightsName);
  EXPECT_THAT(fault_of(base), HasSubstr("adapter_model.safetensors is missing"));
}

void expect_same_tensors(const TinyAdapters& expected, const std::filesystem::path& folder) {
  const MappedSafetensors file(folder / kAdapterWeightsName);
  EXPECT_EQ(file.entries().size(), expected.tensors.size());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const TinyTensor& tensor : expected.tensors) {
    const auto* entry = file.find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ(entry->shape, tensor.shape);
    const auto bytes = file.bytes(*entry);
    EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(tensor.bytes)))) << tensor.name;
  }
}

// Adds the whole tensors of these names, each element another number.
void add_whole(TinyAdapters& adapters, const TinyBase& base,
               const std::vector<std::string>& names) {
  std::int64_t first = 1000;
  for (const TensorRow& row : base.model.table().rows) {
    for (const TensorPart& part : row.parts) {
      if (std::ranges::find(names, part.name) == names.end()) continue;
      adapters.tensors.push_back({"base_model.model." + part.name, DType::kF32, part.shape,
                                  counted_bytes(DType::kF32, part.shape.count(), first)});
      first += part.shape.count();
    }
  }
}

// modules_to_save: what stands whole in the folder counts instead of the base's, and is written
// again.
TEST(Adapters, WholeModulesGoInAndOut) {
  const TinyBase base(tiny_llama());
  Json config = lora_config({"q_proj"});
  config["modules_to_save"] = {"embed_tokens", "input_layernorm", "mlp"};
  auto adapters = base.adapters(config, [](const auto& module) { return module.word == "q"; });
  add_whole(adapters, base,
            {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
             "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"});
  adapters.write();
  const AdapterFolder folder = base.read();
  EXPECT_EQ(folder.settings().arguments().text("--trainable"),
            "^embedding.word_embeddings.weight$ ^decoder.layers.0.input_layernorm.weight$ "
            "^decoder.layers.1.mlp.linear_fc1.weight$");
  const MemoryTensor& words = find(folder, "embedding.word_embeddings.weight");
  EXPECT_EQ(words.values[17], adapters.find("embed_tokens.weight").at(1, 1));
  const CheckpointReader checkpoint = base.imported(folder);
  std::vector<std::string> trained = folder.settings().trained;
  const auto whole = written_modules(checkpoint, trained, base.model.table());
  EXPECT_FALSE(whole.are_tied);
  Adapters(checkpoint, base.settings(checkpoint))
      .write_folder(base.path("back"), base.model.table(), whole);
  expect_same_tensors(adapters, base.path("back"));
  const Json written = Json::parse(read_file(base.path("back") / kAdapterConfigName));
  EXPECT_EQ(written["modules_to_save"],
            Json({"model.embed_tokens", "model.layers.0.input_layernorm",
                  "model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj"}));
  // A module has an adapter or is whole.
  trained.emplace_back("decoder.layers.0.self_attention.linear_qkv.weight");
  const auto both = written_modules(checkpoint, trained, base.model.table());
  EXPECT_THAT(error_of<ConfigError>([&] {
                Adapters(checkpoint, base.settings(checkpoint))
                    .write_folder(base.path("both"), base.model.table(), both);
              }),
              HasSubstr("was trained whole and has an adapter too"));
}

// Both of two tied tensors are written, as peft needs them, and read.
TEST(Adapters, TiedTensorsAreWrittenTwice) {
  Json model = tiny_llama();
  model["tie_word_embeddings"] = true;
  const TinyBase base(model);
  Json config = lora_config(kSeven);
  config["modules_to_save"] = {"embed_tokens"};
  auto adapters = base.adapters(config, all);
  add_whole(adapters, base, {"model.embed_tokens.weight"});
  adapters.write();
  EXPECT_THAT(fault_of(base), HasSubstr("the base ties model.embed_tokens.weight and lm_head"));
  TinyTensor head = adapters.tensors.back();
  head.name = "base_model.model.lm_head.weight";
  adapters.tensors.push_back(head);
  adapters.write();
  const AdapterFolder folder = base.read();
  const CheckpointReader checkpoint = base.imported(folder);
  const auto whole = written_modules(checkpoint, folder.settings().trained, base.model.table());
  EXPECT_TRUE(whole.are_tied);
  EXPECT_THAT(whole.names, testing::ElementsAre("lm_head", "model.embed_tokens"));
  Adapters(checkpoint, base.settings(checkpoint))
      .write_folder(base.path("back"), base.model.table(), whole);
  expect_same_tensors(adapters, base.path("back"));
  adapters.tensors.back().bytes[0] ^= 1;
  adapters.write();
  EXPECT_THAT(fault_of(base), HasSubstr("and they differ here"));
}

TEST(AdapterFolder, FaultsOfWholeModulesAreNamed) {
  const TinyBase base(tiny_llama());
  Json config = lora_config({"v_proj"});
  const auto fault = [&](const std::vector<std::string>& listed,
                         const std::vector<std::string>& names) {
    config["modules_to_save"] = listed;
    auto adapters = base.adapters(config, [](const auto& module) { return module.word == "v"; });
    add_whole(adapters, base, names);
    adapters.write();
    return fault_of(base);
  };
  EXPECT_THAT(fault({"lm_head"}, {}), HasSubstr("has no tensor of lm_head"));
  EXPECT_THAT(fault({"q_proj"}, {"model.layers.0.self_attn.q_proj.weight"}),
              HasSubstr("but not model.layers.0.self_attn.k_proj.weight"));
  EXPECT_THAT(fault({}, {"model.layers.0.self_attn.v_proj.weight"}),
              HasSubstr("is whole and has an adapter too"));
}

TEST(Adapters, WhatComesInGoesOut) {
  for (const Json& model : {tiny_llama(), tiny_gpt2()}) {
    const TinyBase base(model);
    const bool is_gpt2 = model["model_type"] == "gpt2";
    auto adapters = base.adapters(
        lora_config(is_gpt2 ? std::vector<std::string>{"c_attn", "c_proj", "c_fc"} : kSeven), all);
    if (is_gpt2) adapters.config["fan_in_fan_out"] = true;
    adapters.write();
    const AdapterFolder folder = base.read();
    const CheckpointReader checkpoint = base.imported(folder);
    EXPECT_EQ(checkpoint.manifest().base->path, "../../iter_0000000");
    EXPECT_NE(checkpoint.find("embedding.word_embeddings.weight"), nullptr);
    const Adapters read(checkpoint, base.settings(checkpoint));
    EXPECT_EQ(read.write_folder(base.path("back"), base.model.table()),
              adapters.tensors.size() / 2);
    expect_same_tensors(adapters, base.path("back"));
    const Json written = Json::parse(read_file(base.path("back") / kAdapterConfigName));
    EXPECT_EQ(written["r"], 2);
    EXPECT_EQ(written["lora_alpha"], 4);
    EXPECT_EQ(written["fan_in_fan_out"], is_gpt2);
    EXPECT_TRUE(written["rank_pattern"].empty());
    // And it is read as what it was.
    EXPECT_EQ(AdapterFolder(base.path("back"), base.model.settings()).tensors()[1].values,
              folder.tensors()[1].values);
    // The directory moves with the base in it.
    std::filesystem::rename(base.path("save"), base.path("moved"));
    EXPECT_NE(open_with_base(base.path("moved/adapters"), Verify::kYes)
                  .find("embedding.word_embeddings.weight"),
              nullptr);
  }
}

// The weights of a merged model are those of the base and the product of the factors.
TEST(Adapters, MergedWeights) {
  for (const Json& model : {tiny_llama(), tiny_gpt2()}) {
    const TinyBase base(model);
    const bool is_gpt2 = model["model_type"] == "gpt2";
    auto adapters = base.adapters(
        lora_config(is_gpt2 ? std::vector<std::string>{"c_attn"}
                            : std::vector<std::string>{"k_proj", "up_proj"}),
        [](const AdapterModule& m) { return m.word == "qkv" || m.word == "k" || m.word == "up"; });
    adapters.write();
    const AdapterFolder folder = base.read();
    const CheckpointReader checkpoint = base.imported(folder);
    const Adapters read(checkpoint, base.settings(checkpoint));
    const Export merged(checkpoint, base.model.settings(), base.model.architecture(), std::nullopt,
                        &read);
    ASSERT_TRUE(merged.write(base.path("merged"), {}));
    const MappedSafetensors file(base.path("merged") / kWeightsName);
    for (const TensorRow& row : base.model.table().rows) {
      for (const TensorPart& part : row.parts) {
        const auto& before = const_cast<TinyBase&>(base).folder.find(part.name);
        const auto* entry = file.find(part.name);
        ASSERT_NE(entry, nullptr);
        std::vector<float> after(static_cast<std::size_t>(entry->shape.count()));
        std::memcpy(after.data(), file.bytes(*entry).data(), after.size() * 4);
        const std::string module = part.name.substr(0, part.name.rfind('.'));
        const bool is_adapted = std::ranges::any_of(adapters.tensors, [&](const TinyTensor& t) {
          return part.name.ends_with(".weight") &&
                 t.name.find(module + ".lora_A") != std::string::npos;
        });
        const std::int64_t columns = part.shape.rank() == 1 ? part.shape[0] : part.shape[1];
        for (std::int64_t i = 0; i < part.shape.count(); ++i) {
          double expected = before.at(i / columns, i % columns);
          if (is_adapted) {
            const std::int64_t out = part.transposed ? i % columns : i / columns;
            const std::int64_t in = part.transposed ? i / columns : i % columns;
            for (std::int64_t r = 0; r < kRank; ++r) {
              expected += 2.0 * adapters.find(module + ".lora_B.weight").at(out, r) *
                          adapters.find(module + ".lora_A.weight").at(r, in);
            }
          }
          ASSERT_EQ(after[static_cast<std::size_t>(i)], static_cast<float>(expected))
              << part.name << " " << i;
        }
      }
    }
  }
}

// One A for the fused rows becomes equal copies; parts of one module of theirs become one adapter
// of the sum of the ranks.
TEST(Adapters, FusedAndSeparateParts) {
  const auto write = [](const TinyBase& base, std::vector<MemoryTensor> tensors) {
    Manifest manifest;
    manifest.arguments = base.model.settings().arguments();
    const ModelArguments flags = AdapterSettings{.rank = 1, .alpha = 3}.arguments();
    for (const auto& [flag, value] : flags.arguments()) manifest.arguments[flag] = value;
    auto reader = reader_of(std::move(tensors));
    std::filesystem::remove_all(base.path("out"));
    return Adapters(*reader, ModelArguments(manifest.arguments))
        .write_folder(base.path("out"), base.model.table());
  };
  const auto numbers = [](std::int64_t count, float first) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
    return values;
  };
  const std::string linear = "decoder.layers.0.self_attention.linear_qkv.lora.";
  const TinyBase llama(tiny_llama());
  EXPECT_EQ(write(llama, {{linear + "qkv.A.weight", {1, 16}, numbers(16, 1)},
                          {linear + "qkv.B.weight", {32, 1}, numbers(32, 0)}}),
            3U);
  const AdapterFolder back(llama.path("out"), llama.model.settings());
  EXPECT_THAT(back.settings().targets, testing::ElementsAre("q", "k", "v"));
  EXPECT_THAT(back.settings().layers, testing::ElementsAre(0));
  EXPECT_EQ(find(back, linear + "q.A.weight").values, numbers(16, 1));
  EXPECT_EQ(find(back, linear + "v.A.weight").values, numbers(16, 1));
  // Of each group 8 rows are queries, 4 its key, 4 its value.
  EXPECT_EQ(find(back, linear + "k.B.weight").values,
            (std::vector<float>{8, 9, 10, 11, 24, 25, 26, 27}));

  const TinyBase gpt2(tiny_gpt2());
  EXPECT_EQ(write(gpt2, {{linear + "q.A.weight", {1, 16}, numbers(16, 1)},
                         {linear + "q.B.weight", {16, 1}, numbers(16, 100)},
                         {linear + "v.A.weight", {1, 16}, numbers(16, 50)},
                         {linear + "v.B.weight", {16, 1}, numbers(16, 200)}}),
            1U);
  const Json config = Json::parse(read_file(gpt2.path("out") / kAdapterConfigName));
  EXPECT_EQ(config["rank_pattern"]["c_attn"], 2);
  EXPECT_EQ(config["alpha_pattern"]["c_attn"], 6.0);
  const AdapterFolder fused(gpt2.path("out"), gpt2.model.settings());
  EXPECT_EQ(fused.settings().scale(), 3.0);
  const auto& b = find(fused, linear + "qkv.B.weight");
  // Ours has of each head its query, key and value rows.
  EXPECT_EQ(b.values[0], 100.0F);
  EXPECT_EQ(b.values[1], 0.0F);
  EXPECT_EQ(b.values[2 * 4], 0.0F);
  EXPECT_EQ(b.values[2 * 8 + 1], 200.0F);
  EXPECT_EQ(b.values[2 * 12], 104.0F);
}

TEST(Adapters, AnotherBaseIsRefusedWithBothDigests) {
  const TinyBase base(tiny_llama());
  base.adapters(lora_config(kSeven), all).write();
  const AdapterFolder folder = base.read();
  base.imported(folder);
  // The same weights in another place, and others.
  TinyFolder other(base.path("other"), tiny_llama(), DType::kBF16);
  other.write();
  write_import(Import(base.path("base")), {.directory = base.path("same")});
  write_import(Import(base.path("other")), {.directory = base.path("another")});
  const auto open = [&](const char* where) {
    return open_with_base(base.path("save/adapters"), Verify::kYes, base.path(where));
  };
  EXPECT_NE(open("same").find("decoder.final_layernorm.weight"), nullptr);
  const std::string message = error_of<ConfigError>([&] { open("another"); });
  EXPECT_THAT(message, HasSubstr("the digest of its weights is "));
  EXPECT_THAT(message, HasSubstr("it is another model"));
  EXPECT_THAT(error_of<InputMissingError>([&] { open("nowhere"); }), HasSubstr("--lora-base"));
}

}  // namespace
}  // namespace phalanx::hugging_face
