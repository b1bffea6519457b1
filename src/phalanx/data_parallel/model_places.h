#pragma once
// Where the parameters of a rank are in the whole model, as one rank of a pipeline would have it:
// what is summed over the model is summed in the order of one rank, whatever the stages.

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
  // By local ParamId: whether this rank of the pipeline counts and writes the parameter. Of those
  // that share it one does.
  std::vector<bool> counted;
};

// Of a table that is the whole model.
ModelPlaces whole_model_places(const nn::ParamTable& whole);

// Finds the places of parts in a whole model, as often as there are ranks.
class PlacesByName {
 public:
  // `whole` must outlive this.
  explicit PlacesByName(const nn::ParamTable& whole);

  // The places of `part`, by name, of the same tensor-parallel rank. `shared`: the model's shared
  // parameters, of which this is rank `pipeline_rank`; without any it counts all that it has.
  ModelPlaces of(const nn::ParamTable& part, std::span<const SharedParameter> shared = {},
                 int pipeline_rank = 0) const;

 private:
  const nn::ParamTable& whole_;
  std::unordered_map<std::string_view, ParamId> numbers_;
  std::vector<std::int64_t> offsets_;  // by ParamId
};

// Of one part.
ModelPlaces model_places(const nn::ParamTable& part, const nn::ParamTable& whole,
                         std::span<const SharedParameter> shared = {}, int pipeline_rank = 0);

}  // namespace phalanx
