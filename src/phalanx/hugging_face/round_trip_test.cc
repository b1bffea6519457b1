// Import and export of whole folders: where every element goes, and that all of them come back.

#include <gmock/gmock.h>

#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/hugging_face/export.h"
#include "phalanx/hugging_face/test_support.h"
#include "phalanx/hugging_face/write_import.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RoundTrip : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return directory_.path() / name; }

  CheckpointReader imported(const TinyFolder& folder) const {
    fs::remove_all(at("checkpoint"));
    EXPECT_TRUE(write_import(Import(folder.path), {.directory = at("checkpoint")}));
    EXPECT_FALSE(fs::exists(at("checkpoint.partial")));
    return CheckpointReader::open(at("checkpoint"));
  }
  static ModelArguments settings_of(const CheckpointReader& checkpoint) {
    return ModelArguments(checkpoint.manifest().arguments);
  }
  fs::path exported(const CheckpointReader& checkpoint, const ExportOptions& options = {}) const {
    fs::remove_all(at("out"));
    const ModelArguments settings = settings_of(checkpoint);
    const Export model(checkpoint, settings, architecture_for(settings), options.dtype);
    EXPECT_TRUE(model.write(at("out"), options));
    return at("out");
  }
  static void expect_same_tensors(const TinyFolder& expected, const fs::path& path) {
    const Folder folder(path);
    EXPECT_EQ(folder.tensors().size(), expected.tensors.size());
    for (const TinyTensor& tensor : expected.tensors) {
      const auto found = folder.tensors().find(tensor.name);
      ASSERT_NE(found, folder.tensors().end()) << tensor.name;
      EXPECT_EQ(found->second.entry->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(found->second.entry->dtype, tensor.dtype) << tensor.name;
      EXPECT_EQ(testing_support::as_text(found->second.bytes()), tensor.bytes) << tensor.name;
    }
  }
  static TinyTensor ours(const CheckpointReader& checkpoint, const std::string& name) {
    const auto* entry = checkpoint.find(name);
    if (entry == nullptr) throw InternalError("no tensor {}", name);
    return {name, entry->dtype, entry->shape,
            testing_support::as_text(testing_support::bytes_of(checkpoint, *entry))};
  }

  TemporaryDirectory directory_{"hugging_face_round_trip"};
};

// The published BERT: config.json names one of its heads, and norms have gamma and beta.
TEST_F(RoundTrip, APublishedBert) {
  const Json config = {{"architectures", {"BertForMaskedLM"}},
                       {"model_type", "bert"},
                       {"hidden_size", 16},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"intermediate_size", 24},
                       {"max_position_embeddings", 10},
                       {"vocab_size", 32}};
  const TinyFolder now(at("in"), config);
  TinyFolder folder = now;
  int renamed = 0;
  for (TinyTensor& tensor : folder.tensors) {
    for (const auto& [name, old] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                                    std::pair("LayerNorm.bias", "LayerNorm.beta")}) {
      const std::size_t begin = tensor.name.find(name);
      if (begin == std::string::npos) continue;
      tensor.name.replace(begin, std::string_view(name).size(), old);
      ++renamed;
    }
  }
  EXPECT_EQ(renamed, 2 * (1 + 2 * 2 + 1));
  folder.write();
  const fs::path out = exported(imported(folder));
  expect_same_tensors(now, out);
  EXPECT_EQ(Json::parse(read_file(out / kConfigName)).at("architectures"),
            Json({"BertForMaskedLM"}));

  folder.remove("cls.seq_relationship.weight");
  folder.write();
  EXPECT_THAT(error_of<DataError>([&] { const Import model(folder.path); }),
              testing::AllOf(HasSubstr("cls.seq_relationship.weight"),
                             HasSubstr("both heads of pretraining")));
}

// Versions that do not know a model, or compute another one, are older than what is named.
TEST_F(RoundTrip, TheVersionOfTransformersIsThatWhichTheModelNeeds) {
  const auto version_of = [&](Json config, const Json& changes = Json::object()) {
    config.update(changes);
    const TinyFolder folder(at("in"), config);
    folder.write();
    const fs::path out = exported(imported(folder));
    const Json version = Json::parse(read_file(out / kConfigName)).at("transformers_version");
    EXPECT_EQ(Json::parse(read_file(out / kGenerationName)).at("transformers_version"), version);
    fs::remove_all(at("in"));
    return version.get<std::string>();
  };
  const Json mistral = tiny_of("MistralForCausalLM", "mistral");
  const Json qwen2 = tiny_of("Qwen2ForCausalLM", "qwen2");
  const Json linear = {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}};
  const Json yarn = {
      {"rope_scaling",
       {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 32}}}};
  EXPECT_EQ(version_of(tiny_gpt2()), "4.44.0");
  EXPECT_EQ(version_of(tiny_llama()), "4.44.0");
  EXPECT_EQ(version_of(tiny_llama(), {{"head_dim", 6}}), "4.45.0");
  EXPECT_EQ(version_of(tiny_llama(), linear), "4.44.0");
  EXPECT_EQ(version_of(tiny_llama(), yarn), "4.51.0");
  EXPECT_EQ(version_of(mistral), "4.44.0");
  EXPECT_EQ(version_of(mistral, linear), "4.48.0");
  EXPECT_EQ(version_of(tiny_mixtral()), "4.44.0");
  EXPECT_EQ(version_of(tiny_mixtral(), {{"head_dim", 6}}), "4.47.0");
  EXPECT_EQ(version_of(qwen2), "4.44.0");
  EXPECT_EQ(version_of(qwen2, linear), "4.45.0");
  EXPECT_EQ(version_of(tiny_of("Qwen3ForCausalLM", "qwen3"), {{"head_dim", 4}}), "4.51.0");
  EXPECT_EQ(version_of(tiny_qwen3_moe()), "4.51.0");
}

// Of generation_config.json what is not understood comes out as it went in.
TEST_F(RoundTrip, KeysOfGenerationAreKept) {
  const TinyFolder folder(at("in"), tiny_llama());
  folder.write();
  Json generation = {{"bos_token_id", 1},          {"eos_token_id", {2, 7}},
                     {"do_sample", true},          {"temperature", 0.6},
                     {"pad_token_id", 9},          {"top_p", 0.95},
                     {"suppress_tokens", nullptr}, {"transformers_version", "4.44.0"}};
  put_file(at("in") / kGenerationName, generation.dump());
  const CheckpointReader checkpoint = imported(folder);
  EXPECT_EQ(Json::parse(read_file(exported(checkpoint) / kGenerationName)), generation);

  ModelArguments settings = settings_of(checkpoint);
  settings.set(kGenerationOthers, "[1]");
  EXPECT_THROW(Export(checkpoint, settings, kLlama, std::nullopt).generation_json(), DataError);

  // A number of Python's is told and left out; the rest stays.
  std::string text = generation.dump();
  text.insert(text.size() - 1, R"(,"typical_p":NaN)");
  put_file(at("in") / kGenerationName, text);
  testing::internal::CaptureStderr();
  const CheckpointReader with_nan = imported(folder);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("'typical_p' has NaN"));
  EXPECT_EQ(Json::parse(settings_of(with_nan).text(kGenerationOthers)),
            Json::parse(settings_of(checkpoint).text(kGenerationOthers)));

  generation["long"] = std::string(std::size_t{1} << 18, 'x');
  put_file(at("in") / kGenerationName, generation.dump());
  EXPECT_FALSE(settings_of(imported(folder)).has(kGenerationOthers));
}

TEST_F(RoundTrip, LlamasTensorsFindTheirPlaces) {
  TinyFolder folder(at("in"), tiny_llama());
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  const std::string layer = "decoder.layers.1.";
  const std::string theirs = "model.layers.1.";
  // Two groups, each two query heads of 4 rows, a key and a value.
  const TinyTensor qkv = ours(checkpoint, layer + "self_attention.linear_qkv.weight");
  ASSERT_EQ(qkv.shape, (Shape{32, 16}));
  for (std::int64_t row = 0; row < 32; ++row) {
    const std::int64_t group = row / 16;
    const std::int64_t within = row % 16;
    const bool is_query = within < 8;
    const std::string kind = is_query ? "q" : within < 12 ? "k" : "v";
    const TinyTensor& source = folder.find(theirs + "self_attn." + kind + "_proj.weight");
    const std::int64_t from = is_query ? group * 8 + within : group * 4 + within % 4;
    for (std::int64_t column = 0; column < 16; ++column) {
      ASSERT_EQ(qkv.at(row, column), source.at(from, column)) << row << " " << column;
    }
  }
  const TinyTensor fc1 = ours(checkpoint, layer + "mlp.linear_fc1.weight");
  EXPECT_EQ(fc1.bytes, folder.find(theirs + "mlp.gate_proj.weight").bytes +
                           folder.find(theirs + "mlp.up_proj.weight").bytes);
  const std::vector<std::pair<std::string, std::string>> plain = {
      {"embedding.word_embeddings.weight", "model.embed_tokens.weight"},
      {layer + "self_attention.linear_proj.weight", theirs + "self_attn.o_proj.weight"},
      {layer + "mlp.linear_fc2.weight", theirs + "mlp.down_proj.weight"},
      {layer + "input_layernorm.weight", theirs + "input_layernorm.weight"},
      {layer + "pre_mlp_layernorm.weight", theirs + "post_attention_layernorm.weight"},
      {"decoder.final_layernorm.weight", "model.norm.weight"},
      {"output_layer.weight", "lm_head.weight"}};
  for (const auto& [our_name, their_name] : plain) {
    EXPECT_EQ(ours(checkpoint, our_name).bytes, folder.find(their_name).bytes) << our_name;
  }
  EXPECT_EQ(checkpoint.manifest().tensors.size(), 15U);
  EXPECT_FALSE(checkpoint.has_optimizer());
  EXPECT_EQ(checkpoint.manifest().iteration, 0);
  const auto& arguments = checkpoint.manifest().arguments;
  EXPECT_EQ(arguments.at("generation.eos_token_ids"), "2 7");
  EXPECT_EQ(arguments.at("run.family"), "gpt");
  EXPECT_FALSE(arguments.contains("--bf16"));
}

TEST_F(RoundTrip, Gpt2sTensorsFindTheirPlaces) {
  TinyFolder folder(at("in"), tiny_gpt2());
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  const TinyTensor& stored = folder.find("transformer.h.1.attn.c_attn.weight");
  const TinyTensor& bias = folder.find("transformer.h.1.attn.c_attn.bias");
  const TinyTensor qkv = ours(checkpoint, "decoder.layers.1.self_attention.linear_qkv.weight");
  const TinyTensor qkv_bias = ours(checkpoint, "decoder.layers.1.self_attention.linear_qkv.bias");
  // Theirs [in, 3 x heads x 4], ours [heads x 3 x 4, in].
  for (std::int64_t row = 0; row < 48; ++row) {
    const std::int64_t head = row / 12;
    const std::int64_t kind = row % 12 / 4;
    const std::int64_t from = kind * 16 + head * 4 + row % 4;
    EXPECT_EQ(qkv_bias.at(0, row), bias.at(0, from)) << row;
    for (std::int64_t column = 0; column < 16; ++column) {
      ASSERT_EQ(qkv.at(row, column), stored.at(column, from)) << row << " " << column;
    }
  }
  // Square, and transposed all the same.
  const TinyTensor proj = ours(checkpoint, "decoder.layers.0.self_attention.linear_proj.weight");
  EXPECT_EQ(proj.at(3, 5), folder.find("transformer.h.0.attn.c_proj.weight").at(5, 3));
  const TinyTensor fc2 = ours(checkpoint, "decoder.layers.0.mlp.linear_fc2.weight");
  EXPECT_EQ(fc2.shape, (Shape{16, 64}));
  EXPECT_EQ(fc2.at(3, 50), folder.find("transformer.h.0.mlp.c_proj.weight").at(50, 3));
  expect_same_tensors(folder, exported(checkpoint));
}

TEST_F(RoundTrip, EveryArchitectureComesBack) {
  Json biased = tiny_llama();
  biased.update({{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", true}});
  Json wide = tiny_llama();
  wide.update({{"head_dim", 6}, {"num_key_value_heads", 1}});
  Json qwen2 = tiny_of("Qwen2ForCausalLM", "qwen2");
  qwen2.update({{"use_sliding_window", true}, {"sliding_window", 3}, {"max_window_layers", 1}});
  Json mistral = tiny_of("MistralForCausalLM", "mistral");
  mistral["sliding_window"] = 5;
  Json gpt2 = tiny_gpt2();
  gpt2.update({{"tie_word_embeddings", false}, {"n_inner", 40}});
  Json qwen3 = tiny_of("Qwen3ForCausalLM", "qwen3");
  qwen3.update({{"head_dim", 8}, {"use_sliding_window", false}});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Json& json : {tiny_llama(), biased, wide, qwen2, mistral, gpt2, qwen3,
                             tiny_mixtral(), tiny_qwen2_moe(), tiny_qwen3_moe()}) {
      const TinyFolder folder(at("in"), json, dtype);
      folder.write();
      const fs::path out = exported(imported(folder));
      expect_same_tensors(folder, out);
      const Json config = Json::parse(read_file(out / kConfigName));
      for (const auto& [key, value] : json.items()) {
        EXPECT_EQ(config.at(key), value) << key << " of " << json.dump();
      }
      EXPECT_EQ(config.at("torch_dtype"), dtype == DType::kF32 ? "float32" : "bfloat16");
      EXPECT_FALSE(fs::exists(out / ".lock"));
    }
  }
}

TEST_F(RoundTrip, MixedTypesStayAndFusedOnesTakeTheWider) {
  TinyFolder folder(at("in"), tiny_llama(), DType::kBF16);
  const auto widen = [&](const std::string& name) {
    TinyTensor& tensor = folder.find(name);
    tensor.dtype = DType::kF32;
    tensor.bytes = counted_bytes(DType::kF32, tensor.shape.count(), 0);
  };
  widen("model.norm.weight");
  widen("model.layers.0.self_attn.k_proj.weight");
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  EXPECT_EQ(checkpoint.find("decoder.final_layernorm.weight")->dtype, DType::kF32);
  EXPECT_EQ(checkpoint.find("output_layer.weight")->dtype, DType::kBF16);
  const TinyTensor qkv = ours(checkpoint, "decoder.layers.0.self_attention.linear_qkv.weight");
  ASSERT_EQ(qkv.dtype, DType::kF32);
  EXPECT_EQ(qkv.at(8, 3), 3.0F);
  bfloat16 query;
  std::memcpy(&query, folder.find("model.layers.0.self_attn.q_proj.weight").bytes.data() + 4, 2);
  EXPECT_EQ(qkv.at(0, 2), to_float(query));
}

TEST_F(RoundTrip, ShardsAreReadAndWritten) {
  const TinyFolder folder(at("in"), tiny_llama());
  folder.write_shards(3, [](Json&) {});
  const CheckpointReader checkpoint = imported(folder);
  const fs::path out = exported(checkpoint, {.max_shard_bytes = 6000});
  expect_same_tensors(folder, out);
  EXPECT_FALSE(fs::exists(out / kWeightsName));
  const Json index = Json::parse(read_file(out / kIndexName));
  std::size_t bytes = 0;
  for (const TinyTensor& tensor : folder.tensors) bytes += tensor.bytes.size();
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes);
  EXPECT_EQ(index.at("weight_map").at("model.embed_tokens.weight"),
            "model-00001-of-00004.safetensors");
  const Folder written(out);
  for (const auto& file : written.files()) {
    std::int64_t of_file = 0;
    for (const auto& entry : file->entries()) of_file += entry.bytes;
    EXPECT_LE(of_file, 6000);
    EXPECT_EQ(file->metadata().at("format"), "pt");
  }
}

TEST_F(RoundTrip, OldNamesAndMasksAndTwins) {
  TinyFolder folder(at("in"), tiny_gpt2());
  const TinyFolder plain = folder;
  for (TinyTensor& tensor : folder.tensors)
    tensor.name.erase(0, std::string("transformer.").size());
  folder.tensors.push_back({"h.0.attn.bias", DType::kU8, {1, 1, 8, 8}, std::string(64, '\1')});
  folder.tensors.push_back({"h.0.attn.masked_bias", DType::kF32, {}, std::string(4, '\1')});
  TinyTensor head = folder.find("wte.weight");
  head.name = "lm_head.weight";
  folder.tensors.push_back(head);
  folder.write();
  const Import model(folder.path);
  EXPECT_THAT(model.dropped(), testing::UnorderedElementsAre(
                                   "h.0.attn.bias", "h.0.attn.masked_bias", "lm_head.weight"));
  expect_same_tensors(plain, exported(imported(folder)));
}

TEST_F(RoundTrip, AMaskOfBooleansIsDropped) {
  TinyFolder folder(at("in"), tiny_gpt2());
  folder.tensors.push_back(
      {"transformer.h.0.attn.bias", DType::kU8, {1, 1, 8, 8}, std::string(64, '\1')});
  folder.write();
  std::string file = read_file(folder.path / kWeightsName);
  const std::size_t type = file.find("\"U8\"");
  ASSERT_NE(type, std::string::npos);
  file.replace(type, 4, "\"BOOL\"");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  length += 2;
  std::memcpy(file.data(), &length, sizeof(length));
  put_file(folder.path / kWeightsName, file);
  EXPECT_THAT(Import(folder.path).dropped(), testing::ElementsAre("transformer.h.0.attn.bias"));
}

// transformers 5 says of every T5 that its output matrix is the word table.
TEST_F(RoundTrip, AT5sOutputMatrixOfItsOwn) {
  Json json = {{"architectures", {"T5ForConditionalGeneration"}},
               {"model_type", "t5"},
               {"d_model", 16},
               {"d_kv", 6},
               {"num_heads", 3},
               {"d_ff", 24},
               {"num_layers", 1},
               {"vocab_size", 32},
               {"tie_word_embeddings", false}};
  TinyFolder folder(at("in"), json);
  folder.config["tie_word_embeddings"] = true;
  folder.write();
  EXPECT_THROW(Import{folder.path}, DataError);
  folder.config["scale_decoder_outputs"] = false;
  folder.write();
  EXPECT_FALSE(Import(folder.path).settings().is_tied());
  folder.find("lm_head.weight").bytes = folder.find("shared.weight").bytes;
  folder.write();
  EXPECT_TRUE(Import(folder.path).settings().is_tied());
}

TEST_F(RoundTrip, OtherTypesAreTheNearestOrThoseOfMainParameters) {
  TinyFolder folder(at("in"), tiny_gpt2());
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  const Folder narrow(exported(checkpoint, {.dtype = DType::kBF16}));
  const auto& wpe = narrow.tensors().at("transformer.wpe.weight");
  const TinyTensor& stored = folder.find("transformer.wpe.weight");
  bfloat16 value;
  std::memcpy(&value, wpe.bytes().data() + 2 * 20, 2);
  EXPECT_EQ(value.bits, to_bfloat16(stored.at(1, 4)).bits);

  // A trained checkpoint: weights in bf16, and what they were rounded from.
  Arena arena("trained", 1 << 20);
  std::vector<GlobalTensor> tensors;
  ModelArguments settings = settings_of(checkpoint);
  const TensorTable table = kGpt2.tensors(settings);
  for (const TensorRow& row : table.rows) {
    const Tensor weights = arena.allocate(DType::kBF16, row.shape);
    std::memset(weights.data(), 0, static_cast<std::size_t>(weights.bytes()));
    tensors.push_back(whole_tensor(row.name, weights));
    tensors.push_back(whole_tensor(std::string(kMainParamPrefix) + row.name,
                                   testing_support::filled(arena, row.shape, 0.5F)));
  }
  Manifest manifest = testing_support::example_manifest(4);
  manifest.arguments = settings.arguments();
  save_checkpoint({.directory = at("trained")}, manifest, tensors);
  const CheckpointReader trained = CheckpointReader::open(at("trained"));
  const Folder exact(exported(trained, {.dtype = DType::kF32}));
  float first = 0;
  std::memcpy(&first, exact.tensors().at("transformer.wte.weight").bytes().data() + 4, 4);
  EXPECT_EQ(first, 1.5F);
  const Folder as_stored(exported(trained));
  EXPECT_EQ(as_stored.tensors().at("transformer.wte.weight").entry->dtype, DType::kBF16);
}

TEST_F(RoundTrip, InterleavedRotationsBecomeHalves) {
  TinyFolder folder(at("in"), tiny_llama());
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  ModelArguments settings = settings_of(checkpoint);
  settings.set("--rotary-interleaved", true);
  const Export model(checkpoint, settings, architecture_for(settings), std::nullopt);
  ASSERT_TRUE(model.write(at("out"), {}));
  const Folder out(at("out"));
  const auto& source = folder.find("model.layers.0.self_attn.k_proj.weight");
  const auto bytes = out.tensors().at(source.name).bytes();
  // Rows 0 1 2 3 of a head become 0 2 1 3; values stay.
  for (const auto& [theirs, ours] : {std::pair{5, 6}, {6, 5}, {4, 4}, {7, 7}}) {
    float value = 0;
    std::memcpy(&value, bytes.data() + theirs * 64, 4);
    EXPECT_EQ(value, source.at(ours, 0)) << theirs;
  }
  EXPECT_EQ(
      testing_support::as_text(out.tensors().at("model.layers.0.self_attn.v_proj.weight").bytes()),
      folder.find("model.layers.0.self_attn.v_proj.weight").bytes);
}

TEST_F(RoundTrip, StoppedOrRefusedItLeavesNothing) {
  const TinyFolder folder(at("in"), tiny_llama());
  folder.write();
  const Import model(folder.path);
  EXPECT_FALSE(
      write_import(model, {.directory = at("checkpoint"), .stop_requested = [] { return true; }}));
  EXPECT_FALSE(fs::exists(at("checkpoint")) || fs::exists(at("checkpoint.partial")));
  const CheckpointReader checkpoint = imported(folder);
  const ModelArguments settings = settings_of(checkpoint);
  const Export outward(checkpoint, settings, kLlama, std::nullopt);
  EXPECT_FALSE(outward.write(at("out"), {.stop_requested = [] { return true; }}));
  EXPECT_FALSE(fs::exists(at("out")) || fs::exists(at("out.partial")));

  // What is there stays as it is.
  EXPECT_THROW(write_import(model, {.directory = at("in")}), OutputError);
  EXPECT_THROW(outward.write(at("in"), {}), OutputError);
  put_file(at("file"), "");
  EXPECT_THROW(write_import(model, {.directory = at("file")}), OutputError);
  fs::create_directories(at("taken.partial/of_somebody"));
  EXPECT_THROW(write_import(model, {.directory = at("taken")}), OutputError);
  EXPECT_TRUE(fs::exists(at("taken.partial/of_somebody")));
  // But for an empty directory, and what a killed process left.
  fs::create_directories(at("empty"));
  fs::create_directories(at("empty.partial/iter_0000000"));
  put_file(at("empty.partial/.lock"), "");
  EXPECT_TRUE(write_import(model, {.directory = at("empty")}));
  EXPECT_TRUE(fs::exists(at("empty/iter_0000000/manifest.json")));
}

TEST_F(RoundTrip, ExportRefusesAnotherModelsCheckpoint) {
  const TinyFolder folder(at("in"), tiny_llama());
  folder.write();
  const CheckpointReader checkpoint = imported(folder);
  const auto expect_fault = [&](ModelArguments settings, const Architecture& architecture,
                                const std::string& mention) {
    EXPECT_THAT(error_of<ConfigError>([&] {
                  const Export model(checkpoint, std::move(settings), architecture, std::nullopt);
                }),
                HasSubstr(mention));
  };
  ModelArguments settings = settings_of(checkpoint);
  expect_fault(settings, kGpt2, "--normalization");
  settings.set("--num-layers", 1);
  expect_fault(settings, kLlama, "decoder.layers.1");
  settings.set("--num-layers", 3);
  expect_fault(settings, kLlama, "decoder.layers.2");
  settings.set("--num-layers", 2);
  settings.set("--ffn-hidden-size", 23);
  expect_fault(settings, kLlama, "linear_fc1");
}

}  // namespace
}  // namespace phalanx::hugging_face
