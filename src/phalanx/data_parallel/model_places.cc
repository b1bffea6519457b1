#include "phalanx/data_parallel/model_places.h"

#include <algorithm>

#include "phalanx/base/numeric.h"

namespace phalanx {

ModelPlaces whole_model_places(const nn::ParamTable& whole) {
  ModelPlaces places{.global = std::vector<ParamId>(whole.specs().size()),
                     .parameters = whole.size(),
                     .offsets = std::vector<std::int64_t>(whole.specs().size()),
                     .counted = std::vector<bool>(whole.specs().size(), true)};
  std::int64_t end = 0;
  for (ParamId id = whole.size(); id-- > 0;) {
    const auto i = static_cast<std::size_t>(id);
    places.global[i] = id;
    places.offsets[i] = end;
    end = round_up(end + whole[id].local_shape.count(), kParameterAlignment);
  }
  return places;
}

PlacesByName::PlacesByName(const nn::ParamTable& whole)
    : whole_(whole), offsets_(whole_model_places(whole).offsets) {
  for (ParamId id = 0; id < whole.size(); ++id) numbers_.emplace(whole[id].name, id);
}

ModelPlaces PlacesByName::of(const nn::ParamTable& part, std::span<const SharedParameter> shared,
                             int pipeline_rank) const {
  ModelPlaces places{.global = {}, .parameters = whole_.size(), .offsets = {}, .counted = {}};
  for (const ParamSpec& spec : part.specs()) {
    const auto found = numbers_.find(spec.name);
    PHALANX_CHECK(found != numbers_.end(), "{} is not in the whole model", spec.name);
    const ParamId id = found->second;
    PHALANX_CHECK(whole_[id].local_shape == spec.local_shape, "{} is {}, in the whole model {}",
                  spec.name, spec.local_shape.to_string(), whole_[id].local_shape.to_string());
    places.global.push_back(id);
    places.offsets.push_back(offsets_[static_cast<std::size_t>(id)]);
    const auto holders = std::ranges::find(shared, spec.name, &SharedParameter::name);
    places.counted.push_back(holders == shared.end() ||
                             holders->counting_holder() == pipeline_rank);
  }
  return places;
}

ModelPlaces model_places(const nn::ParamTable& part, const nn::ParamTable& whole,
                         std::span<const SharedParameter> shared, int pipeline_rank) {
  return PlacesByName(whole).of(part, shared, pipeline_rank);
}

}  // namespace phalanx
