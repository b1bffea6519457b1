#include "phalanx/rank/step_run.h"

#include "phalanx/rank/batch_check.h"

namespace phalanx {

StepRun::StepRun(Rank& rank, const RankProgram& program, const BatchSource* source)
    : rank_(rank),
      program_(program),
      losses_(rank.config(), rank.losses(), rank.ranks(), program, rank.context(),
              rank.host_context()),
      source_(source) {}

StepSettings StepRun::settings() const {
  return {.shapes = rank_.shapes(),
          .region = rank_.region(),
          .context = rank_.context_region(),
          .experts = rank_.expert_region(),
          .training = !program().forward_only,
          .loss = {.loss_scale = rank_.losses().scale,
                   .mean_of_microbatch = rank_.losses().averages_microbatches},
          .constants = rank_.states().constants()};
}

// One rank of a tensor-parallel group reads, the others receive.
const nn::Batch& StepRun::load(int microbatch) {
  const int slot = program_.executor->batch_slots().slot(microbatch);
  Communicator* group = rank_.ranks().tensor.get();
  const BatchMemory& batches = rank_.batches();
  if (source_ != nullptr && (group == nullptr || group->rank() == 0)) {
    const HostBatch* host = nullptr;
    {
      const TimerScope time(timers(), StepTimer::kData);
      host = &(*source_)(microbatch);
    }
    if (rank_.config().data.check_batches) check_row_patterns(*host, batches.patterns());
    batches.upload(context(), slot, *host);
  }
  if (group != nullptr) batches.broadcast(context(), slot, *group);
  return batches[slot];
}

const nn::Batch& StepRun::loaded(int microbatch) {
  return rank_.batches()[program_.executor->batch_slots().slot(microbatch)];
}

}  // namespace phalanx
