#pragma once
// The architectures of Hugging Face's transformers that Phalanx can exchange checkpoints with.
//
// To add one: a file of its own (llama.cc shows how) with an `extern const Architecture`, declared
// below and named in architecture.cc, and three functions:
//   read_config   config.json to flags, every flag that the model depends on, defaults too;
//   write_config  flags to config.json, a fault for every flag that it has no word for;
//   tensors       the table of tensors, of flags alone: both directions read it.
// The rest - folders, shards, dtypes, dropped and unexpected tensors, ties, streaming, files that
// appear whole or not at all - is the same for all.

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/flags/model_arguments.h"
#include "phalanx/hugging_face/config_file.h"
#include "phalanx/hugging_face/tensor_table.h"

namespace phalanx::hugging_face {

// What a config.json cannot express: "--qk-layernorm: ...".
using Faults = std::vector<std::string>;

class Folder;

struct Architecture {
  std::string_view name;        // LlamaForCausalLM
  std::string_view model_type;  // llama
  std::string_view family;      // Phalanx's: gpt, bert, classify, t5
  // ConfigError names the key whose value Phalanx has no model for. The common keys (token ids,
  // quantisation) are read elsewhere.
  void (*read_config)(const ConfigFile& config, ModelArguments& settings);
  // Writes the keys of this architecture; `settings` has every flag of a resolved model, and
  // --model-vocab-size. If there are faults, the JSON must not be used.
  void (*write_config)(const ModelArguments& settings, nlohmann::json& config, Faults& faults);
  TensorTable (*tensors)(const ModelArguments& settings);
  // Reads settings that only the tensors show; null: there are none.
  void (*read_tensors)(const Folder& folder, ModelArguments& settings) = nullptr;
  // The end of the message that a tensor is missing: which files of this architecture are read.
  std::string_view what_is_read = {};
  // A remark for users of the exported folder; empty: none.
  std::string (*remark)(const ModelArguments& settings) = nullptr;
  // The ids that transformers takes if config.json names none; -1: none.
  std::int64_t default_bos = -1;
  std::int64_t default_eos = -1;
  bool has_experts = false;  // whether its config.json may name experts
};

extern const Architecture kGpt2, kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen2Moe, kQwen3Moe,
    kBert, kMegatronBert, kBertMaskedLm, kMegatronBertMaskedLm, kBertClassifier,
    kMegatronBertClassifier, kT5;

// All architectures, in the order in which export tries them.
std::span<const Architecture* const> architectures();
// Null if there is none of this name.
const Architecture* find_architecture(std::string_view name);
// "GPT2LMHeadModel, LlamaForCausalLM and ...".
std::string architecture_names();

// The architecture that config.json names. ConfigError if it is none of them, or if keys ask for
// something that it has not: quantisation, capped scores, experts.
const Architecture& architecture_of(const ConfigFile& config);

// Why a model is not of this architecture; empty if it is.
Faults faults_of(const Architecture& architecture, const ModelArguments& settings);
// The architecture of the model that these settings describe: the one that it was imported from, or
// the first without a fault. ConfigError with the faults of the nearest one.
const Architecture& architecture_for(const ModelArguments& settings);

}  // namespace phalanx::hugging_face
