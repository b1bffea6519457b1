// Schedules as they run against schedules as they are simulated: the executor with the local
// transport, on stages that sleep instead of computing, so that any number of ranks fits on a few
// cores. A stage's pass takes --unit milliseconds; every kind that can be trained with is run.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench_main.h"
#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/simulator.h"
#include "phalanx/pipeline/verifier.h"

namespace phalanx::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 4;
  int microbatches = 8;
  double unit_milliseconds = 10.0;
  int rounds = 3;
  int width = 64;  // of the stream between stages
};

// Passes that take a time and touch nothing.
class SleepingUnit final : public nn::Unit {
 public:
  SleepingUnit(bool is_first, bool is_last, std::int64_t width, double milliseconds)
      : Unit("stage"), pass_(milliseconds) {
    if (!is_first) inputs_ = {{"stream", DType::kF32, width}};
    if (!is_last) outputs_ = {{"stream", DType::kF32, width}};
  }
  void forward(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*outputs*/,
               const nn::Saved& /*saved*/) const override {
    sleep();
  }
  void backward_input(nn::Pass& /*pass*/, Tensors /*inputs*/, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const nn::Saved& /*saved*/) const override {
    sleep();
  }
  void backward_weight(nn::Pass& /*pass*/, Tensors /*inputs*/, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {
    sleep();
  }

 private:
  void sleep() const { std::this_thread::sleep_until(Clock::now() + pass_); }
  std::chrono::duration<double, std::milli> pass_;
};

// A step without data, gradients or weights.
class NoServices final : public StepServices {
 public:
  const nn::Batch& load(int /*microbatch*/) override { return batch_; }
  const nn::Batch& loaded(int /*microbatch*/) override { return batch_; }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {}; }
  nn::Weights stale_weights(int /*version*/) override { return {}; }
  void reduce_gradients(int /*chunk*/) override {}
  void optimizer_step(int /*version*/) override {}
  void gather_parameters() override {}

 private:
  nn::Batch batch_;
};

class LastPass final : public PassObserver {
 public:
  void begin(const Action& /*pass*/) override {}
  void end(const Action& /*pass*/) override { time = Clock::now(); }
  Clock::time_point time;
};

void run_rank(const Options& o, const Schedule& schedule, const Program& program,
              Communicator& world, double& milliseconds) {
  const Placement& placement = schedule.placement;
  std::vector<Chunk> chunks;
  for (int c = 0; c < placement.chunks(); ++c) {
    const int stage = placement.stage(world.rank(), c);
    std::vector<std::unique_ptr<nn::Unit>> units;
    units.push_back(std::make_unique<SleepingUnit>(stage == 0, stage == placement.stages() - 1,
                                                   o.width, o.unit_milliseconds));
    chunks.emplace_back(std::move(units));
  }
  std::vector<ChunkTables> tables;
  for (const Chunk& chunk : chunks) tables.push_back({&chunk, {}, {}});
  const nn::BatchShape shape{.sequence = 1, .micro_batch = 1};
  Executor executor(program, tables, shape, &world);
  const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena workspace("workspace", 1 << 16);
  Arena saved("saved", executor.saved_plan().bytes());
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = nullptr};
  NoServices services;
  nn::UnitHooks hooks;
  LastPass last;
  world.barrier(context);
  const auto begin = Clock::now();
  executor.run(context, saved, {.shapes = shape, .region = {}, .training = true, .loss = {}},
               services, hooks, &last);
  milliseconds = std::chrono::duration<double, std::milli>(last.time - begin).count();
}

double measured_makespan(const Options& o, const Schedule& schedule) {
  const auto programs = lower(schedule);
  std::vector<double> of_round;
  for (int round = 0; round < o.rounds; ++round) {
    std::vector<double> ends(programs.size());
    run_local_ranks(o.ranks, {}, [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      run_rank(o, schedule, programs[rank], world, ends[rank]);
    });
    of_round.push_back(std::ranges::max(ends));
  }
  std::ranges::sort(of_round);
  return of_round[of_round.size() / 2];
}

void run(const Options& o) {
  fmt::print("{} ranks, {} microbatches, passes of {} ms, median of {} rounds\n\n", o.ranks,
             o.microbatches, o.unit_milliseconds, o.rounds);
  fmt::print("{:<16} {:>6} {:>13} {:>12} {:>20}\n", "schedule", "chunks", "simulated ms",
             "measured ms", "measured/simulated");
  const double unit = o.unit_milliseconds;
  const Costs costs{.stages = {{unit, unit, unit}}};
  double worst = 1.0;
  for (const ScheduleKind& kind : schedule_kinds()) {
    const Schedule schedule =
        make_schedule(kind.name, {.ranks = o.ranks, .microbatches = o.microbatches});
    verify(schedule);
    if (training_obstacle(schedule)) continue;
    const double simulated = simulate(schedule, costs).measures.makespan;
    const double measured = measured_makespan(o, schedule);
    worst = std::max(worst, measured / simulated);
    fmt::print("{:<16} {:>6} {:>13.1f} {:>12.1f} {:>20.3f}\n", kind.name,
               schedule.placement.chunks(), simulated, measured, measured / simulated);
  }
  fmt::print("\nworst {:.3f} (goal: at most 1.05)\n", worst);
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  std::int64_t ranks = options.ranks;
  std::int64_t microbatches = options.microbatches;
  std::int64_t rounds = options.rounds;
  const auto add = [&](phalanx::FlagSet& flags) {
    flags.add(
        {.name = "--ranks", .help = "Ranks of the pipeline", .range = phalanx::from_to(1, 1024)},
        &ranks);
    flags.add(
        {.name = "--microbatches", .help = "Microbatches", .range = phalanx::from_to(1, 1000000)},
        &microbatches);
    flags.add({.name = "--unit", .help = "Milliseconds of a pass", .range = phalanx::above(0)},
              &options.unit_milliseconds);
    flags.add({.name = "--rounds", .help = "Rounds", .range = phalanx::from_to(1, 1024)}, &rounds);
  };
  return phalanx::bench::bench_main(argc, argv, "bench_pipeline",
                                    "Measured against simulated makespans of pipeline schedules.",
                                    add, [&] {
                                      options.ranks = static_cast<int>(ranks);
                                      options.microbatches = static_cast<int>(microbatches);
                                      options.rounds = static_cast<int>(rounds);
                                      phalanx::bench::run(options);
                                    });
}
