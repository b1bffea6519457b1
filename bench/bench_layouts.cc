// The same model and global batch under several layouts, in turns: how long a training step takes
// against one rank with all the threads.

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/rules/resolve.h"
#include "ranks_run.h"

namespace phalanx::bench {
namespace {

struct Options {
  GptSize size;
  std::int64_t micro_batch = 4;
  std::int64_t global_batch = 8;
  std::int64_t ranks = 2;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;
};

Options parse(const std::vector<std::string>& arguments) {
  Options o;
  FlagSet flags("bench_layouts",
                "Times training steps of one model under several layouts, in turns.");
  o.size.add_to(flags);
  flags.add({.name = "--micro-batch-size", .help = "Samples of a microbatch"}, &o.micro_batch);
  flags.add({.name = "--global-batch-size", .help = "Samples of a step"}, &o.global_batch);
  flags.add({.name = "--ranks", .help = "Ranks of the parallel layouts, one thread each"},
            &o.ranks);
  flags.add({.name = "--rounds", .help = "Turns of each layout"}, &o.rounds);
  flags.add({.name = "--steps", .help = "Timed steps in a turn, after one of warm-up"}, &o.steps);
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
         c.layout.decoder_last_pipeline_num_layers = o.ranks == 2 ? o.size.layers / 2 - 1 : 0;
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
  TrainConfig c = o.size.config();
  c.layout.micro_batch_size = o.micro_batch;
  c.layout.global_batch_size = o.global_batch;
  layout.apply(c);
  // A data-parallel rank takes its share of what one rank takes at a time; a pipeline takes as many
  // more microbatches.
  c.layout.micro_batch_size /= c.layout.world_size / c.layout.tensor_model_parallel_size;
  resolve(c, false);
  return c;
}

void run_turn(const Options& o, Layout& layout) {
  append(layout.seconds, run_on_ranks(config_of(o, layout), o.size.vocabulary, o.steps).seconds);
}

void run(const Options& o) {
  std::vector<Layout> layouts = layouts_of(o);
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    for (Layout& layout : layouts) run_turn(o, layout);
  }
  fmt::print("{} layers, hidden {}, sequence {}, vocabulary {}, global batch {}, {}: {} rounds\n",
             o.size.layers, o.size.hidden, o.size.sequence, o.size.vocabulary, o.global_batch,
             o.size.bf16 ? "bf16" : "fp32", o.rounds);
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
