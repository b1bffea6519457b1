#pragma once
// What the routers of a rank's layers count in a step, and the expert biases that the step's end
// moves (nn/router_state.h). Every rank sums the counts of its layers over all ranks that have
// other tokens, so all copies of a bias move alike, to the bit.

#include <span>
#include <vector>

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/tile_fence.h"
#include "phalanx/nn/config.h"
#include "phalanx/nn/router_state.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_model.h"
#include "phalanx/rank/step.h"
#include "phalanx/rank/step_numbers.h"

namespace phalanx {

class RouterStates {
 public:
  // Counts, and copies of biases, lie in `numbers`. All arguments must outlive this.
  RouterStates(const RankModel& model, const nn::ExpertSettings& settings,
               const ParameterStore& parameters, const StepNumbers& numbers,
               const RankCommunicators& ranks, Arena& workspace);

  // Before the passes of a program that trains.
  void begin(Context& context) const;
  // For a pass of the microbatch that is the `number`-th of its step, from 1.
  nn::RouterCounts counts(std::int64_t number) const {
    return {.given = given_, .best = best_, .rows = ranks_.data.get(), .microbatches = number};
  }
  // After the passes: sums the counts over ranks, keeps the biases as they were, and moves them.
  // The fence, where there is one, is asked before that (data_parallel/tile_fence.h).
  void end(Context& context, TileFence* fence) const;
  // Undoes the last end(): the biases of the last step's passes.
  void restore_biases(Context& context) const;
  // Of the whole model's routers, by what was read of the numbers. `tokens`: of the step, on all
  // ranks.
  std::vector<RouterLoad> loads(std::span<const double> counts, std::span<const double> biases,
                                double tokens) const;

 private:
  // This rank's routers' rows of a tensor [routers of the model, E].
  std::vector<Tensor> rows_of(const Tensor& all) const;

  const nn::ParamTable& table_;
  const nn::ParamTable& whole_;
  const ParameterStore& parameters_;
  const RankCommunicators& ranks_;
  Tensor counts_, biases_;  // [routers of the model, E]; absent where there are none
  Tensor all_best_;         // [routers of this rank, E]; absent without the loss that reads it
  std::vector<Tensor> given_, best_, kept_biases_;  // by RouterId
};

}  // namespace phalanx
