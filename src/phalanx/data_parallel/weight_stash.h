#pragma once
// Older versions of a rank's weights, for the backward passes of microbatches whose forward passes
// read them (PipeDream's weight stashing, Harlap et al., 2018; double buffering, Narayanan et al.,
// 2020).

#include <vector>

#include "phalanx/data_parallel/parameter_store.h"

namespace phalanx {

class WeightStash {
 public:
  // Memory for `versions` of the weights. The newest version is the store's own. The store must
  // outlive this.
  WeightStash(const ParameterStore& parameters, int versions, Arena& arena);

  // The store's weights become version 0, the only one.
  void begin() { newest_ = 0; }
  // Before an update: copies the weights; the version after the update is the newest, plus one.
  void keep(Context& context);
  // An older version. InternalError if it is not kept any more.
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
