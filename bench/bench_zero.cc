// What sharing states costs: steps of one model on data-parallel ranks under the stages of ZeRO, in
// turns, beside the bytes that their plans send more.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bench_main.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/rules/resolve.h"
#include "ranks_run.h"

namespace phalanx::bench {
namespace {

struct Options {
  GptSize size;
  std::int64_t micro_batch = 2;
  std::int64_t global_batch = 8;
  std::int64_t ranks = 2;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;

  void add_to(FlagSet& flags) {
    size.add_to(flags);
    flags.add({.name = "--micro-batch-size", .help = "Samples of a rank's microbatch"},
              &micro_batch);
    flags.add({.name = "--global-batch-size", .help = "Samples of a step"}, &global_batch);
    flags.add({.name = "--ranks", .help = "Data-parallel ranks, one thread each"}, &ranks);
    flags.add({.name = "--rounds", .help = "Turns of each stage"}, &rounds);
    flags.add({.name = "--steps", .help = "Timed steps in a turn, after one of warm-up"}, &steps);
  }
};

struct Stage {
  std::string name;
  std::int64_t number = 0;
  bool keeps_forward = false;  // parameters from forward to backward
  RanksRun run = {};           // of all turns
};

TrainConfig config_of(const Options& o, const Stage& stage) {
  TrainConfig c = o.size.config();
  c.layout.world_size = o.ranks;
  c.layout.micro_batch_size = o.micro_batch;
  c.layout.global_batch_size = o.global_batch;
  c.layout.zero_stage = stage.number;
  c.layout.no_zero_reshard_after_forward = stage.keeps_forward;
  resolve(c, false);
  return c;
}

// Bytes that a rank sends to others in a step. A plan has what it contributes: of a sum that
// everybody gets, all of it twice, less its own part.
double sent_bytes(const MemoryPlan& plan, std::int64_t ranks) {
  const auto d = static_cast<double>(ranks);
  double bytes = 0.0;
  for (const auto& [key, total] : plan.messages.by_key()) {
    const auto payload = static_cast<double>(total.bytes);
    if (key.second == "all_gather") {
      bytes += payload * (d - 1.0);
    } else {
      bytes += payload * (key.second == "all_reduce" ? 2.0 : 1.0) * (d - 1.0) / d;
    }
  }
  return bytes;
}

// Bytes per second that a rank sends in sums of 64 MiB.
double message_rate(const Options& o) {
  constexpr std::int64_t kElements = std::int64_t{16} << 20;
  constexpr int kTimes = 9;
  std::vector<double> seconds;
  run_local_ranks(static_cast<int>(o.ranks), {.threads_per_rank = 1}, [&](Communicator& world) {
    Arena arena("numbers", kElements * size_of(DType::kF32));
    Arena workspace("workspace", 1 << 20);
    const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Context context{.backend = *backend, .workspace = workspace};
    const Tensor numbers = arena.allocate(DType::kF32, {kElements});
    for (int i = 0; i < kTimes; ++i) {
      world.barrier(context);
      const auto begin = std::chrono::steady_clock::now();
      world.all_reduce(context, numbers, Reduction::kSum).wait(context.queue);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (world.rank() == 0 && i > 0) seconds.push_back(took.count());
    }
    world.barrier(context);  // peers read these numbers
  });
  const auto d = static_cast<double>(o.ranks);
  return static_cast<double>(kElements * size_of(DType::kF32)) * 2.0 * (d - 1.0) / d /
         median(seconds);
}

void run(const Options& o) {
  std::vector<Stage> stages = {{"0: data parallel", 0},
                               {"1: optimizer states", 1},
                               {"2: gradients, too", 2},
                               {"3: parameters, too", 3},
                               {"3, kept from forward to backward", 3, true}};
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    for (Stage& stage : stages) {
      RanksRun turn = run_on_ranks(config_of(o, stage), o.size.vocabulary, o.steps);
      append(turn.seconds, stage.run.seconds);
      stage.run = std::move(turn);
    }
  }
  const double rate = message_rate(o);
  const double plain = median(stages.front().run.seconds);
  const double plain_sent = sent_bytes(stages.front().run.plan, o.ranks);
  fmt::print(
      "{} ranks, {} layers, hidden {}, sequence {}, vocabulary {}, global batch {} in microbatches "
      "of {}, {}: {} rounds; a rank sends {:.2f} GB/s\n",
      o.ranks, o.size.layers, o.size.hidden, o.size.sequence, o.size.vocabulary, o.global_batch,
      o.micro_batch, o.size.bf16 ? "bf16" : "fp32", o.rounds, rate / 1e9);
  fmt::print(
      "| stage | memory | sent in a step | step, median | best | speed against stage 0 | "
      "by the bytes it sends |\n|---|---|---|---|---|---|---|\n");
  for (const Stage& stage : stages) {
    const double middle = median(stage.run.seconds);
    const double sent = sent_bytes(stage.run.plan, o.ranks);
    fmt::print("| {} | {:.0f} MiB | {:.0f} MiB | {:.1f} ms | {:.1f} ms | {:.3f} | {:.3f} |\n",
               stage.name, static_cast<double>(stage.run.plan.bytes.total()) / (1 << 20),
               sent / (1 << 20), 1e3 * middle, 1e3 * *std::ranges::min_element(stage.run.seconds),
               plain / middle, plain / (plain + (sent - plain_sent) / rate));
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx::bench;
  Options options;
  return bench_main(
      argc, argv, "bench_zero", "Times steps under the stages of ZeRO, in turns.",
      [&](phalanx::FlagSet& flags) { options.add_to(flags); }, [&] { run(options); });
}
