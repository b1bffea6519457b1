#pragma once
// What differs on a rank under an asynchronous schedule, whose stages update at different times:
// older weights are kept for microbatches that have begun with them, and every stage counts for
// itself the tokens that it divides by.

#include "phalanx/data_parallel/weight_stash.h"
#include "phalanx/nn/pass.h"
#include "phalanx/rank/communicators.h"

namespace phalanx {

class AsynchronousUpdates {
 public:
  // `versions` of the weights are read at once, at most. All must outlive this.
  AsynchronousUpdates(const ParameterStore& parameters, int versions,
                      const RankCommunicators& ranks, Arena& weights, Arena& scalars);

  // The newest weights are version 0.
  void begin() { stash_.begin(); }
  nn::Weights weights(int version) const { return stash_.weights(version); }
  // On a stage without losses: adds the tokens of a microbatch that its mask counts to `count`.
  void count(Context& context, const Tensor& mask, const Tensor& count) const;
  // Before an update: `tokens` are those that this rank counted; empty if it divides by none.
  void before_update(Context& context, const Tensor& tokens);

 private:
  const RankCommunicators& ranks_;
  WeightStash stash_;
  Tensor unused_sum_;  // [1] f64
};

}  // namespace phalanx
