#include "ranks_run.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "phalanx/base/step_timers.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/families/family.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/rank/rank_folders.h"
#include "phalanx/settings/config_views.h"
#include "random_batch.h"

namespace phalanx::bench {

void GptSize::add_to(FlagSet& flags) {
  flags.add({.name = "--num-layers", .help = "Layers"}, &layers);
  flags.add({.name = "--hidden-size", .help = "Hidden size"}, &hidden);
  flags.add({.name = "--num-attention-heads", .help = "Heads"}, &heads);
  flags.add({.name = "--seq-length", .help = "Tokens of a sample"}, &sequence);
  flags.add({.name = "--vocab-size", .help = "Vocabulary"}, &vocabulary);
  flags.add({.name = "--bf16", .help = "bf16 instead of fp32"}, &bf16);
}

TrainConfig GptSize::config() const {
  TrainConfig c;
  c.model.num_layers = layers;
  c.model.hidden_size = hidden;
  c.model.num_attention_heads = heads;
  c.data.seq_length = sequence;
  c.model.max_position_embeddings = sequence;
  c.model.attention_dropout = 0.0;
  c.model.hidden_dropout = 0.0;
  c.model.bf16 = bf16;
  c.layout.threads_per_rank = 1;
  return c;
}

RanksRun run_on_ranks(const TrainConfig& config, std::int64_t vocabulary, std::int64_t steps,
                      const MakeBatch& make_batch) {
  const auto model = make_model(config, vocabulary);
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  const auto products =
      cpu::choose_products(config.model.matmul_precision, config.model.bf16).products;
  const ParallelGrids grids = parallel_grids(config.layout);
  const StepPrograms programs = step_programs(config);
  const std::string name = "bench-" + random_digits(kUniqueDigits);
  RanksRun run;
  run_local_ranks(grids.world_size(), {.threads_per_rank = threads}, [&](Communicator& world) {
    const bool is_first = world.rank() == 0;
    const RankCommunicators ranks(grids, world);
    const MemoryPlan plan = plan_memory(config, *model, programs, world.rank(), {products});
    RankArenas arenas(plan.bytes);
    arenas.folders = open_folders(config.layout, name, world.rank());
    const auto backend = make_cpu_backend(threads, products);
    Rank rank(config, *model, programs, ranks, *backend, arenas);
    rank.initialise();
    StepTimers timers;
    rank.time_with(&timers);
    const auto per_step = num_microbatches(config.layout);
    for (std::int64_t step = 0; step <= steps; ++step) {
      std::vector<HostBatch> batches;
      for (std::int64_t m = 0; m < per_step; ++m) {
        const std::int64_t first =
            step * config.layout.global_batch_size +
            (m * data_parallel_size(config.layout) + ranks.coordinates.data) *
                config.layout.micro_batch_size;
        const std::int64_t samples = config.layout.micro_batch_size;
        batches.push_back(make_batch
                              ? make_batch(first, samples)
                              : random_batch(model->batch_schema(), first, samples, vocabulary));
      }
      rank.largest_of_all(0);  // everybody starts together
      const double passes = timers.seconds(StepTimer::kForwardBackward);
      const double waited = timers.seconds(StepTimer::kFiles);
      const auto begin = std::chrono::steady_clock::now();
      rank.train_step({.lr = 1e-4, .weight_decay = 0.01, .adam_step = step + 1},
                      [&batches](int microbatch) -> const HostBatch& {
                        return batches[static_cast<std::size_t>(microbatch)];
                      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (!is_first || step == 0) continue;
      run.seconds.push_back(seconds.count());
      run.pass_seconds.push_back(timers.seconds(StepTimer::kForwardBackward) - passes);
      run.file_seconds.push_back(timers.seconds(StepTimer::kFiles) - waited);
    }
    rank.finish_gather();  // peers read this rank's parameters
    if (is_first) run.plan = plan;
  });
  return run;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace phalanx::bench
