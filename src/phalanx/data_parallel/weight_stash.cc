#include "phalanx/data_parallel/weight_stash.h"

#include "phalanx/base/error.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

WeightStash::WeightStash(const ParameterStore& parameters, int versions, Arena& arena)
    : parameters_(&parameters) {
  PHALANX_CHECK(!parameters.states().cuts_weights(), "older versions of a shard of weights");
  const Tensor& newest = parameters.flat();
  for (int i = 1; i < versions; ++i) {
    const Tensor flat = arena.allocate(newest.dtype, newest.shape);
    slots_.push_back({flat, parameter_views(parameters.table(), parameters.states().flat(), flat)});
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
