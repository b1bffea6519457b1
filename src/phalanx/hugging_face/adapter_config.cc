#include "phalanx/hugging_face/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostRank = std::int64_t{1} << 16;
// An expression that takes ages to match is no name of a module.
constexpr std::size_t kLongestPattern = 512;

struct Unsupported {
  const char* key;
  std::string_view reason;
};

// Each changes what the adapters or their base compute.
constexpr std::array<Unsupported, 11> kUnsupported = {{
    {"use_dora", "adapters with magnitudes (DoRA) are not supported"},
    {"lora_bias", "adapters have no biases"},
    {"trainable_token_indices", "trained rows of the word table are not supported"},
    {"target_parameters", "adapters of bare parameters are not supported"},
    {"layer_replication", "a base with repeated layers is not supported"},
    {"use_qalora", "quantised bases are not supported"},
    {"alora_invocation_tokens", "adapters that begin at a token (aLoRA) are not supported"},
    {"use_bdlora", "block-diagonal adapters are not supported"},
    {"megatron_config", "adapters that are cut over ranks are not read: write them whole"},
    {"arrow_config", "routed adapters are not supported"},
    {"corda_config", "it changed the base: write base and adapters as plain LoRA first"},
}};

// They say nothing about what the adapters compute.
constexpr std::array<std::string_view, 16> kSayNothing = {
    "inference_mode", "revision",        "auto_mapping",        "peft_version",
    "megatron_core",  "exclude_modules", "layers_pattern",      "layers_to_transform",
    "loftq_config",   "eva_config",      "runtime_config",      "qalora_group_size",
    "_comment",       "task_type",       "ensure_weight_tying", "lora_ga_config"};

bool is_plain(std::string_view pattern) {
  return std::ranges::all_of(pattern, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

void check_init(const ConfigFile& file) {
  // true and false leave the base as it is; others are names.
  const std::string key = "init_lora_weights";
  if (!file.has(key) || file.is_null(key)) return;
  std::string name;
  try {
    file.boolean(key, true);
    return;
  } catch (const DataError&) {
    name = file.text(key);
  }
  if (name == "gaussian" || name == "orthogonal") return;
  throw ConfigError(
      "{}: '{}' is {}, which changes the base model's weights too: only true, false, gaussian and "
      "orthogonal leave them as they are",
      file.where(), key, name);
}

void check_types(const ConfigFile& file) {
  const std::string type = file.text("peft_type");
  if (type != "LORA") {
    throw ConfigError("{}: 'peft_type' is {}: only LORA is supported", file.where(), type);
  }
  if (!file.has("task_type")) throw DataError("{}: 'task_type' is missing", file.where());
  const std::string task = file.text("task_type", "CAUSAL_LM");
  if (task != "CAUSAL_LM") {
    throw ConfigError("{}: 'task_type' is {}: only CAUSAL_LM is supported", file.where(), task);
  }
}

}  // namespace

double AdapterSettings::scale_of(std::int64_t of_rank, double of_alpha) const {
  const auto divisor = static_cast<double>(of_rank);
  return of_alpha / (rank_stabilized ? std::sqrt(divisor) : divisor);
}

ModelArguments AdapterSettings::arguments() const {
  ModelArguments flags;
  const auto joined = [](const auto& items, auto&& text, char between) {
    std::string all;
    for (const auto& item : items) all += (all.empty() ? "" : std::string(1, between)) + text(item);
    return all;
  };
  flags.set("--lora-rank", rank);
  flags.set("--lora-alpha", alpha);
  flags.set("--lora-dropout", dropout);
  flags.set("--lora-scaling", rank_stabilized ? "rank-stabilized" : "standard");
  flags.set("--lora-targets", joined(
                                  targets, [](const std::string& word) { return word; }, ' '));
  flags.set("--lora-layers", joined(
                                 layers, [](std::int64_t n) { return std::to_string(n); }, ','));
  if (!trained.empty()) {
    flags.set("--trainable",
              joined(
                  trained, [](const std::string& name) { return "^" + name + "$"; }, ' '));
  }
  return flags;
}

AdapterSettings AdapterSettings::of(const ModelArguments& arguments) {
  AdapterSettings settings;
  settings.rank = arguments.integer("--lora-rank");
  settings.alpha = arguments.number("--lora-alpha");
  settings.dropout = arguments.number("--lora-dropout");
  settings.rank_stabilized = arguments.text("--lora-scaling") == "rank-stabilized";
  if (settings.rank <= 0 || settings.alpha <= 0) {
    throw DataError(
        "the checkpoint's --lora-rank and --lora-alpha are {} and {}: both must be "
        "above 0",
        settings.rank, settings.alpha);
  }
  return settings;
}

AdapterConfig::AdapterConfig(const ConfigFile& file, bool is_conv1d) : where_(file.where()) {
  check_types(file);
  settings.rank = file.integer("r", 1, kMostRank);
  settings.alpha = file.number("lora_alpha");
  if (!(settings.alpha > 0)) {
    throw DataError("{}: 'lora_alpha' is {}, not above 0", where_, settings.alpha);
  }
  file.number("lora_dropout");  // required
  settings.dropout = file.dropout("lora_dropout", 0.0);
  settings.rank_stabilized = file.boolean("use_rslora", false);
  for (const auto& [key, reason] : kUnsupported) {
    if (file.says(key)) throw ConfigError("{}: '{}': {}", where_, key, reason);
  }
  if (const std::string bias = file.text("bias", "none"); bias != "none") {
    throw ConfigError("{}: 'bias' is {}: trained biases are not supported, only none", where_,
                      bias);
  }
  if (!is_conv1d && file.boolean("fan_in_fan_out", false)) {
    throw ConfigError("{}: 'fan_in_fan_out' is true, but the base stores its linears as [out, in]",
                      where_);
  }
  file.skip("fan_in_fan_out");
  check_init(file);
  base_model = file.text("base_model_name_or_path", "");
  if (!file.says("target_modules")) throw DataError("{}: 'target_modules' is missing", where_);
  try {
    targets = file.texts("target_modules");
  } catch (const DataError&) {
    target_pattern = file.text("target_modules");
  }
  whole = file.texts("modules_to_save");
  const auto read_patterns = [&](const std::string& key, auto&& read) {
    if (const auto object = file.object(key)) {
      for (const std::string& pattern : object->keys()) read(*object, pattern);
    }
  };
  read_patterns("rank_pattern", [&](const ConfigFile& object, const std::string& pattern) {
    ranks_.emplace_back(pattern, object.integer(pattern, 1, kMostRank));
  });
  read_patterns("alpha_pattern", [&](const ConfigFile& object, const std::string& pattern) {
    alphas_.emplace_back(pattern, object.number(pattern));
    if (alphas_.back().second > 0) return;
    throw DataError("{}: '{}' is {}, not above 0", object.where(), pattern, alphas_.back().second);
  });
  for (const std::string_view key : kSayNothing) file.skip(key);
  for (const std::string& key : file.ignored()) {
    if (file.says(key)) not_read.push_back(key);
  }
}

std::int64_t AdapterConfig::rank_of(const std::string& module) const {
  for (const auto& [pattern, rank] : ranks_) {
    if (is_meant(pattern, module, where_ + ": rank_pattern")) return rank;
  }
  return settings.rank;
}

double AdapterConfig::alpha_of(const std::string& module) const {
  for (const auto& [pattern, alpha] : alphas_) {
    if (is_meant(pattern, module, where_ + ": alpha_pattern")) return alpha;
  }
  return settings.alpha;
}

bool is_meant(const std::string& pattern, const std::string& module, std::string_view where) {
  if (is_plain(pattern)) {
    if (!module.ends_with(pattern)) return false;
    const std::size_t before = module.size() - pattern.size();
    return before == 0 || module[before - 1] == '.';
  }
  if (pattern.size() > kLongestPattern) {
    throw DataError("{}: an expression of {} bytes is longer than {}", where, pattern.size(),
                    kLongestPattern);
  }
  try {
    // A leading ^ means the whole name.
    const bool is_whole = pattern.starts_with('^');
    const std::regex expression(is_whole ? "(?:" + pattern.substr(1) + ")"
                                         : "(?:.*\\.)?(?:" + pattern + ")");
    return std::regex_match(module, expression);
  } catch (const std::regex_error& error) {
    throw DataError("{}: '{}' is no regular expression that can be read: {}", where, pattern,
                    error.what());
  }
}

std::string adapter_config_json(const WrittenAdapterConfig& config) {
  const AdapterSettings& settings = config.settings;
  Json ranks = Json::object();
  for (const auto& [module, rank] : config.ranks) ranks[module] = rank;
  Json alphas = Json::object();
  for (const auto& [module, alpha] : config.alphas) alphas[module] = alpha;
  const bool is_whole_number =
      settings.alpha == std::floor(settings.alpha) && settings.alpha < double{1 << 24};
  const Json json = {
      {"alpha_pattern", alphas},
      {"base_model_name_or_path", nullptr},
      {"bias", "none"},
      {"ensure_weight_tying", config.whole_are_tied},
      {"fan_in_fan_out", config.fan_in_fan_out},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_to_transform", settings.layers.empty() ? Json() : Json(settings.layers)},
      {"lora_alpha",
       is_whole_number ? Json(static_cast<std::int64_t>(settings.alpha)) : Json(settings.alpha)},
      {"lora_dropout", settings.dropout},
      {"modules_to_save", config.whole.empty() ? Json() : Json(config.whole)},
      {"peft_type", "LORA"},
      {"r", settings.rank},
      {"rank_pattern", ranks},
      {"target_modules", config.targets},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", settings.rank_stabilized}};
  return json.dump(2) + "\n";
}

}  // namespace phalanx::hugging_face
