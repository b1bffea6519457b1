#include "phalanx/hugging_face/adapter_places.h"

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::string_view kLayers = "decoder.layers.";
constexpr std::string_view kWeight = ".weight";

std::string without_weight(const std::string& name) {
  return name.substr(0, name.size() - kWeight.size());
}

// The words for a linear whose weight is of so many modules of theirs; empty: none has adapters.
std::vector<std::string> words_of(std::string_view linear, std::size_t modules) {
  struct Words {
    std::string_view linear;
    std::vector<std::string> separate;
    std::string fused;
  };
  const std::array<Words, 4> all = {{{"linear_qkv", {"q", "k", "v"}, "qkv"},
                                     {"linear_proj", {}, "o"},
                                     {"linear_fc1", {"gate", "up"}, "fc1"},
                                     {"linear_fc2", {}, "down"}}};
  for (const Words& words : all) {
    if (!linear.ends_with("." + std::string(words.linear))) continue;
    if (modules == 1) return {words.fused};
    if (modules == words.separate.size()) return words.separate;
  }
  return {};
}

}  // namespace

std::int64_t LinearPart::row_count() const {
  std::int64_t count = 0;
  for (const LinearRows& range : rows) count += range.count;
  return count;
}

std::optional<std::int64_t> LinearPart::number_of(std::int64_t linear_row) const {
  std::int64_t before = 0;
  for (const LinearRows& range : rows) {
    if (linear_row < range.first) return std::nullopt;
    if (linear_row < range.first + range.count) return before + linear_row - range.first;
    before += range.count;
  }
  return std::nullopt;
}

LinearPart linear_part(const ModelArguments& model, const std::string& linear,
                       const std::string& word) {
  LinearPart part{.linear = linear, .word = word, .rows = {}};
  const std::int64_t size = model.head_size();
  const std::int64_t groups = model.groups();
  const std::int64_t queries = model.heads() / groups * size;  // rows in a group
  const auto in_groups = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t group = 0; group < groups; ++group) {
      part.rows.push_back({group * (queries + 2 * size) + first, count});
    }
    return part;
  };
  const bool is_gated = model.is_on("--swiglu") || model.is_on("--gated-linear-unit");
  const std::int64_t ffn = model.ffn_hidden();
  const auto plain = [&](std::int64_t first, std::int64_t count) {
    part.rows = {{first, count}};
    return part;
  };
  if (linear.ends_with(".linear_qkv")) {
    if (word == "q") return in_groups(0, queries);
    if (word == "k") return in_groups(queries, size);
    if (word == "v") return in_groups(queries + size, size);
    if (word == "qkv") return plain(0, groups * (queries + 2 * size));
  } else if (linear.ends_with(".linear_fc1")) {
    if (word == "gate" && is_gated) return plain(0, ffn);
    if (word == "up" && is_gated) return plain(ffn, ffn);
    if (word == "fc1") return plain(0, is_gated ? 2 * ffn : ffn);
  } else if ((linear.ends_with(".linear_proj") && word == "o") ||
             (linear.ends_with(".linear_fc2") && word == "down")) {
    return plain(0, model.hidden());
  }
  throw ConfigError("{}: this model has no part '{}' of it that could have an adapter", linear,
                    word);
}

std::vector<AdapterModule> adapter_modules(const TensorTable& table) {
  std::vector<AdapterModule> modules;
  for (const TensorRow& row : table.rows) {
    if (row.shape.rank() != 2 || !row.name.starts_with(kLayers) || !row.name.ends_with(kWeight)) {
      continue;
    }
    const std::string linear = without_weight(row.name);
    const auto words = words_of(linear, row.parts.size());
    if (words.empty()) continue;
    const std::string_view behind = std::string_view(linear).substr(kLayers.size());
    const auto layer = parse_number<std::int64_t>(behind.substr(0, behind.find('.')));
    PHALANX_CHECK(layer.has_value(), "{}: no number of a layer", linear);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const TensorPart& part = row.parts[i];
      modules.push_back({.name = without_weight(part.name),
                         .linear = linear,
                         .word = words[i],
                         .layer = *layer,
                         .rows = part.shape[part.transposed ? 1 : 0],
                         .columns = row.shape[1],
                         .is_conv1d = part.transposed,
                         .blocks = part.blocks});
    }
  }
  return modules;
}

}  // namespace phalanx::hugging_face
