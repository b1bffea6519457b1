#pragma once
// Experts made of the MLPs of a dense checkpoint (Komatsuzaki et al., "Sparse Upcycling", 2023; He
// et al., "Upcycling Large Language Models into Mixture of Experts", 2024, for granularity and the
// factor of weights). With granularity G expert rG + j of a layer takes part j of G equal parts of
// the hidden features of the layer's MLP, so there are E / G copies of it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/manifest.h"
#include "phalanx/mesh/param_spec.h"
#include "phalanx/nn/config.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// The part of a dense parameter that a parameter of an expert is, times a factor.
struct DensePart {
  std::string name;
  Shape shape;  // of all of it
  // Equal parts: the global place is in the dense parameter, the local one in the expert's global
  // tensor.
  std::vector<ParamBox> boxes;
  double factor = 1.0;

  // Boxes of the expert's parameter as boxes of the dense one. A box may become two.
  std::vector<ParamBox> in_dense(const std::vector<ParamBox>& of_expert) const;
};

class Upcycling {
 public:
  // Of a resolved configuration.
  explicit Upcycling(const TrainConfig& config);

  // Nothing for a parameter that is not of an expert.
  std::optional<DensePart> part_of(const ParamSpec& spec) const;
  // Whether a dense model has nothing of which a parameter of this name is made: it stays as drawn.
  static bool is_new(std::string_view name);
  // Whether the flag says what upcycling changes, so it may differ from the checkpoint's.
  static bool changes(std::string_view flag);

  // ConfigError where the checkpoint has experts, or layers that shall have experts have no MLPs
  // that give them.
  void check_dense(const Manifest& manifest) const;

 private:
  const nn::TransformerConfig model_;
  const std::int64_t granularity_;
  const double activation_factor_;  // of what an expert adds to the stream
  const double weight_factor_;      // of each linear, so that the activation has its factor
};

}  // namespace phalanx
