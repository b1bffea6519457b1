#include "phalanx/settings/adapter_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

using enum nn::AdapterPart;

struct LayerRange {
  std::int64_t first = 0, last = 0;
};

// "7" or "0-3".
std::optional<LayerRange> layer_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number<std::int64_t>(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_number<std::int64_t>(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
  return LayerRange{*first, *last};
}

std::vector<nn::AdapterPart> every_part(const ModelConfig& model) {
  if (model.gated_linear_unit) return {kQuery, kKey, kValue, kOutput, kGate, kUp, kDown};
  return {kQuery, kKey, kValue, kOutput, kFc1, kDown};
}

std::vector<nn::AdapterPart> parts_of_word(const std::string& word, const ModelConfig& model) {
  if (word == "all-linear") return every_part(model);
  const auto found = std::ranges::find(nn::kAdapterPartNames, word);
  if (found == nn::kAdapterPartNames.end()) {
    throw ConfigError("--lora-targets {}: no part of a layer; there are {} and all-linear", word,
                      fmt::join(nn::kAdapterPartNames, ", "));
  }
  const auto part = static_cast<nn::AdapterPart>(found - nn::kAdapterPartNames.begin());
  if ((part == kGate || part == kUp) && !model.gated_linear_unit) {
    throw ConfigError("--lora-targets {}: the model's MLP has no gate: give fc1", word);
  }
  return {part};
}

}  // namespace

std::vector<bool> adapter_layers_from_text(std::string_view text, std::int64_t layers) {
  if (text.empty()) return {};
  std::vector<bool> chosen(static_cast<std::size_t>(layers));
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto range = layer_range(text.substr(begin, end - begin));
    if (!range) {
      throw ConfigError(
          "--lora-layers {}: give numbers of layers, from 0, and ranges of them between commas, "
          "such as 0-3,7",
          text);
    }
    if (range->last >= layers) {
      throw ConfigError("--lora-layers {}: the model has no layer {}: its layers are 0 to {}", text,
                        range->last, layers - 1);
    }
    std::fill(chosen.begin() + range->first, chosen.begin() + range->last + 1, true);
    begin = end + 1;
  }
  return chosen;
}

std::vector<nn::AdapterPart> adapter_parts(const LoraConfig& lora, const ModelConfig& model) {
  std::vector<nn::AdapterPart> parts;
  for (const std::string& word : lora.targets) {
    for (const nn::AdapterPart part : parts_of_word(word, model)) {
      if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
    }
  }
  const auto has = [&](nn::AdapterPart part) {
    return std::ranges::find(parts, part) != parts.end();
  };
  const auto refuse = [&](nn::AdapterPart whole, std::initializer_list<nn::AdapterPart> own) {
    for (const nn::AdapterPart part : own) {
      if (!has(whole) || !has(part)) continue;
      throw ConfigError(
          "--lora-targets {}: {} has an adapter for all of its rows and {} one for some of them: "
          "give one of the two",
          fmt::join(lora.targets, " "), name_of(whole), name_of(part));
    }
  };
  refuse(kQkv, {kQuery, kKey, kValue});
  refuse(kFc1, {kGate, kUp});
  std::ranges::sort(parts);
  return parts;
}

nn::AdapterSettings adapter_settings(const LoraConfig& lora, const ModelConfig& model) {
  if (lora.rank == 0) return {};
  if (!lora.alpha) {
    throw ConfigError(
        "--lora-rank {} needs --lora-alpha: adapters are added times alpha / rank; {} is a usual "
        "alpha",
        lora.rank, 2 * lora.rank);
  }
  const auto rank = static_cast<double>(lora.rank);
  nn::AdapterSettings settings{
      .rank = lora.rank,
      .scale = *lora.alpha / (lora.scaling == "standard" ? rank : std::sqrt(rank)),
      .dropout = lora.dropout,
      .is_gaussian = lora.init == "gaussian",
      .parts = {},
      .layers = adapter_layers_from_text(lora.layers, model.num_layers)};
  for (const nn::AdapterPart part : adapter_parts(lora, model)) {
    settings.parts[static_cast<std::size_t>(part)] = true;
  }
  return settings;
}

}  // namespace phalanx
