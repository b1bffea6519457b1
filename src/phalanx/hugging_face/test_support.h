#pragma once
// Folders of tiny models, for the tests of this directory.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/folder.h"

namespace phalanx::hugging_face {

using Json = nlohmann::json;

struct TinyTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string bytes;

  // Of a matrix of f32, or of a vector in row 0.
  float at(std::int64_t row, std::int64_t column) const {
    const std::int64_t columns = shape.rank() == 1 ? shape[0] : shape[1];
    float value = 0;
    std::memcpy(&value, bytes.data() + (row * columns + column) * 4, 4);
    return value;
  }
};

inline std::string counted_bytes(DType dtype, std::int64_t count, std::int64_t first) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(first + i);
    const bfloat16 narrow = to_bfloat16(value);
    const bool is_wide = dtype == DType::kF32;
    bytes.append(
        is_wide ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&narrow),
        is_wide ? 4 : 2);
  }
  return bytes;
}

inline void write_tensors(const std::filesystem::path& path,
                          const std::vector<TinyTensor>& tensors) {
  std::vector<SafetensorsWriter::Item> items;
  for (const auto& tensor : tensors) items.push_back({tensor.name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, items, {{"format", "pt"}});
  for (const auto& tensor : tensors) writer.write(std::as_bytes(std::span(tensor.bytes)));
  writer.commit();
}

// A model whose every element is another number.
struct TinyFolder {
  std::filesystem::path path;
  Json config;
  std::vector<TinyTensor> tensors;

  TinyFolder(const std::filesystem::path& directory, Json json, DType dtype = DType::kF32)
      : path(directory), config(std::move(json)) {
    const ConfigFile file(config.dump(), "config.json");
    const Architecture& architecture = architecture_of(file);
    ModelArguments settings;
    architecture.read_config(file, settings);
    std::int64_t first = 0;
    for (const TensorRow& row : architecture.tensors(settings).rows) {
      for (const TensorPart& part : row.parts) {
        const std::int64_t count = part.shape.count();
        tensors.push_back({part.name, dtype, part.shape, counted_bytes(dtype, count, first)});
        first += count;
      }
    }
  }

  TinyTensor& find(const std::string& name) {
    for (TinyTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw InternalError("no tensor {}", name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == name; });
  }
  void write_config() const {
    std::filesystem::create_directories(path);
    put_file(path / kConfigName, config.dump());
  }
  void write() const {
    write_config();
    write_tensors(path / kWeightsName, tensors);
  }
  // Every file has its share of the tensors, one after another; `edit` may spoil the index.
  template <typename Edit>
  void write_shards(std::size_t files, const Edit& edit) const {
    write_config();
    std::vector<std::vector<TinyTensor>> shards(files);
    Json map = Json::object();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      shards[i % files].push_back(tensors[i]);
      map[tensors[i].name] = "part-" + std::to_string(i % files) + ".safetensors";
    }
    for (std::size_t i = 0; i < files; ++i) {
      write_tensors(path / ("part-" + std::to_string(i) + ".safetensors"), shards[i]);
    }
    Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
    edit(index);
    put_file(path / kIndexName, index.dump());
  }
};

inline Json tiny_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 32},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"bos_token_id", 1},
          {"eos_token_id", {2, 7}}};
}

inline Json tiny_of(const std::string& name, const std::string& type) {
  Json json = tiny_llama();
  json["architectures"] = {name};
  json["model_type"] = type;
  return json;
}

inline Json tiny_mixtral() {
  Json json = tiny_of("MixtralForCausalLM", "mixtral");
  json.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"intermediate_size", 12}});
  return json;
}
// The first layer is dense, as in the next.
inline Json tiny_qwen2_moe() {
  Json json = tiny_of("Qwen2MoeForCausalLM", "qwen2_moe");
  json.update({{"num_experts", 3},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 8},
               {"shared_expert_intermediate_size", 12},
               {"norm_topk_prob", false},
               {"decoder_sparse_step", 2},
               {"mlp_only_layers", Json::array()}});
  return json;
}
inline Json tiny_qwen3_moe() {
  Json json = tiny_of("Qwen3MoeForCausalLM", "qwen3_moe");
  json.update({{"num_hidden_layers", 3},
               {"num_experts", 3},
               {"num_experts_per_tok", 2},
               {"moe_intermediate_size", 8},
               {"head_dim", 8},
               {"norm_topk_prob", true},
               {"decoder_sparse_step", 1},
               {"mlp_only_layers", {0}}});
  return json;
}

inline Json tiny_gpt2() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", 16},
          {"n_layer", 2},
          {"n_head", 4},
          {"n_positions", 8},
          {"vocab_size", 32}};
}

}  // namespace phalanx::hugging_face
