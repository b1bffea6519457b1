#pragma once
// Where the parameters of a rank are in the whole model, as one rank of a pipeline would have it:
// what is summed over the model is summed in the order of one rank, whatever the stages.

#include <cstdint>
#include <span>
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

// The places of `part` in `whole`, by name: the table of the whole model of the same
// tensor-parallel rank. `shared`: the model's shared parameters, of which this is rank
// `pipeline_rank`; without any it counts all that it has.
ModelPlaces model_places(const nn::ParamTable& part, const nn::ParamTable& whole,
                         std::span<const SharedParameter> shared = {}, int pipeline_rank = 0);

// Of a table that is the whole model.
ModelPlaces whole_model_places(const nn::ParamTable& whole);

}  // namespace phalanx
