#pragma once
// Older versions of a rank's weights, for backward passes whose forward passes read them
// (PipeDream's weight stashing, Harlap et al., 2018; double buffering, Narayanan et al., 2020).

#include <vector>

#include "phalanx/data_parallel/parameter_store.h"

namespace phalanx {

class WeightStash {
 public:
  // Memory for `versions` of the weights. The store holds the newest and must outlive this.
  WeightStash(const ParameterStore& parameters, int versions, Arena& arena);

  // The store's weights become version 0, the only one.
  void begin() { newest_ = 0; }
  // Before an update: copies the weights. The update makes version newest + 1.
  void keep(Context& context);
  // An older version. InternalError if it is no longer kept.
  nn::Weights weights(int version) const;

 private:
  // The slot of an older version.
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
