#include "phalanx/train/run_setup.h"

#include <algorithm>

#include "phalanx/base/machine.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/memory_check.h"
#include "phalanx/train/resume.h"

namespace phalanx {
namespace {

TrainConfig resolved(TrainConfig config) {
  resolve(config, true);
  check_files(config);
  return as_restarted(std::move(config));
}

int busy_threads(const TrainConfig& config) {
  const std::int64_t cores = usable_cores().count;
  return static_cast<int>(std::min(config.layout.threads_per_rank * config.layout.world_size,
                                   std::max(cores, config.layout.threads_per_rank)));
}

// A run from another's weights begins anew.
RunPosition begin_of(const TrainConfig& config, const std::optional<Manifest>& loaded) {
  return loaded && !config.run.finetune ? position_of(*loaded) : RunPosition{};
}

// What the data order was built for: a resumed run keeps the order it began with.
SampleCounts counts_of(const RunSetup& setup) {
  if (!setup.loaded || setup.config.run.finetune) return setup.length.requested();
  const auto& stored = setup.loaded->requested_samples;
  const SampleCounts counts{.train = stored.train, .valid = stored.valid, .test = stored.test};
  return counts == SampleCounts{} ? setup.length.requested() : counts;
}

}  // namespace

RunSetup::RunSetup(TrainConfig given, const std::function<bool()>& stop)
    : config(resolved(std::move(given))),
      lock(lock_save_directory(config.run)),
      grid(rank_grid(config.layout)),
      tokenizer(run_tokenizer(config.data)),
      checkpoint(open_checkpoint(config.run)),
      loaded(checkpoint ? std::optional(checkpoint->manifest()) : std::nullopt),
      directory(config.run, checkpoint.get()),
      inputs(run_inputs(config.data)),
      length(config, begin_of(config, loaded)),
      schedule(loaded ? check_resume(config, *loaded) : parameter_schedule(config)),
      products(cpu::choose_products(
          loaded ? resumed_precision(config, *loaded) : config.model.matmul_precision,
          config.model.bf16)),
      peak(cpu::measure_peak(busy_threads(config))),
      model(gpt_config(config, tokenizer->vocab_size())),
      programs(step_programs(config, length)),
      plans(plan_ranks(config, model, programs, products.products)),
      affinity(rank_affinity(config.layout)) {
  check_memory(config, plans, available_memory());
  if (loaded) {
    check_tensors(model, *loaded);
    check_inputs(inputs, *loaded, config.run);
  }
  const auto poll = [&] {
    if (stop && stop()) throw StoppedEarly{.is_saved = directory.is_resumed()};
  };
  data.emplace(config, *tokenizer, counts_of(*this), poll);
  data->check_suffices(length.needed());
  poll();
}

const MemoryPlan& RunSetup::plan_of(int rank) const {
  const auto holds = [rank](const RankPlan& plan) {
    return std::ranges::find(plan.ranks, rank) != plan.ranks.end();
  };
  return std::ranges::find_if(plans, holds)->memory;
}

std::int64_t RunSetup::peak_bytes() const {
  std::int64_t most = 0;
  for (const RankPlan& plan : plans) most = std::max(most, plan.memory.total);
  return most;
}

}  // namespace phalanx
