#include "phalanx/rank/asynchronous_updates.h"

#include "phalanx/ops/cross_entropy.h"

namespace phalanx {

AsynchronousUpdates::AsynchronousUpdates(const ParameterStore& parameters, int versions,
                                         const RankCommunicators& ranks, Arena& weights,
                                         Arena& scalars)
    : ranks_(ranks),
      stash_(parameters, versions, weights),
      unused_sum_(scalars.allocate(DType::kF64, {1})) {}

void AsynchronousUpdates::count(Context& context, const Tensor& mask, const Tensor& count) const {
  const Tensor rows = mask.reshape({mask.count()});
  ops::loss_accumulate(context, {.sum = unused_sum_, .count = count, .loss = rows, .mask = rows});
}

void AsynchronousUpdates::before_update(Context& context, const Tensor& tokens) {
  if (tokens) sum_over(ranks_.data.get(), context, tokens);
  stash_.keep(context);
}

}  // namespace phalanx
