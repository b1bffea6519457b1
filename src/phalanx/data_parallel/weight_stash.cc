#include "phalanx/data_parallel/weight_stash.h"

#include "phalanx/base/error.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

WeightStash::WeightStash(const ParameterStore& parameters, int versions, Arena& arena)
    : parameters_(&parameters) {
  const Tensor& newest = parameters.flat();
  const nn::ParamTable& table = parameters.table();
  for (int i = 1; i < versions; ++i) {
    Slot kept{.flat = arena.allocate(newest.dtype, newest.shape), .weights = {}};
    for (ParamId id = 0; id < table.size(); ++id) {
      const Shape& shape = table[id].local_shape;
      const std::int64_t offset = parameters.layout().offsets[static_cast<std::size_t>(id)];
      kept.weights.push_back(kept.flat.slice(0, offset, shape.count()).reshape(shape));
    }
    slots_.push_back(std::move(kept));
  }
}

void WeightStash::keep(Context& context) {
  if (!slots_.empty()) {
    ops::copy(context, {.destination = slots_[slot(newest_)].flat, .source = parameters_->flat()});
  }
  ++newest_;
}

nn::Weights WeightStash::weights(int version) const {
  PHALANX_CHECK(version >= 0 && version < newest_ && newest_ - version <= std::ssize(slots_),
                "weights of version {} are not kept: the newest is {}, with {} before it", version,
                newest_, slots_.size());
  return {slots_[slot(version)].weights};
}

}  // namespace phalanx
