// Folders that are damaged, or lie: each is refused with a message that names what is wrong, before
// anything is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/hugging_face/write_import.h"
#include "tests/paths.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::filesystem::path kGolden = source_path("tests/golden/hugging_face");
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kShard = "model-00001-of-00002.safetensors";
constexpr const char* kSecondShard = "model-00002-of-00002.safetensors";
constexpr const char* kNorm = "model.norm.weight";

// A safetensors file as its parts.
struct Parts {
  explicit Parts(const fs::path& path) {
    const std::string file = read_file(path);
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    header = Json::parse(file.substr(sizeof(length), length));
    data = file.substr(sizeof(length) + length);
  }
  std::string file(std::optional<std::uint64_t> claimed_length = std::nullopt) const {
    const std::string text = header.dump();
    const std::uint64_t length = claimed_length.value_or(text.size());
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + text + data;
  }
  // Takes a tensor out, the data behind it moves forward.
  void remove(const std::string& name) {
    const std::int64_t begin = header[name]["data_offsets"][0];
    const std::int64_t end = header[name]["data_offsets"][1];
    header.erase(name);
    data.erase(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    for (auto& item : header) {
      if (!item.contains("data_offsets") || item["data_offsets"][0] < end) continue;
      for (auto& offset : item["data_offsets"]) offset = offset.get<std::int64_t>() - (end - begin);
    }
  }
  // Adds one of as many f32.
  void append(const std::string& name, const Json& shape, std::size_t elements) {
    const std::size_t begin = data.size();
    data.append(4 * elements, '\0');
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }

  Json header;
  std::string data;
};

// A copy of a golden folder that may be harmed.
class Patient {
 public:
  explicit Patient(const char* golden) : directory_("damaged_folder") {
    fs::copy(kGolden / golden, folder());
  }
  fs::path folder() const { return directory_.path() / "folder"; }
  fs::path output() const { return directory_.path() / "output"; }
  fs::path operator/(const char* name) const { return folder() / name; }

  void edit_json(const char* name, const std::function<void(Json&)>& change) const {
    Json json = Json::parse(read_file(folder() / name));
    change(json);
    put_file(folder() / name, json.dump());
  }
  void set(const char* key, const Json& value) const {
    edit_json("config.json", [&](Json& config) { config[key] = value; });
  }
  void edit_text(const char* name, const std::string& from, const std::string& to) const {
    std::string text = read_file(folder() / name);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put_file(folder() / name, text.replace(at, from.size(), to));
  }
  void edit_weights(const char* name, const std::function<void(Parts&)>& change) const {
    Parts parts(folder() / name);
    change(parts);
    put_file(folder() / name, parts.file());
  }
  // Whether nothing but the folder is there.
  bool left_nothing() const {
    return std::distance(fs::directory_iterator(directory_.path()), {}) == 1;
  }

 private:
  TemporaryDirectory directory_;
};

ImportOutput output_of(const Patient& patient) {
  ImportOutput output;
  output.directory = patient.output();
  return output;
}

struct Damage {
  const char* name;
  ErrorCode code;
  const char* mention;
  std::function<void(const Patient&)> harm;
  const char* golden = "llama-llama3-rope";
};

constexpr const char* kSharded = "llama-bf16-in-shards";
constexpr ErrorCode kData = ErrorCode::kBadData;
constexpr ErrorCode kConfig = ErrorCode::kConfiguration;
constexpr ErrorCode kMissing = ErrorCode::kInputMissing;

std::vector<Damage> damages_of_config() {
  return {
      {"no config", kMissing, "config.json",
       [](const Patient& p) { fs::remove(p / "config.json"); }},
      {"empty", kData, "config.json: not JSON",
       [](const Patient& p) { put_file(p / "config.json", ""); }},
      {"cut", kData, "config.json: not JSON",
       [](const Patient& p) {
         put_file(p / "config.json", read_file(p / "config.json").substr(0, 99));
       }},
      {"no object", kData, "config.json: not a JSON object",
       [](const Patient& p) { put_file(p / "config.json", "[]"); }},
      {"NaN", kData, "config.json: 'rms_norm_eps' is NaN",
       [](const Patient& p) { p.edit_text("config.json", "1e-06", "NaN"); }},
      {"huge number", kData, "config.json",
       [](const Patient& p) { p.edit_text("config.json", "1e-06", "1e999"); }},
      {"epsilon of another type", kData, "rms_norm_eps",
       [](const Patient& p) { p.set("rms_norm_eps", "small"); }},
      {"depth", kData, "nested deeper",
       [](const Patient& p) { put_file(p / "config.json", std::string(100000, '[')); }},
      {"a key twice", kData, "comes twice",
       [](const Patient& p) { p.edit_text("config.json", "{", R"({"hidden_size": 8, )"); }},
      {"no layers", kData, "num_hidden_layers",
       [](const Patient& p) { p.set("num_hidden_layers", 0); }},
      {"endless layers", kData, "num_hidden_layers",
       [](const Patient& p) { p.set("num_hidden_layers", std::int64_t{1} << 40); }},
      {"a fraction of a layer", kData, "num_hidden_layers",
       [](const Patient& p) { p.set("num_hidden_layers", 1.5); }},
      {"more layers than there are", kData, "model.layers.2.",
       [](const Patient& p) { p.set("num_hidden_layers", 3); }},
      {"more layers than tensors", kData, "too few for the 65000 layers",
       [](const Patient& p) { p.set("num_hidden_layers", 65000); }},
      {"fewer layers than there are", kData, "model.layers.1.",
       [](const Patient& p) { p.set("num_hidden_layers", 1); }},
      {"another width", kData, "model.embed_tokens.weight",
       [](const Patient& p) { p.set("hidden_size", 18); }},
      {"another vocabulary", kData, "model.embed_tokens.weight",
       [](const Patient& p) { p.set("vocab_size", 33); }},
      {"another head size", kData, "_proj.weight", [](const Patient& p) { p.set("head_dim", 8); }},
      {"another architecture", kConfig, "FalconForCausalLM",
       [](const Patient& p) { p.set("architectures", {"FalconForCausalLM"}); }},
      {"another type", kConfig, "'model_type' is bert",
       [](const Patient& p) { p.set("model_type", "bert"); }},
      {"an architecture that is no list", kData, "architectures",
       [](const Patient& p) { p.set("architectures", 7); }},
      {"quantised", kConfig, "quantization_config",
       [](const Patient& p) {
         p.set("quantization_config", {{"bits", 4}});
       }},
      {"experts", kConfig, "num_experts", [](const Patient& p) { p.set("num_experts", 8); }},
      {"one-sided bias", kConfig, "mlp_bias", [](const Patient& p) { p.set("mlp_bias", true); }},
      {"activation", kConfig, "hidden_act", [](const Patient& p) { p.set("hidden_act", "relu"); }},
      {"rope", kConfig, "longrope",
       [](const Patient& p) {
         p.edit_json("config.json",
                     [](Json& config) { config["rope_parameters"]["rope_type"] = "longrope"; });
       }},
  };
}

std::vector<Damage> damages_of_weights() {
  return {
      {"no weights", kMissing, kWeights, [](const Patient& p) { fs::remove(p / kWeights); }},
      {"a pickle", kMissing, "tools/convert-pickle",
       [](const Patient& p) { fs::rename(p / kWeights, p / "pytorch_model.bin"); }},
      {"no byte", kData, kWeights, [](const Patient& p) { put_file(p / kWeights, ""); }},
      {"cut in the header", kData, kWeights,
       [](const Patient& p) { put_file(p / kWeights, read_file(p / kWeights).substr(0, 100)); }},
      {"cut in the data", kData, kWeights,
       [](const Patient& p) {
         const std::string file = read_file(p / kWeights);
         put_file(p / kWeights, file.substr(0, file.size() - 1));
       }},
      {"bytes too many", kData, kWeights,
       [](const Patient& p) { put_file(p / kWeights, read_file(p / kWeights) + "x"); }},
      {"a huge header", kData, "longer than the limit",
       [](const Patient& p) {
         put_file(p / kWeights, Parts(p / kWeights).file(std::uint64_t{1} << 62));
       }},
      {"no JSON", kData, kWeights,
       [](const Patient& p) { p.edit_text(kWeights, R"("dtype")", R"(dtype")"); }},
      {"overlapping tensors", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) {
           auto& offsets = parts.header[kNorm]["data_offsets"];
           for (auto& offset : offsets) offset = offset.get<std::int64_t>() - 4;
         });
       }},
      {"offsets beyond the end", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) {
           parts.header[kNorm]["data_offsets"] = {std::int64_t{1} << 40,
                                                  (std::int64_t{1} << 40) + 64};
         });
       }},
      {"a shape beyond 64 bits", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) {
           parts.header[kNorm]["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
         });
       }},
      {"a shape transposed", kData, "mlp.up_proj.weight",
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) {
           parts.header["model.layers.0.mlp.up_proj.weight"]["shape"] = {16, 24};
         });
       }},
      {"integers", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) { parts.header[kNorm]["dtype"] = "I32"; });
       }},
      {"eight bits", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) { parts.header[kNorm]["dtype"] = "F8_E4M3"; });
       }},
      {"a tensor missing", kData, kNorm,
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) { parts.remove(kNorm); });
       }},
      {"the head missing", kData, "lm_head.weight",
       [](const Patient& p) {
         p.edit_weights(kWeights, [](Parts& parts) { parts.remove("lm_head.weight"); });
       }},
      {"a head that is not the word table", kData, "not equal to model.embed_tokens.weight",
       [](const Patient& p) { p.set("tie_word_embeddings", true); }},
      {"a tensor too many", kData, "model.adapter.weight",
       [](const Patient& p) {
         p.edit_weights(kWeights,
                        [](Parts& parts) { parts.append("model.adapter.weight", {4}, 4); });
       }},
  };
}

std::vector<Damage> damages_of_shards() {
  return {
      {"no shard", kMissing, kShard, [](const Patient& p) { fs::remove(p / kShard); }, kSharded},
      {"a shard cut", kData, kSecondShard,
       [](const Patient& p) {
         const std::string file = read_file(p / kSecondShard);
         put_file(p / kSecondShard, file.substr(0, file.size() / 2));
       },
       kSharded},
      {"an index that is no JSON", kData, kIndex,
       [](const Patient& p) { put_file(p / kIndex, "{"); }, kSharded},
      {"an index without a map", kData, "weight_map",
       [](const Patient& p) { put_file(p / kIndex, "{}"); }, kSharded},
      {"an index that escapes", kData, "../secret",
       [](const Patient& p) {
         p.edit_json(kIndex, [](Json& index) { index["weight_map"][kNorm] = "../secret"; });
       },
       kSharded},
      {"an index that names a folder", kData, "..",
       [](const Patient& p) {
         p.edit_json(kIndex, [](Json& index) { index["weight_map"][kNorm] = ".."; });
       },
       kSharded},
      {"an index that lies", kData, kNorm,
       [](const Patient& p) {
         p.edit_json(kIndex, [](Json& index) { index["weight_map"][kNorm] = kShard; });
       },
       kSharded},
      {"an index that knows too little", kData, kNorm,
       [](const Patient& p) {
         p.edit_json(kIndex, [](Json& index) { index["weight_map"].erase(kNorm); });
       },
       kSharded},
      {"an index that knows too much", kData, "model.layers.7",
       [](const Patient& p) {
         p.edit_json(kIndex, [](Json& index) { index["weight_map"]["model.layers.7"] = kShard; });
       },
       kSharded},
      {"a tensor in two shards", kData, kNorm,
       [](const Patient& p) {
         const char* other = Parts(p / kShard).header.contains(kNorm) ? kSecondShard : kShard;
         p.edit_weights(other, [](Parts& parts) { parts.append(kNorm, {16}, 16); });
       },
       kSharded},
  };
}

void expect_refused(const Damage& damage) {
  SCOPED_TRACE(damage.name);
  const Patient patient(damage.golden);
  damage.harm(patient);
  try {
    const Import model(patient.folder());
    EXPECT_TRUE(write_import(model, output_of(patient)));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), damage.code) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(damage.mention));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
  EXPECT_TRUE(patient.left_nothing());
}

TEST(DamagedFolders, TheGoldenOnesAreWhole) {
  for (const char* golden : {"llama-llama3-rope", kSharded}) {
    const Patient patient(golden);
    const Import model(patient.folder());
    EXPECT_TRUE(write_import(model, output_of(patient)));
    EXPECT_FALSE(patient.left_nothing());
  }
}

TEST(DamagedFolders, Config) {
  for (const Damage& damage : damages_of_config()) expect_refused(damage);
}

TEST(DamagedFolders, Weights) {
  for (const Damage& damage : damages_of_weights()) expect_refused(damage);
}

TEST(DamagedFolders, Shards) {
  for (const Damage& damage : damages_of_shards()) expect_refused(damage);
}

// As in transformers: how texts are generated is no part of the model.
TEST(DamagedFolders, AGenerationConfigThatCannotBeReadIsLeftOut) {
  const Patient patient("llama-llama3-rope");
  put_file(patient / "generation_config.json", "{\"temperature\": 0.6,\n}");
  testing::internal::CaptureStderr();
  const Import model(patient.folder());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("generation_config.json: not JSON: line 2, column 1: a comma "
                                 "before }: what it says is not taken"));
  EXPECT_FALSE(model.folder().generation().has_value());
  EXPECT_TRUE(write_import(model, output_of(patient)));
}

// What is left out on demand.
TEST(DamagedFolders, ATensorTooManyMayBeLeftOut) {
  const Patient patient("llama-llama3-rope");
  patient.edit_weights(kWeights,
                       [](Parts& parts) { parts.append("model.adapter.weight", {4}, 4); });
  const Import model(patient.folder(), true);
  EXPECT_THAT(model.dropped(), testing::ElementsAre("model.adapter.weight"));
  EXPECT_TRUE(write_import(model, output_of(patient)));
}

}  // namespace
}  // namespace phalanx::hugging_face
