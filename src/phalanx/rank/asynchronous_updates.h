#pragma once
// What a rank does differently under an asynchronous schedule, whose stages update at different
// times: it keeps older weights for the microbatches that have begun with them, and every stage
// counts for itself what it divides by.

#include "phalanx/data_parallel/weight_stash.h"
#include "phalanx/nn/pass.h"
#include "phalanx/rank/communicators.h"

namespace phalanx {

class AsynchronousUpdates {
 public:
  // At most `versions` of the weights are read at once. All arguments must outlive this.
  AsynchronousUpdates(const ParameterStore& parameters, int versions,
                      const RankCommunicators& ranks, Arena& weights, Arena& scalars);

  // The newest weights are version 0.
  void begin() { stash_.begin(); }
  nn::Weights weights(int version) const { return stash_.weights(version); }
  // On a stage without the loss: adds what counts in a microbatch, by the batch's mask column.
  void count(Context& context, const Tensor& mask, const Tensor& count) const;
  // Before an update that divides by `tokens`, this rank's count; empty: it divides by nothing.
  void before_update(Context& context, const Tensor& tokens);

 private:
  const RankCommunicators& ranks_;
  WeightStash stash_;
  Tensor unused_sum_;  // [1] f64
};

}  // namespace phalanx
