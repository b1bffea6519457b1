#include "phalanx/train/rank_beginning.h"

#include <fmt/core.h>

#include "phalanx/ops/cpu/first_touch.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/start/populate_arenas.h"

namespace phalanx {

RankArenas arenas_of_run(const RunSetup& setup, Communicator& world, Backend& backend,
                         ArenaMemory& memory, bool from_checkpoint, const StopToken& stop) {
  const int rank = world.rank();
  const int threads = static_cast<int>(setup.config.layout.threads_per_rank);
  const MemoryPlan& plan = setup.plan_of(rank);
  RankArenas arenas(plan.bytes, memory);
  arenas.folders = open_folders(setup.config.layout, setup.name, rank, [&] {
    if (stop() != 0) throw StoppedEarly{};
  });
  // Files on one disk: whether all of them fit is known before the first one is made.
  if (arenas.folders.size() == 1) arenas.folders.begin()->second->expect_space(plan.file_bytes);
  if (!setup.config.run.allow_overcommit) {
    Context context{.backend = backend, .workspace = arenas["workspace"], .recorder = nullptr};
    populate_arenas(world, context, setup.places, arenas.all(), {.threads = threads});
  } else if (from_checkpoint && is_host(memory.space())) {
    // With --allow-overcommit the team's first write takes the memory. But a checkpoint is loaded
    // by one thread, so the team takes the memory that is loaded into now.
    for (const MemoryRow row :
         {MemoryRow("parameters"), MemoryRow("main_parameters"), MemoryRow("optimizer")}) {
      cpu::FirstTouch(threads, arenas[row]).take(arenas[row].capacity());
    }
  }
  return arenas;
}

MemorySnapshots snapshots_of(const RunSetup& setup, Rank& rank) {
  const auto number = static_cast<std::size_t>(rank.ranks().world->rank());
  return {setup.config.run,
          rank,
          {.local_rank = setup.places[number].local_rank,
           .epoch_prefix = fmt::format("{}.{}", setup.identity.run_id, setup.identity.start),
           .iteration = setup.length.begin().iteration,
           .loaded = setup.loads_from_memory ? setup.loaded->epoch : std::string(),
           .with_frozen = !setup.base},
          setup.inputs.copies};
}

RunState begin_state(const RunSetup& setup, const CheckpointReader* checkpoint, Rank& rank,
                     StepTimers& timers) {
  const TimerScope time(checkpoint != nullptr ? &timers : nullptr, StepTimer::kLoadCheckpoint);
  const auto busy = rank.ranks().control->busy(checkpoint != nullptr ? "loading the checkpoint"
                                                                     : "drawing the weights");
  RunState state;
  if (checkpoint != nullptr) {
    state = load_run(setup.config, *checkpoint, rank);
  } else {
    rank.initialise();
    state.loss_scaler = loss_scaler(setup.config).state();
  }
  // Not before all ranks have read the checkpoint: it may become another one.
  if (setup.directory && rank.ranks().world->rank() == 0) setup.directory->claim();
  state.evaluation_is_due = setup.length.begin().evaluation_is_due;
  state.requested = setup.data->counts();
  return state;
}

}  // namespace phalanx
