#include "phalanx/saving/upcycling.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"
#include "phalanx/mesh/matrix_box.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::string_view kOfExperts = ".mlp.experts.";

// What makes up for the parts of an MLP and the probabilities that its copies have in a new router:
// 1 / G of a chosen copy's for each part, or 1 / E of a softmax over all experts.
double activation_factor(const nn::ExpertSettings& experts, std::int64_t granularity) {
  const auto parts = static_cast<double>(granularity);
  if (experts.rule.score != ops::RouterScore::kSoftmaxFirst) return parts;
  return static_cast<double>(experts.experts) * parts / static_cast<double>(experts.chosen);
}

// A product of two linears, or of three factors: of gate, up and fc2, or of fc1 squared and fc2.
double weight_factor(const nn::TransformerConfig& model, double of_activation) {
  const bool has_three = model.gated || model.activation == ops::ActivationKind::kSquaredRelu;
  return has_three ? std::cbrt(of_activation) : std::sqrt(of_activation);
}

}  // namespace

std::vector<ParamBox> DensePart::in_dense(const std::vector<ParamBox>& of_expert) const {
  std::vector<ParamBox> found;
  for (const ParamBox& box : of_expert) {
    for (const ParamBox& part : boxes) {
      const MatrixBox common =
          overlap(global_box(box), {part.local_row, part.local_column, part.rows, part.columns});
      if (common.count() == 0) continue;
      ParamBox& moved = found.emplace_back(box);
      moved.global_row = part.global_row + common.row - part.local_row;
      moved.global_column = part.global_column + common.column - part.local_column;
      moved.local_row = box.local_row + common.row - box.global_row;
      moved.local_column = box.local_column + common.column - box.global_column;
      moved.rows = common.rows;
      moved.columns = common.columns;
    }
  }
  return found;
}

Upcycling::Upcycling(const TrainConfig& config)
    : model_(transformer_config(config)),
      granularity_(config.run.moe_upcycling_granularity),
      activation_factor_(activation_factor(model_.experts, granularity_)),
      weight_factor_(weight_factor(model_, activation_factor_)) {}

std::optional<DensePart> Upcycling::part_of(const ParamSpec& spec) const {
  const std::string_view name = spec.name;
  const std::size_t found = name.find(kOfExperts);
  if (found == name.npos) return std::nullopt;
  const std::size_t number = found + kOfExperts.size();
  const std::size_t end = name.find('.', number);
  const std::int64_t expert = parse_number<std::int64_t>(name.substr(number, end - number)).value();
  const std::string_view linear = name.substr(end + 1);
  DensePart part{.name = fmt::format("{}.mlp.{}", name.substr(0, found), linear),
                 .shape = spec.global_shape,
                 .boxes = {},
                 .factor = weight_factor_};
  const std::int64_t j = expert % granularity_;
  const std::int64_t width = model_.experts.ffn_hidden;
  const MatrixBox whole = whole_box(spec.global_shape);
  ParamBox box{.rows = whole.rows, .columns = whole.columns};
  if (linear == "linear_fc2.bias") {
    // All parts of a copy add it, each with its probability.
    part.factor = activation_factor_ / static_cast<double>(granularity_);
    part.boxes = {box};
  } else if (linear == "linear_fc2.weight") {
    part.shape[1] = granularity_ * width;
    box.global_column = j * width;
    part.boxes = {box};
  } else {
    // Of [gate; up] both are cut.
    const bool is_vector = spec.global_shape.rank() == 1;
    part.shape[0] *= granularity_;
    (is_vector ? box.columns : box.rows) = width;
    for (std::int64_t half = 0; half < (model_.gated ? 2 : 1); ++half) {
      (is_vector ? box.global_column : box.global_row) = (half * granularity_ + j) * width;
      (is_vector ? box.local_column : box.local_row) = half * width;
      part.boxes.push_back(box);
    }
  }
  return part;
}

bool Upcycling::is_new(std::string_view name) {
  return name.find(".mlp.router.") != name.npos || name.find(".mlp.shared_experts.") != name.npos;
}

bool Upcycling::changes(std::string_view flag) {
  return flag == "--num-experts" || flag == "--ffn-hidden-size" || flag.starts_with("--moe-");
}

void Upcycling::check_dense(const Manifest& manifest) const {
  const auto first = std::ranges::find_if(manifest.tensors, [](const Manifest::Entry& entry) {
    return entry.name.find(kOfExperts) != entry.name.npos;
  });
  if (first != manifest.tensors.end()) {
    throw ConfigError(
        "--moe-use-upcycling: the checkpoint of iteration {} has experts already ({}): leave the "
        "flag out to go on from it, or name the checkpoint of a dense model",
        manifest.iteration, first->name);
  }
  for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
    if (!model_.experts.in_layer(layer)) continue;
    const std::string name = fmt::format("decoder.layers.{}.mlp.linear_fc2.weight", layer);
    const auto entry = std::ranges::find(manifest.tensors, name, &Manifest::Entry::name);
    if (entry == manifest.tensors.end()) {
      throw ConfigError(
          "--moe-use-upcycling: the checkpoint of iteration {} has no {}, of which the experts of "
          "layer {} would be made: name the checkpoint of a dense GPT of --num-layers {}",
          manifest.iteration, name, layer, model_.num_layers);
    }
    const std::int64_t width = matrix_columns(entry->shape);
    if (width == granularity_ * model_.experts.ffn_hidden) continue;
    throw ConfigError(
        "--moe-ffn-hidden-size {} x --moe-upcycling-granularity {} is {}, and the dense MLPs of "
        "the checkpoint of iteration {} have a width of {}: {}",
        model_.experts.ffn_hidden, granularity_, granularity_ * model_.experts.ffn_hidden,
        manifest.iteration, width,
        width % granularity_ == 0
            ? fmt::format("give --moe-ffn-hidden-size {}", width / granularity_)
            : "give a granularity that divides it");
  }
}

}  // namespace phalanx
