#pragma once
// What a rank does otherwise under an asynchronous schedule, whose stages update at different
// times: older weights are kept for microbatches that have begun with them, every stage counts for
// itself what it divides by, and losses are summed when the pipeline is empty.

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
  // Of a stage that has no loss: what counts in a microbatch, by the column that says it.
  void count(Context& context, const Tensor& mask, const Tensor& count) const;
  // Before an update that `tokens` are the count of on this rank, if it divides by any.
  void before_update(Context& context, const Tensor& tokens);

 private:
  const RankCommunicators& ranks_;
  WeightStash stash_;
  Tensor unused_sum_;  // [1] f64
};

}  // namespace phalanx
