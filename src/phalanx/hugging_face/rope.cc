#include "phalanx/hugging_face/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

// A number above 0.
double positive(const ConfigFile& config, const std::string& key,
                std::optional<double> absent = std::nullopt) {
  const double value = config.number(key, absent);
  if (!(value > 0.0)) throw DataError("{}: '{}' is {}, not above 0", config.where(), key, value);
  return value;
}

constexpr const char* kOriginal = "original_max_position_embeddings";

// The positions before the model was stretched: the key at the top counts more than that of the
// dictionary, as in transformers 5.
std::int64_t original_positions(const ConfigFile& config, const ConfigFile& rope,
                                std::optional<std::int64_t> absent) {
  const std::int64_t at_top = config.size(kOriginal, kMostInt32, 0);
  if (at_top == 0) return rope.size(kOriginal, kMostInt32, absent);
  const std::int64_t inside = rope.size(kOriginal, kMostInt32, absent.value_or(at_top));
  if (inside != at_top) {
    config.warn(fmt::format(
        "'{0}' at the top is {1}: it counts, as in transformers 5; version 4 took {2}{3}",
        kOriginal, at_top, inside,
        rope.has(kOriginal) ? ", that of the rotation's dictionary" : ", all positions"));
  }
  return at_top;
}

// The kinds whose dictionaries have the same form.
void read_llama3(const ConfigFile& config, const ConfigFile& rope, ModelArguments& settings) {
  settings.set("--use-rope-scaling", true);
  settings.set("--rope-scaling-factor", positive(rope, "factor"));
  settings.set("--rope-low-freq-factor", positive(rope, "low_freq_factor"));
  settings.set("--rope-high-freq-factor", positive(rope, "high_freq_factor"));
  settings.set("--rope-original-max-positions", original_positions(config, rope, std::nullopt));
  if (settings.number("--rope-low-freq-factor") >= settings.number("--rope-high-freq-factor")) {
    throw DataError("{}: 'low_freq_factor' is not below 'high_freq_factor'", rope.where());
  }
}

// The factor by which YaRN scales cosines and sines.
double yarn_growth(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

void read_yarn(const ConfigFile& config, const ConfigFile& rope, ModelArguments& settings) {
  const std::int64_t positions = settings.positions();
  const std::int64_t original = original_positions(config, rope, positions);
  const double factor =
      positive(rope, "factor", static_cast<double>(positions) / static_cast<double>(original));
  settings.set("--rope-type", "yarn");
  settings.set("--rope-scaling-factor", factor);
  settings.set("--rope-original-max-positions", original);
  settings.set("--yarn-beta-fast", positive(rope, "beta_fast", 32.0));
  settings.set("--yarn-beta-slow", positive(rope, "beta_slow", 1.0));
  settings.set("--yarn-no-truncate", !rope.boolean("truncate", true));
  // 0: derived from the factor.
  double attention = positive(rope, "attention_factor", std::numeric_limits<double>::infinity());
  const double scale = rope.number("mscale", 0.0);
  const double all = rope.number("mscale_all_dim", 0.0);
  if (std::isinf(attention)) {
    const bool has_both = scale != 0.0 && all != 0.0;
    attention = has_both ? yarn_growth(factor, scale) / yarn_growth(factor, all) : 0.0;
  }
  settings.set("--yarn-attention-factor", attention);
}

void read_scaling(const ConfigFile& config, const ConfigFile& rope, ModelArguments& settings) {
  const std::string old_kind = rope.text("type", "default");
  const std::string kind = rope.text("rope_type", old_kind);
  if (rope.says("type") && kind != old_kind) {
    rope.without_effect("type", "rope_type is " + kind);
  }
  if (kind == "linear") {
    settings.set("--rotary-seq-len-interpolation-factor", positive(rope, "factor"));
  } else if (kind == "llama3") {
    read_llama3(config, rope, settings);
  } else if (kind == "yarn") {
    read_yarn(config, rope, settings);
  } else if (kind != "default") {
    throw ConfigError("{}: 'rope_type' {} is not supported: default, linear, llama3 and yarn are",
                      rope.where(), kind);
  }
}

void check_whole(const ConfigFile& config) {
  if (config.number("partial_rotary_factor", 1.0) == 1.0) return;
  throw ConfigError("{}: 'partial_rotary_factor' is {}: this architecture rotates whole heads",
                    config.where(), config.number("partial_rotary_factor", 1.0));
}

// The rotation of a dictionary and the base beside it, for a model of so many positions.
ModelArguments dictionary_flags(const ConfigFile& config, const ConfigFile& rope, double base,
                                std::int64_t positions) {
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    if (!rope.has(kind)) continue;
    throw ConfigError("{}: '{}': rotations that differ from layer to layer are not supported",
                      rope.where(), kind);
  }
  check_whole(rope);
  ModelArguments flags;
  flags.set("--max-position-embeddings", positions);
  flags.set("--rotary-base", positive(rope, "rope_theta", base));
  read_scaling(config, rope, flags);
  return flags;
}

// transformers takes rope_scaling whole, and nothing of rope_parameters. Silent if both make the
// same model.
void compare_with_parameters(const ConfigFile& config, const ModelArguments& of_scaling,
                             double base) {
  const auto parameters = config.object("rope_parameters");
  if (!parameters) return;
  const auto others = dictionary_flags(config, *parameters, base, of_scaling.positions());
  if (others.arguments() == of_scaling.arguments()) return;
  config.warn(
      "'rope_scaling' and 'rope_parameters' are both there and say different things: rope_scaling "
      "counts, as in transformers; remove the one that is wrong");
  config.without_effect("rope_parameters", "rope_scaling counts");
}

}  // namespace

void read_rope(const ConfigFile& config, double base, ModelArguments& settings) {
  settings.set("--position-embedding-type", "rope");
  check_whole(config);
  const double theta = positive(config, "rope_theta", base);
  const bool has_scaling = config.says("rope_scaling");
  const auto rope = config.object(has_scaling ? "rope_scaling" : "rope_parameters");
  if (!rope) {
    settings.set("--rotary-base", theta);
    return;
  }
  const auto flags = dictionary_flags(config, *rope, theta, settings.positions());
  for (const auto& [flag, value] : flags.arguments()) settings.set(flag, value);
  rope->warn_of_ignored();
  if (has_scaling) compare_with_parameters(config, flags, theta);
  if (flags.number("--rotary-base") != theta) {
    config.without_effect("rope_theta", "that of the rotation's dictionary counts");
  }
  if (!flags.has("--rope-original-max-positions")) {
    config.without_effect(kOriginal, "the rotation's kind has no such number");
  }
}

void write_rope(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  if (settings.number("--rotary-percent", 1.0) != 1.0) {
    faults.emplace_back("--rotary-percent: whole heads are rotated");
  }
  config["rope_theta"] = settings.number("--rotary-base", 10000.0);
  config["rope_scaling"] = nullptr;
  const double interpolation = settings.number("--rotary-seq-len-interpolation-factor", 1.0);
  const bool is_yarn = settings.text("--rope-type", "rope") == "yarn";
  const bool is_llama3 = settings.is_on("--use-rope-scaling");
  const bool is_linear = interpolation != 1.0 && interpolation != 0.0;
  if (is_linear && (is_yarn || is_llama3)) {
    faults.emplace_back("--rotary-seq-len-interpolation-factor: no place beside another scaling");
  }
  const double factor = settings.number("--rope-scaling-factor", 8.0);
  const std::int64_t original = settings.integer("--rope-original-max-positions", 8192);
  if (is_yarn) {
    nlohmann::json scaling = {
        {"rope_type", "yarn"},
        {"factor", factor},
        {"original_max_position_embeddings", original},
        {"beta_fast", settings.number("--yarn-beta-fast", 32.0)},
        {"beta_slow", settings.number("--yarn-beta-slow", 1.0)},
        {"truncate", !settings.is_on("--yarn-no-truncate")},
    };
    const double attention = settings.number("--yarn-attention-factor");
    if (attention != 0.0) scaling["attention_factor"] = attention;
    config["rope_scaling"] = std::move(scaling);
  } else if (is_llama3) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", factor},
        {"low_freq_factor", settings.number("--rope-low-freq-factor", 1.0)},
        {"high_freq_factor", settings.number("--rope-high-freq-factor", 4.0)},
        {"original_max_position_embeddings", original},
    };
  } else if (is_linear) {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", interpolation}};
  }
}

}  // namespace phalanx::hugging_face
