#include "phalanx/start/run_setup.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "phalanx/base/machine.h"
#include "phalanx/base/progress.h"
#include "phalanx/families/family.h"
#include "phalanx/inference/run_answers.h"
#include "phalanx/rehearsal/memory_check.h"
#include "phalanx/saving/memory_snapshots.h"
#include "phalanx/saving/resume.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/schedule_flags.h"
#include "phalanx/start/adapter_sources.h"
#include "phalanx/start/imported_parts.h"
#include "phalanx/start/snapshot_share.h"

namespace phalanx {
namespace {

// A run from another run's weights begins with its first iteration.
RunPosition begin_of(const TrainConfig& config, const std::optional<Manifest>& loaded) {
  return loaded && !config.run.finetune ? position_of(*loaded) : RunPosition{};
}

// The sample counts that the data order is built for. A resumed run keeps the order it began with.
SampleCounts counts_of(const RunSetup& setup) {
  if (!setup.loaded || setup.config.run.finetune) return setup.length.requested();
  const auto& stored = setup.loaded->requested_samples;
  const SampleCounts counts{.train = stored.train, .valid = stored.valid, .test = stored.test};
  return counts == SampleCounts{} ? setup.length.requested() : counts;
}

}  // namespace

RunSetup::RunSetup(const TrainConfig& given, RankRunner& runner, const std::function<bool()>& stop,
                   std::span<const RefusedCheckpoint> refused)
    : RunSetup(decide_run(given, runner, refused), runner, stop) {}

RunSetup::RunSetup(const TrainConfig& given, const std::function<bool()>& stop)
    : RunSetup(given, *make_thread_runner(static_cast<int>(given.layout.world_size)), stop) {}

RunSetup::RunSetup(DecidedRun start, RankRunner& runner, const std::function<bool()>& stop)
    : config(std::move(start.config)),
      lock(std::move(start.lock)),
      places(runner.places()),
      grids(parallel_grids(config.layout)),
      tokenizer(make_tokenizer(config.tokenizer)),
      checkpoint(std::move(start.checkpoint)),
      base(std::move(start.base)),
      loaded(checkpoint ? std::optional(checkpoint->manifest()) : std::nullopt),
      loads_from_memory(checkpoint && checkpoint->is_in_memory()),
      loads_from_save(checkpoint && is_saved_in(config.run.save, *checkpoint)),
      identity(std::move(start.decisions.identity)),
      directory(std::move(start.directory)),
      name(std::move(start.decisions.name)),
      inputs(run_inputs(config)),
      length(config, begin_of(config, loaded)),
      schedule(loaded ? check_resume(config, *loaded) : parameter_schedule(config)),
      device(std::move(start.decisions.device)),
      model(make_model(config, tokenizer->vocab_size())),
      programs(step_programs(config, length)),
      plans(plan_ranks(config, *model, programs, device.choice(), runner.own_ranks())),
      answers(gives_answers(config) ? std::optional(read_answer_prompts(config, *tokenizer))
                                    : std::nullopt),
      affinity(rank_affinity(config.layout)),
      initialised(std::chrono::system_clock::now()),
      start_time(start.time) {
  agree_on_inputs(inputs, runner);
  reserve_answers(plans, config, tokenizer->vocab_size(), device.choice());
  plan_memory(runner);
  if (loaded) {
    if (!family_of(config).begins_with_part()) check_tensors(config, *model, *loaded);
    check_loaded_adapters(config, *model, *checkpoint);
    check_trained(config, *model, *loaded);
    check_inputs(inputs, *loaded, config.run);
    ImportedParts imported = imported_parts(config, inputs, *loaded);
    // The leading process saves.
    if (runner.leads() && !config.run.save.empty()) {
      add_kept_files(imported, *checkpoint, inputs);
    }
    config.imported = std::move(imported.arguments);
  }
  const auto poll = [&] {
    note_progress();
    if (stop && stop()) throw StoppedEarly{};
  };
  const auto begin = std::chrono::steady_clock::now();
  data.emplace(config, *tokenizer, counts_of(*this), poll);
  data_time = std::chrono::steady_clock::now() - begin;
  data->check_suffices(length.needed());
  if (runner.leads()) digests = data_digests(config, inputs, loaded ? &*loaded : nullptr);
  if (digests) digests->check();
  poll();
}

// What a process tells the others about its plans: the bytes that it needs besides those that other
// processes count, the operations of a step, and for each of its ranks the number and the facts.
std::string RunSetup::planned(std::int64_t shared_bytes) const {
  double flops = 0;
  std::string ranks_text;
  for (const RankPlan& plan : plans) {
    flops +=
        static_cast<double>(plan.memory.flops_per_step) * static_cast<double>(plan.ranks.size());
    for (const int rank : plan.ranks) {
      ranks_text += fmt::format(" {} {}", rank, to_text(facts_of(plan.memory)));
    }
  }
  return fmt::format("{} {}{}", process_bytes(plans) - shared_bytes, flops, ranks_text);
}

// One process of each host compares the need of all processes there with the memory of the host.
void RunSetup::plan_memory(RankRunner& runner) {
  std::int64_t shared_bytes = 0;
  for (RankPlan& plan : plans) {
    const RankRunner::MessageMemory messages =
        runner.message_memory(static_cast<int>(config.layout.sum_block_size), plan.memory.summing);
    plan.memory.library_bound += messages.bytes;
    shared_bytes += messages.shared * std::ssize(plan.ranks);
  }
  if (config.run.async_save && !config.run.snapshot_fraction) {
    plan_snapshots(runner, process_bytes(plans) - shared_bytes, available_memory(), plans);
  }
  const std::vector<std::string> texts = runner.gather(planned(shared_bytes));
  ranks.resize(places.size());
  const bool is_alone = texts.size() == 1;
  const RankPlace& here = places[static_cast<std::size_t>(runner.own_ranks().front())];
  std::int64_t needed = 0;
  for (std::size_t process = 0; process < texts.size(); ++process) {
    std::istringstream text(texts[process]);
    std::int64_t bytes = 0;
    double flops = 0;
    text >> bytes >> flops;
    flops_per_step += flops;
    RankFacts facts;
    for (std::size_t rank = 0; text >> rank >> facts;) {
      ranks.at(rank) = facts;
      peak_bytes = std::max(peak_bytes, facts.bytes.total());
    }
    if (is_alone || places[process].host == here.host) needed += bytes;
  }
  // Snapshots of an earlier attempt lie in memory that the plan counts.
  if (config.run.memory_snapshot_interval > 0) {
    needed -= MemoryFiles::inherited(config.run.memory_files, kMemoryFilesVariable).bytes();
  }
  std::vector<DiskTraffic> traffic;
  for (const RankFacts& facts : ranks) traffic.push_back(facts.disk);
  disk = disk_step(config.layout, traffic,
                   [&](int rank) { return places[static_cast<std::size_t>(rank)].host; });
  if (device.cuda) {
    // One rank, of one process.
    const MemoryPlan& plan = plans.front().memory;
    const CudaPlace& place = device.cuda->place;
    check_device_memory(config, plan, cuda_interface(place.machine).facts(place.device).free_bytes);
    needed -= device_bytes(plan);
  }
  if (here.local_rank == 0)
    check_memory(config, plans, needed, here.local_size, available_memory());
}

const MemoryPlan& RunSetup::plan_of(int rank) const {
  const auto holds = [rank](const RankPlan& plan) {
    return std::ranges::find(plan.ranks, rank) != plan.ranks.end();
  };
  return std::ranges::find_if(plans, holds)->memory;
}

SavedRun RunSetup::saved_run() const {
  return {.config = config,
          .identity = identity,
          .inputs = inputs,
          .schedule = schedule,
          .products = device.products_name(),
          .digests = digests.get(),
          .base = base};
}

SaveTarget RunSetup::save_target() const {
  return {.directory = config.run.save,
          .retention = retention_of(config.run),
          .lock = &lock,
          .last_saved = identity.is_resumed && loads_from_save ? loaded->iteration : -1};
}

std::unique_ptr<RunData::Stream> RunSetup::stream(SplitKind kind, std::int64_t consumed,
                                                  const GridCoordinates& rank,
                                                  std::size_t set) const {
  return std::make_unique<RunData::Stream>(*data, kind, consumed, rank, set, affinity.all());
}

}  // namespace phalanx
