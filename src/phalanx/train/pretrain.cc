#include "phalanx/train/pretrain.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/log.h"
#include "phalanx/metrics/training_log.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/start/stillness_limit.h"
#include "phalanx/train/exit_conditions.h"
#include "phalanx/train/forecasting.h"
#include "phalanx/train/run_sinks.h"
#include "phalanx/train/trainer.h"

namespace phalanx {
namespace {

// Nothing, where the ranks cannot read the checkpoint: it is added to `refused`.
std::optional<RunEnd> train_on_ranks(const RunSetup& setup,
                                     std::shared_ptr<const CheckpointReader> checkpoint,
                                     const StopToken& stop, RunSinks& sinks, RankRunner& runner,
                                     std::vector<RefusedCheckpoint>& refused) {
  const RankOptions options{
      .threads_per_rank = static_cast<int>(setup.config.layout.threads_per_rank),
      .sum_block = static_cast<int>(setup.config.layout.sum_block_size),
      .summing = setup.plan_of(runner.own_ranks().front()).summing,
      .timeout = timeout_of(setup.config.run)};
  // All ranks end for the same reason.
  std::optional<RunEnd> end;
  const int first = runner.own_ranks().front();
  // Each rank gives its pointer up once it has loaded the checkpoint.
  std::vector readers(setup.places.size(), checkpoint);
  checkpoint.reset();
  runner.run(options, [&](Communicator& world, RankWatch& watch) {
    const auto rank = static_cast<std::size_t>(world.rank());
    setup.affinity.bind(setup.places[rank].local_rank);  // before its team and memory are there
    if (!setup.config.run.hang_timeout_s) {
      watch.limit_stillness(stillness_limit(setup.plan_of(world.rank()).largest_unit,
                                            setup.peak_flops_of(world.rank())));
    }
    try {
      Trainer trainer(setup, readers[rank].get(), stop, rank == 0 ? &sinks : nullptr, world, watch);
      readers[rank].reset();
      const RunEnd mine = trainer.run();
      if (world.rank() == first) end = mine;
    } catch (const UnreadableCheckpoint& unreadable) {
      if (world.rank() == first) refused.push_back(unreadable.checkpoint);
      readers[rank].reset();
    }
  });
  return end;
}

RunEnd prepare_and_train(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                         RankRunner& runner) {
  // Checkpoints with damage that ranks found when they loaded them: the run begins with another.
  std::vector<RefusedCheckpoint> refused;
  const std::vector<int> cores = cores_of_thread();
  for (;;) {
    std::optional<RunSetup> setup;
    runner.prepare([&] {
      setup.emplace(
          config, runner, [&] { return stop() != 0; }, refused);
      if (runner.leads() && !setup->config.run.cluster.empty()) {
        setup->forecast = forecast_step(*setup);
      }
    });
    if (setup->lock) setup->lock->expect_in_place();
    const auto end =
        train_on_ranks(*setup, std::move(setup->checkpoint), stop, sinks, runner, refused);
    if (end) return *end;
    // A rank was bound to fewer.
    bind_thread(cores);
  }
}

}  // namespace

std::chrono::milliseconds timeout_of(const RunConfig& run) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(run.distributed_timeout_minutes * 60e3));
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks,
                const MakeRankRunner& make_runner) {
  const StopToken asked = stop ? stop : [] { return 0; };
  try {
    return prepare_and_train(config, asked, sinks, *make_runner());
  } catch (const StoppedEarly&) {
    log_info("{}", datetime_line(signal_line(asked()), std::chrono::system_clock::now()));
    log_info("{}", kNothingIsLost);
    return RunEnd::kPreempted;
  }
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop, RunSinks& sinks) {
  return pretrain(config, stop, sinks, [&config] {
    return make_thread_runner(static_cast<int>(config.layout.world_size));
  });
}

RunEnd pretrain(const TrainConfig& config, const StopToken& stop) {
  RunSinks sinks = default_sinks(config.run);
  return pretrain(config, stop, sinks);
}

}  // namespace phalanx
