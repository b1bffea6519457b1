// States in files: the update beside the disk, and steps with files beside steps in memory - once
// with so little arithmetic that the disk decides, once with so much that it should not show.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bench_main.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/families/family.h"
#include "phalanx/offload/bandwidth.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/rank/rank_folders.h"
#include "phalanx/rehearsal/disk_time.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "ranks_run.h"

namespace phalanx::bench {
namespace {

struct Options {
  std::vector<std::string> directories;
  GptSize size;
  std::int64_t threads = 2;
  std::int64_t sequence_of_few = 8;
  std::int64_t global_batch = 8;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;
  std::int64_t disk_mib = 512;
  bool parameters = false;

  const std::string& directory() const { return directories.front(); }
  void add_to(FlagSet& flags) {
    flags.add_positional({.name = "DIR",
                          .help = "A directory on the disk; what is made there is removed",
                          .values = &directories,
                          .least = 1,
                          .most = 1});
    size.add_to(flags);
    flags.add({.name = "--threads", .help = "Threads of the rank"}, &threads);
    flags.add({.name = "--few", .help = "Tokens of a step with little arithmetic"},
              &sequence_of_few);
    flags.add({.name = "--global-batch-size", .help = "Samples of a step with much arithmetic"},
              &global_batch);
    flags.add({.name = "--rounds", .help = "Turns of each"}, &rounds);
    flags.add({.name = "--steps", .help = "Timed steps in a turn, after one of warm-up"}, &steps);
    flags.add({.name = "--disk-mib", .help = "MiB of the file that measures the disk"}, &disk_mib);
    flags.add({.name = "--parameters", .help = "Parameters in files, too"}, &parameters);
  }
};

TrainConfig config_of(const Options& o, bool has_files, bool has_few) {
  GptSize size = o.size;
  if (has_few) size.sequence = o.sequence_of_few;
  TrainConfig c = size.config();
  c.layout.threads_per_rank = o.threads;
  c.layout.micro_batch_size = 1;
  c.layout.global_batch_size = has_few ? 1 : o.global_batch;
  if (has_files) c.layout.offload_optimizer_to = o.directory();
  if (has_files && o.parameters) c.layout.offload_parameters_to = o.directory();
  resolve(c, false);
  return c;
}

// The disk by itself, and that of every turn: bytes per second.
struct Disk {
  std::vector<double> read, written, by_turns;

  void measure(const Options& o) {
    StorageFolder folder(o.directory(), "bench-" + random_digits(kUniqueDigits), 0, "bench_files");
    const DiskBandwidth once =
        measure_bandwidth(folder, {.file_bytes = o.disk_mib << 20, .seconds = 1.0});
    read.push_back(once.read_per_s);
    written.push_back(once.write_per_s);
    by_turns.push_back(once.both_per_s);
  }
  // As a plan with --disk-bandwidth says.
  double seconds(const DiskTraffic& traffic) const {
    return static_cast<double>(traffic.read) / median(read) +
           static_cast<double>(traffic.written) / median(written);
  }
};

struct Update {
  DiskTraffic traffic;
  std::vector<double> seconds;
};

// Updates alone, one after the other, of states that lie in files.
Update run_updates(const Options& o) {
  TrainConfig config = config_of(o, true, true);
  config.layout.zero_stage = 1;
  config.layout.offload_parameters_to.clear();
  const auto model = make_model(config, o.size.vocabulary);
  const auto products =
      cpu::choose_products(config.model.matmul_precision, config.model.bf16).products;
  const StepPrograms programs = step_programs(config);
  const auto threads = static_cast<int>(o.threads);
  Update update;
  run_local_ranks(1, {.threads_per_rank = threads}, [&](Communicator& world) {
    const RankCommunicators ranks(parallel_grids(config.layout), world);
    const MemoryPlan plan = plan_memory(config, *model, programs, 0, {products});
    RankArenas arenas(plan.bytes);
    arenas.folders =
        open_folders(config.layout, "bench-" + random_digits(kUniqueDigits), world.rank());
    const auto backend = make_cpu_backend(threads, products);
    Rank rank(config, *model, programs, ranks, *backend, arenas);
    rank.initialise();
    Arena scalars("scalars", kArenaAlignment);
    const Tensor loss_scale = scalars.allocate(DType::kF32, {1});
    ops::fill(rank.context(), {.x = loss_scale, .value = 1.0});
    update.traffic = disk_traffic(plan.transfers);
    StepInputs inputs{.lr = 1e-4, .weight_decay = 0.01, .tokens = {}, .loss_scale = loss_scale};
    for (inputs.step = 1; inputs.step <= o.steps + 1; ++inputs.step) {
      const auto begin = std::chrono::steady_clock::now();
      rank.states().optimizer().step(rank.context(), inputs);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (inputs.step > 1) update.seconds.push_back(took.count());
    }
  });
  return update;
}

// A step with files and the same in memory.
struct Pair {
  std::string name;
  bool has_few = false;
  RanksRun memory = {}, files = {};  // of all turns

  void run_turn(const Options& o) {
    for (const bool has_files : {false, true}) {
      RanksRun turn = run_on_ranks(config_of(o, has_files, has_few), o.size.vocabulary, o.steps);
      RanksRun& all = has_files ? files : memory;
      append(turn.seconds, all.seconds);
      append(turn.pass_seconds, all.pass_seconds);
      append(turn.file_seconds, all.file_seconds);
      all = std::move(turn);
    }
  }
};

void print_update(const Update& update, const Disk& disk) {
  const auto bytes = static_cast<double>(update.traffic.read + update.traffic.written);
  const double rate = bytes / median(update.seconds);
  fmt::print(
      "the disk: {:.2f} GB/s read, {:.2f} written, {:.2f} by turns\n"
      "an update: {:.0f} MiB read, {:.0f} written in {:.3f} s: {:.2f} GB/s, {:.2f} of the disk by "
      "turns, {:.2f} of reading and writing one after the other\n",
      median(disk.read) / 1e9, median(disk.written) / 1e9, median(disk.by_turns) / 1e9,
      static_cast<double>(update.traffic.read) / (1 << 20),
      static_cast<double>(update.traffic.written) / (1 << 20), median(update.seconds), rate / 1e9,
      rate / median(disk.by_turns), disk.seconds(update.traffic) / median(update.seconds));
}

// The norm of all gradients comes before the first update: a step cannot be faster than the disk
// alone, nor much faster than its passes and the disk one after the other.
void print_pair(const Pair& pair, const Disk& disk) {
  const DiskTraffic traffic = disk_traffic(pair.files.plan.transfers);
  const double memory = median(pair.memory.seconds);
  const double passes = median(pair.memory.pass_seconds);
  const double files = median(pair.files.seconds);
  const double of_disk = disk.seconds(traffic);
  fmt::print(
      "| {} | {:.0f} MiB | {:.3f} s | {:.3f} s | {:.3f} s | {:.3f} s | {:.3f} s | {:.2f} | {:.2f} "
      "| {:.2f} ({:.2f}) |\n",
      pair.name, static_cast<double>(traffic.read + traffic.written) / (1 << 20), of_disk, passes,
      memory, files, median(pair.files.file_seconds), of_disk / files, (of_disk + passes) / files,
      memory / files,
      *std::ranges::min_element(pair.memory.seconds) /
          *std::ranges::min_element(pair.files.seconds));
}

void run(const Options& o) {
  Disk disk;
  Update update;
  std::vector<Pair> pairs = {{fmt::format("{} tokens", o.sequence_of_few), true},
                             {fmt::format("{} tokens", o.size.sequence * o.global_batch), false}};
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    disk.measure(o);
    const Update turn = run_updates(o);
    update.traffic = turn.traffic;
    append(update.seconds, turn.seconds);
    for (Pair& pair : pairs) pair.run_turn(o);
  }
  fmt::print("{} layers, hidden {}, vocabulary {}, {}, {} threads: {} rounds, medians\n",
             o.size.layers, o.size.hidden, o.size.vocabulary, o.size.bf16 ? "bf16" : "fp32",
             o.threads, o.rounds);
  print_update(update, disk);
  fmt::print(
      "| a step of | moved | the disk alone | passes alone | in memory | with files | of it "
      "waiting for files | share of the disk's speed | of the disk's and the passes' | of memory's "
      "(best steps) |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Pair& pair : pairs) print_pair(pair, disk);
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx::bench;
  Options options;
  return bench_main(
      argc, argv, "bench_files", "Times states in files beside the disk and beside memory.",
      [&](phalanx::FlagSet& flags) { options.add_to(flags); }, [&] { run(options); });
}
