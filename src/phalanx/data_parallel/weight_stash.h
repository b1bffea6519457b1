#pragma once
// Older versions of a rank's weights, for microbatches that have begun with them (PipeDream's
// weight stashing, Harlap et al., 2018; double buffering, Narayanan et al., 2020).

#include <vector>

#include "phalanx/data_parallel/parameter_store.h"

namespace phalanx {

class WeightStash {
 public:
  // Room for `versions` of the weights, the newest included, which are those of the store. The
  // store must outlive this.
  WeightStash(const ParameterStore& parameters, int versions, Arena& arena);

  // The newest weights are now version 0; there are no others.
  void begin() { newest_ = 0; }
  // Before an update: what it will change is kept, and the newest version is one more.
  void keep(Context& context);
  // Of an older version. InternalError where it is not kept any more.
  nn::Weights weights(int version) const;

 private:
  // Where a version is kept when it is old.
  std::size_t slot(int version) const { return static_cast<std::size_t>(version) % slots_.size(); }

  struct Slot {
    Tensor flat;
    std::vector<Tensor> weights;  // by ParamId
  };
  const ParameterStore* parameters_;
  std::vector<Slot> slots_;
  int newest_ = 0;
};

}  // namespace phalanx
