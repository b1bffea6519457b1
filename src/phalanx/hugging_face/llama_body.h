#pragma once
// What Llama and its relatives have in common: the keys of config.json, attention, norms and
// embeddings. Relatives differ in defaults, biases, windows and MLPs.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

// Values of keys that config.json does not have.
struct LlamaDefaults {
  std::int64_t positions = 2048;
  std::int64_t groups = 0;     // key/value heads; 0: as many as heads
  std::int64_t head_size = 0;  // 0: hidden size over heads
  double epsilon = 1e-6;
  double rotary_base = 10000.0;
};

// Reads all settings except biases, norms of queries and keys, windows and experts.
void read_llama_body(const ConfigFile& config, const LlamaDefaults& defaults,
                     ModelArguments& settings);

// What a relative has beside the body.
struct LlamaParts {
  bool qk_norm = false;  // norms of queries and keys
  bool experts = false;  // layers may have experts
};
// Writes the same settings. Adds faults for flags that no relative has words for, and for parts
// that this one has not, or must have.
void write_llama_body(const ModelArguments& settings, const LlamaParts& parts,
                      nlohmann::json& config, Faults& faults);

// Which linears of a layer have a bias.
enum class Biases { kNone, kQkv, kAll };
Biases biases_of(const ModelArguments& settings);
// Adds a fault unless no linear has a bias.
void expect_no_biases(const ModelArguments& settings, Faults& faults);

// Adds the MLP of a layer to a table.
using AddMlp = std::function<void(std::int64_t layer, TensorTable& table)>;
void add_dense_mlp(const ModelArguments& settings, std::int64_t layer, TensorTable& table);
// The tensors of the whole model.
TensorTable llama_body_tensors(const ModelArguments& settings, const AddMlp& add_mlp);

}  // namespace phalanx::hugging_face
