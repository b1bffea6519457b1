#include "phalanx/rehearsal/planning_rank.h"

#include "phalanx/settings/config_views.h"

namespace phalanx {

PlanningRank::PlanningRank(const TrainConfig& config, const Model& model,
                           const StepPrograms& programs, int number, const DeviceChoice& kernels,
                           Rank::Shared* shared)
    : world_(make_meta_world(number, parallel_grids(config.layout).world_size(), sizes_)),
      communicators_(parallel_grids(config.layout), *world_),
      backend_(kernels.make_planning_backend(config.layout.threads_per_rank)),
      rank_(config, model, programs, communicators_, *backend_, arenas_, shared) {}

}  // namespace phalanx
