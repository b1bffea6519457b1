// The same model and global batch under several layouts, in turns: how long a training step takes
// against one rank with all the threads.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/train/config_views.h"
#include "phalanx/train/family.h"
#include "phalanx/train/memory_plan.h"
#include "random_batch.h"

namespace phalanx::bench {
namespace {

struct Options {
  std::int64_t layers = 4;
  std::int64_t hidden = 512;
  std::int64_t heads = 8;
  std::int64_t sequence = 256;
  std::int64_t vocabulary = 8192;
  std::int64_t micro_batch = 4;
  std::int64_t global_batch = 8;
  std::int64_t ranks = 2;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;
  bool bf16 = false;
};

Options parse(const std::vector<std::string>& arguments) {
  Options o;
  FlagSet flags("bench_layouts",
                "Times training steps of one model under several layouts, in turns.");
  flags.add({.name = "--num-layers", .help = "Layers"}, &o.layers);
  flags.add({.name = "--hidden-size", .help = "Hidden size"}, &o.hidden);
  flags.add({.name = "--num-attention-heads", .help = "Heads"}, &o.heads);
  flags.add({.name = "--seq-length", .help = "Tokens of a sample"}, &o.sequence);
  flags.add({.name = "--vocab-size", .help = "Vocabulary"}, &o.vocabulary);
  flags.add({.name = "--micro-batch-size", .help = "Samples of a microbatch"}, &o.micro_batch);
  flags.add({.name = "--global-batch-size", .help = "Samples of a step"}, &o.global_batch);
  flags.add({.name = "--ranks", .help = "Ranks of the parallel layouts, one thread each"},
            &o.ranks);
  flags.add({.name = "--rounds", .help = "Turns of each layout"}, &o.rounds);
  flags.add({.name = "--steps", .help = "Timed steps in a turn, after one of warm-up"}, &o.steps);
  flags.add({.name = "--bf16", .help = "bf16 instead of fp32"}, &o.bf16);
  flags.parse(arguments);
  return o;
}

struct Layout {
  std::string name;
  std::function<void(TrainConfig&)> apply;
  std::vector<double> seconds;  // of the timed steps
};

std::vector<Layout> layouts_of(const Options& o) {
  const auto tensor = [&o](TrainConfig& c) {
    c.layout.world_size = o.ranks;
    c.layout.tensor_model_parallel_size = o.ranks;
  };
  const auto pipeline = [&o](TrainConfig& c) {
    c.layout.world_size = o.ranks;
    c.layout.pipeline_model_parallel_size = o.ranks;
  };
  const auto data = [&o](TrainConfig& c) { c.layout.world_size = o.ranks; };
  const std::string n = std::to_string(o.ranks);
  return {
      {"one rank, " + n + " threads",
       [&o](TrainConfig& c) { c.layout.threads_per_rank = o.ranks; },
       {}},
      {"tensor " + n, tensor, {}},
      {"tensor " + n + ", no overlap",
       [tensor](TrainConfig& c) {
         tensor(c);
         c.layout.no_async_tensor_model_parallel_allreduce = true;
       },
       {}},
      {"tensor " + n + " + sequence",
       [tensor](TrainConfig& c) {
         tensor(c);
         c.layout.sequence_parallel = true;
       },
       {}},
      {"tensor " + n + " + sequence, no overlap",
       [tensor](TrainConfig& c) {
         tensor(c);
         c.layout.sequence_parallel = true;
         c.layout.no_async_tensor_model_parallel_allreduce = true;
       },
       {}},
      {"pipeline " + n, pipeline, {}},
      {"pipeline " + n + ", zb-h1",
       [pipeline](TrainConfig& c) {
         pipeline(c);
         c.layout.pipeline_schedule = "zb-h1";
       },
       {}},
      {"pipeline " + n + ", zb-h1, one layer less beside the head",
       [pipeline, &o](TrainConfig& c) {
         pipeline(c);
         c.layout.pipeline_schedule = "zb-h1";
         c.layout.decoder_last_pipeline_num_layers = o.ranks == 2 ? o.layers / 2 - 1 : 0;
       },
       {}},
      {"data " + n, data, {}},
      {"data " + n + ", overlap",
       [data](TrainConfig& c) {
         data(c);
         c.layout.overlap_grad_reduce = true;
         c.layout.ddp_bucket_size = 1'000'000;
       },
       {}},
      {"data " + n + ", distributed optimizer",
       [data](TrainConfig& c) {
         data(c);
         c.layout.use_distributed_optimizer = true;
       },
       {}},
      {"data " + n + ", distributed optimizer, overlap",
       [data](TrainConfig& c) {
         data(c);
         c.layout.use_distributed_optimizer = true;
         c.layout.overlap_grad_reduce = true;
         c.layout.overlap_param_gather = true;
         c.layout.ddp_bucket_size = 1'000'000;
       },
       {}},
  };
}

TrainConfig config_of(const Options& o, const Layout& layout) {
  TrainConfig c;
  c.model.num_layers = o.layers;
  c.model.hidden_size = o.hidden;
  c.model.num_attention_heads = o.heads;
  c.data.seq_length = o.sequence;
  c.model.max_position_embeddings = o.sequence;
  c.model.attention_dropout = 0.0;
  c.model.hidden_dropout = 0.0;
  c.layout.micro_batch_size = o.micro_batch;
  c.layout.global_batch_size = o.global_batch;
  c.layout.threads_per_rank = 1;
  c.model.bf16 = o.bf16;
  layout.apply(c);
  // A data-parallel rank takes its share of what one rank takes at a time; a pipeline takes as many
  // more microbatches.
  c.layout.micro_batch_size /= c.layout.world_size / c.layout.tensor_model_parallel_size;
  resolve(c, false);
  return c;
}

void run_turn(const Options& o, Layout& layout) {
  const TrainConfig config = config_of(o, layout);
  const auto model = make_model(config, o.vocabulary);
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  const auto products =
      cpu::choose_products(config.model.matmul_precision, config.model.bf16).products;
  const RankGrid grid = rank_grid(config.layout);
  const StepPrograms programs = step_programs(config);
  run_local_ranks(grid.world_size(), {.threads_per_rank = threads}, [&](Communicator& world) {
    const RankCommunicators ranks(grid, world);
    RankArenas arenas =
        allocate_arenas(plan_memory(config, *model, programs, world.rank(), products));
    const auto backend = make_cpu_backend(threads, products);
    Rank rank(config, *model, programs, ranks, *backend, arenas);
    rank.initialise();
    const auto per_step = num_microbatches(config.layout);
    for (std::int64_t step = 0; step <= o.steps; ++step) {
      std::vector<HostBatch> batches;
      for (std::int64_t m = 0; m < per_step; ++m) {
        const std::int64_t first = step * config.layout.global_batch_size +
                                   (m * data_parallel_size(config.layout) + ranks.at.data) *
                                       config.layout.micro_batch_size;
        batches.push_back(random_batch(model->batch_schema(), first, config.layout.micro_batch_size,
                                       o.vocabulary));
      }
      rank.largest_of_all(0);  // everybody starts together
      const auto begin = std::chrono::steady_clock::now();
      rank.train_step({.lr = 1e-4, .weight_decay = 0.01, .adam_step = step + 1},
                      [&batches](int microbatch) -> const HostBatch& {
                        return batches[static_cast<std::size_t>(microbatch)];
                      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (world.rank() == 0 && step > 0) layout.seconds.push_back(seconds.count());
    }
    rank.finish_gather();  // peers read this rank's parameters
  });
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run(const Options& o) {
  std::vector<Layout> layouts = layouts_of(o);
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    for (Layout& layout : layouts) run_turn(o, layout);
  }
  fmt::print("{} layers, hidden {}, sequence {}, vocabulary {}, global batch {}, {}: {} rounds\n",
             o.layers, o.hidden, o.sequence, o.vocabulary, o.global_batch, o.bf16 ? "bf16" : "fp32",
             o.rounds);
  fmt::print("| layout | step, median | best | speed against the first |\n|---|---|---|---|\n");
  const double first = median(layouts.front().seconds);
  for (const Layout& layout : layouts) {
    const double middle = median(layout.seconds);
    fmt::print("| {} | {:.1f} ms | {:.1f} ms | {:.3f} |\n", layout.name, 1e3 * middle,
               1e3 * *std::ranges::min_element(layout.seconds), first / middle);
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx;
  try {
    bench::run(bench::parse({argv + 1, argv + argc}));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return error.exit_status();
  }
}
