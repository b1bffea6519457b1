#pragma once
// adapter_config.json of a folder of low-rank adapters, as peft (github.com/huggingface/peft)
// writes it beside adapter_model.safetensors.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/flags/model_arguments.h"
#include "phalanx/hugging_face/config_file.h"

namespace phalanx::hugging_face {

inline constexpr std::string_view kAdapterConfigName = "adapter_config.json";

// How adapters are added to the linears of a model: y = x W^T + scale x A^T B^T.
struct AdapterSettings {
  std::int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  bool rank_stabilized = false;
  std::vector<std::string> targets = {};  // words of --lora-targets
  std::vector<std::int64_t> layers = {};  // empty: all
  // Our tensors that are trained beside the adapters, whole.
  std::vector<std::string> trained = {};

  // alpha / rank, or alpha / sqrt(rank) if it is rank-stabilized.
  double scale() const { return scale_of(rank, alpha); }
  double scale_of(std::int64_t of_rank, double of_alpha) const;
  // As flags: --lora-rank and the like, and --trainable.
  ModelArguments arguments() const;
  // From the flags of a checkpoint; the targets and layers are left empty: its tensors tell them.
  // DataError without --lora-rank and --lora-alpha.
  static AdapterSettings of(const ModelArguments& arguments);
};

// What a file says, for all modules and for some by their names.
struct AdapterConfig {
  // InputMissingError if there is no such file; DataError if it is malformed or a required key is
  // missing; ConfigError for every feature that changes the adapters or the base in a way that
  // Phalanx has not. `is_conv1d`: the linears of the base are stored as [in, out] (GPT-2), so
  // fan_in_fan_out may be true.
  AdapterConfig(const ConfigFile& file, bool is_conv1d);

  AdapterSettings settings;           // rank and alpha: where no pattern says otherwise
  std::vector<std::string> targets;   // last names of modules; empty: `target_pattern`
  std::vector<std::string> whole;     // modules_to_save: ends of names of modules
  std::string target_pattern;         // a regular expression for whole names
  std::string base_model;             // base_model_name_or_path; "": not known
  std::vector<std::string> not_read;  // keys that say something that is not understood

  // What counts for a module, "model.layers.0.self_attn.q_proj".
  std::int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;

 private:
  template <typename Value>
  using Patterns = std::vector<std::pair<std::string, Value>>;

  std::string where_;
  Patterns<std::int64_t> ranks_;
  Patterns<double> alphas_;
};

// Text of the file that export writes. `ranks`, `alphas`: of modules, by their last names, where
// they are not those of the settings.
struct WrittenAdapterConfig {
  AdapterSettings settings;
  std::vector<std::string> targets;  // last names of modules
  bool fan_in_fan_out = false;
  std::vector<std::pair<std::string, std::int64_t>> ranks = {};
  std::vector<std::pair<std::string, double>> alphas = {};
  std::vector<std::string> whole = {};  // modules_to_save
  bool whole_are_tied = false;
};
std::string adapter_config_json(const WrittenAdapterConfig& config);

// Whether a key of rank_pattern or alpha_pattern means the module: the end of its name, or a
// regular expression for that. DataError, which begins with `where`, if it is no expression.
bool is_meant(const std::string& pattern, const std::string& module, std::string_view where);

}  // namespace phalanx::hugging_face
