// What a save costs: how long an iteration stands for it beside a copy of the states in memory, and
// how fast ranks write beside the disk. Whole tensors by the first rank, parts, and parts while
// training goes on, by turns.

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "bench_main.h"
#include "phalanx/base/file.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/families/family.h"
#include "phalanx/offload/bandwidth.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/run_saver.h"
#include "phalanx/settings/config_views.h"
#include "random_batch.h"
#include "ranks_run.h"
#include "save_picture.h"

namespace phalanx::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> directories;
  GptSize size;
  std::int64_t ranks = 1;
  std::int64_t zero = 1;
  std::int64_t micro_batch = 1;
  std::int64_t rounds = 5;
  std::int64_t steps = 3;
  std::int64_t disk_mib = 512;
  std::string svg;

  void add_to(FlagSet& flags) {
    flags.add_positional({.name = "DIR",
                          .help = "A directory on the disk; what is made there is removed",
                          .values = &directories,
                          .least = 1,
                          .most = 1});
    size.add_to(flags);
    flags.add({.name = "--ranks", .help = "Data-parallel ranks, one thread each"}, &ranks);
    flags.add({.name = "--zero-stage", .help = "Of several ranks"}, &zero);
    flags.add({.name = "--micro-batch-size", .help = "Samples of a rank's step"}, &micro_batch);
    flags.add({.name = "--rounds", .help = "Turns of each"}, &rounds);
    flags.add({.name = "--steps", .help = "Steps before a save in a turn"}, &steps);
    flags.add({.name = "--disk-mib", .help = "MiB of the file that measures the disk"}, &disk_mib);
    flags.add(
        {.name = "--svg", .help = "Also draws the last turn of each way", .value_name = "FILE"},
        &svg);
  }
};

// One way to save, and what the first rank measured, by turn.
struct Way {
  std::string name;
  bool in_parts = false;
  bool in_background = false;
  double fraction = 0.0;
  std::vector<double> step = {};   // seconds of one without a save
  std::vector<double> stand = {};  // for a save: its beginning, copies and waits
  std::vector<double> next = {};   // of the step after the save has begun
  std::vector<double> span = {};   // from its beginning until the checkpoint is in its place
  std::vector<double> copy = {};   // of a copy of the states that the rank saves
  std::int64_t bytes = 0;          // that the first rank saves
  SaveLane lane = {};              // of the last turn
};

TrainConfig config_of(const Options& o, const Way& way) {
  TrainConfig c = o.size.config();
  c.layout.world_size = o.ranks;
  c.layout.micro_batch_size = o.micro_batch;
  c.layout.global_batch_size = o.micro_batch * o.ranks;
  if (o.ranks > 1) c.layout.zero_stage = o.zero;
  c.run.save = (fs::path(o.directories.front()) / "bench_checkpoint").string();
  c.run.save_interval = 1;
  c.run.ckpt_fully_parallel_save = way.in_parts;
  c.run.async_save = way.in_background;
  // The memory is there for the copy that everything is compared with.
  if (way.in_background) c.run.snapshot_fraction = way.fraction;
  resolve(c, false);
  return c;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A copy of what the rank saves, by its team.
double time_of_copy(Rank& rank, const std::vector<SavedTile>& tiles) {
  std::int64_t bytes = 0;
  for (const SavedTile& tile : tiles) bytes += tile.bytes();
  Arena memory("copies", bytes + kArenaAlignment);
  double seconds = 0;
  for (int turn = 0; turn < 2; ++turn) {  // the first one takes the memory
    const auto begin = Clock::now();
    std::int64_t offset = 0;
    for (const SavedTile& tile : tiles) {
      for (const SavedRange& range : tile.ranges) {
        ops::copy(rank.context(), {.destination = dense_tensor(memory, offset, range.local.dtype,
                                                               range.local.shape),
                                   .source = range.local});
        offset += range.bytes();
      }
    }
    seconds = seconds_since(begin);
  }
  return seconds;
}

void run_turn(const Options& o, Way& way) {
  const TrainConfig config = config_of(o, way);
  fs::remove_all(config.run.save);
  const auto model = make_model(config, o.size.vocabulary);
  const auto products =
      cpu::choose_products(config.model.matmul_precision, config.model.bf16).products;
  const StepPrograms programs = step_programs(config);
  const RunIdentity identity{.run_id = random_digits(32)};
  const RunInputs inputs;
  const ParameterSchedule schedule = parameter_schedule(config);
  const std::optional<Manifest::Base> base;
  LocalMailbox mailbox;
  run_local_ranks(static_cast<int>(o.ranks), {.threads_per_rank = 1}, [&](Communicator& world) {
    const bool is_first = world.rank() == 0;
    const RankCommunicators ranks(parallel_grids(config.layout), world);
    const MemoryPlan plan = plan_memory(config, *model, programs, world.rank(), {products});
    RankArenas arenas(plan.bytes);
    const auto backend = make_cpu_backend(1, products);
    Rank rank(config, *model, programs, ranks, *backend, arenas);
    rank.initialise();
    if (rank.snapshot_memory()) {
      ops::fill(rank.context(), {.x = rank.snapshot_memory(), .value = 0.0});  // as a run does
    }
    StepTimers timers;
    rank.time_with(&timers);
    RunSaver saver({.config = config,
                    .identity = identity,
                    .inputs = inputs,
                    .schedule = schedule,
                    .products = "fp32",
                    .base = base},
                   {.directory = config.run.save, .retention = {.keep_last = 1}}, rank,
                   {.note = [](const RunNote&) {},
                    .timers = timers,
                    .times = [] { return std::vector<TimerRow>(); }},
                   {.mailbox = &mailbox});
    const auto tiles = saved_tiles(rank, {});
    const double copy = time_of_copy(rank, tiles);
    RunState state;
    SaveLane lane{.name = way.name, .steps = {}, .stands = {}, .saves = {}};
    Clock::time_point origin = Clock::now();
    const auto since_origin = [&](Clock::time_point at) {
      return std::chrono::duration<double>(at - origin).count();
    };
    const auto step = [&] {
      const HostBatch batch =
          random_batch(model->batch_schema(), state.iteration * o.ranks + world.rank(),
                       o.micro_batch, o.size.vocabulary);
      rank.largest_of_all(0);  // everybody starts together
      const auto begin = Clock::now();
      rank.train_step({.lr = 1e-4, .weight_decay = 0.01, .adam_step = ++state.iteration},
                      [&batch](int) -> const HostBatch& { return batch; });
      const double seconds = seconds_since(begin);
      lane.steps.push_back({since_origin(begin), since_origin(begin) + seconds});
      saver.poll(state.iteration);
      return seconds;
    };
    step();
    lane.steps.clear();
    origin = Clock::now();
    std::vector<double> steps;
    for (std::int64_t i = 0; i < o.steps; ++i) steps.push_back(step());
    rank.largest_of_all(0);
    const auto begin = Clock::now();
    saver.save(state, RunSaver::Occasion::kPeriodic);
    double span = seconds_since(begin);
    lane.stands.push_back({since_origin(begin), since_origin(begin) + span});
    const double next = step();
    if (way.in_background) span = seconds_since(begin);
    const double stand =
        timers.seconds(StepTimer::kSaveCheckpoint) + timers.seconds(StepTimer::kSnapshot);
    // An update waits or copies at the end of its step.
    const double waited = timers.seconds(StepTimer::kSnapshot);
    if (waited > 0) lane.stands.push_back({lane.steps.back().end - waited, lane.steps.back().end});
    while (rank.largest_of_all(saver.is_under_way() ? 1 : 0) > 0) {
      step();
      span = seconds_since(begin);
    }
    lane.saves.push_back({since_origin(begin), since_origin(begin) + span});
    for (int i = 0; i < 2 && !o.svg.empty(); ++i) step();
    rank.finish_gather();
    rank.largest_of_all(0);
    if (!is_first) return;
    way.step.push_back(median(steps));
    way.stand.push_back(stand);
    way.next.push_back(next);
    way.span.push_back(span);
    way.copy.push_back(copy);
    way.lane = lane;
    way.bytes = 0;
    for (const SavedTile& tile : tiles) way.bytes += tile.bytes();
  });
  fs::remove_all(config.run.save);
}

double disk_rate(const Options& o) {
  StorageFolder folder(o.directories.front(), "bench-" + random_digits(kUniqueDigits), 0,
                       "bench_checkpoint");
  return measure_bandwidth(folder, {.file_bytes = o.disk_mib << 20, .seconds = 1.0}).write_per_s;
}

void run(const Options& o) {
  std::vector<Way> ways = {{"whole, by the first rank"},
                           {"parts", true},
                           {"parts, beside training, all copied", true, true, 1.0},
                           {"parts, beside training, half copied", true, true, 0.5},
                           {"parts, beside training, nothing copied", true, true, 0.0}};
  std::vector<double> disk;
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    disk.push_back(disk_rate(o));
    for (Way& way : ways) run_turn(o, way);
  }
  const double of_disk = median(disk);
  fmt::print(
      "{} ranks, {} layers, hidden {}, vocabulary {}, {}: a rank saves {:.0f} MiB; the disk takes "
      "{:.2f} GB/s; {} rounds, medians\n",
      o.ranks, o.size.layers, o.size.hidden, o.size.vocabulary, o.size.bf16 ? "bf16" : "fp32",
      static_cast<double>(ways.front().bytes) / (1 << 20), of_disk / 1e9, o.rounds);
  fmt::print(
      "| a save | stands | of a copy of the states | a step | the step after it | until it is in "
      "its "
      "place | all ranks' bytes a second | of the disk |\n|---|---|---|---|---|---|---|---|\n");
  for (const Way& way : ways) {
    const double rate =
        static_cast<double>(way.bytes) * static_cast<double>(o.ranks) / median(way.span);
    fmt::print(
        "| {} | {:.4f} s | {:.2f} | {:.4f} s | {:.4f} s | {:.3f} s | {:.2f} GB/s | {:.2f} |\n",
        way.name, median(way.stand), median(way.stand) / median(way.copy), median(way.step),
        median(way.next), median(way.span), rate / 1e9, rate / of_disk);
  }
  if (o.svg.empty()) return;
  std::vector<SaveLane> lanes;
  for (const Way& way : ways) lanes.push_back(way.lane);
  write_file_durably(o.svg, save_picture(lanes));
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  return phalanx::bench::bench_main(
      argc, argv, "bench_checkpoint", "What a save costs.",
      [&](phalanx::FlagSet& flags) { options.add_to(flags); },
      [&] { phalanx::bench::run(options); });
}
