#pragma once
// The places of a rank's parameters in the whole model. With them, sums over the model use the
// order of one rank, for any cut into stages.

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/data_parallel/shared_parameters.h"

namespace phalanx {

inline constexpr std::int64_t kParameterAlignment = 64;  // elements, in every flat layout

struct ModelPlaces {
  std::vector<ParamId> global;        // by local ParamId: the number in the whole model's table
  ParamId parameters = 0;             // of the whole model
  std::vector<std::int64_t> offsets;  // by local ParamId: in the whole model's flat layout
  // By local ParamId: whether this pipeline rank counts and writes the parameter. Of several ranks
  // that share it, one does.
  std::vector<bool> counted;
};

// The table is the whole model.
ModelPlaces whole_model_places(const nn::ParamTable& whole);

// Finds the places of many parts in one whole model.
class PlacesByName {
 public:
  // `whole` must outlive this.
  explicit PlacesByName(const nn::ParamTable& whole);

  // Looks up the parameters of `part` by name; both have the same tensor-parallel rank. `shared`:
  // the model's shared parameters, if there are several stages; `part` belongs to `pipeline_rank`.
  ModelPlaces of(const nn::ParamTable& part, std::span<const SharedParameter> shared = {},
                 int pipeline_rank = 0) const;

 private:
  const nn::ParamTable& whole_;
  std::unordered_map<std::string_view, ParamId> numbers_;
  std::vector<std::int64_t> offsets_;  // by ParamId
};

// The places of one part.
ModelPlaces model_places(const nn::ParamTable& part, const nn::ParamTable& whole,
                         std::span<const SharedParameter> shared = {}, int pipeline_rank = 0);

}  // namespace phalanx
