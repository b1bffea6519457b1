#include "phalanx/start/run_decisions.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/unique_name.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/saving/memory_snapshots.h"
#include "phalanx/saving/resume.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/saving/upcycling.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/expert_views.h"
#include "phalanx/start/adapter_sources.h"
#include "phalanx/start/joining_file.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The flags that may differ between processes, because they are about one machine.
constexpr std::array kOwnOfAProcess = {"--threads-per-rank", "--no-cpu-affinity",
                                       "--allow-overcommit", "--rdzv-secret-file"};

using Identity = std::map<std::string, std::string>;

Identity identity_of(const TrainConfig& config) {
  Identity identity;
  for (const auto& [flag, value] : argument_values(config)) {
    if (std::ranges::find(kOwnOfAProcess, flag) == kOwnOfAProcess.end()) identity[flag] = value;
  }
  identity["the version of phalanx"] = PHALANX_VERSION;
  identity["the compiler"] = __VERSION__;
  identity["the byte order"] =
      std::endian::native == std::endian::little ? "little-endian" : "big-endian";
  identity["how often the job was started again"] = std::to_string(config.run.restarts);
  return identity;
}

Identity identity_of(const RunInputs& inputs) {
  Identity identity;
  for (const Manifest::InputFile& file : inputs.files) {
    // Where a file lies does not matter.
    const std::string what =
        fmt::format("the content of {}'s {}", file.flag, fs::path(file.path).extension().string());
    identity[what] += fmt::format("{}{} bytes{}", identity[what].empty() ? "" : ", ", file.bytes,
                                  file.xxh3 ? " with digest " + digest_to_text(*file.xxh3) : "");
  }
  for (const auto& [name, value] : inputs.arguments) identity[name] = value;
  return identity;
}

// Names the first difference: "--lr is 0.1, rank 0 has 0.2".
void agree(const Identity& mine, RankRunner& runner) {
  const auto theirs = Json::parse(runner.broadcast(Json(mine).dump())).get<Identity>();
  std::vector<std::string> keys;
  for (const auto& [key, value] : theirs) keys.push_back(key);
  for (const auto& [key, value] : mine) {
    if (!theirs.contains(key)) keys.push_back(key);
  }
  const auto value_in = [](const Identity& identity, const std::string& key) {
    const auto found = identity.find(key);
    return found == identity.end() || found->second.empty() ? std::string("not given")
                                                            : found->second;
  };
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    const std::string here = value_in(mine, key);
    const std::string there = value_in(theirs, key);
    if (here != there)
      differences.push_back(fmt::format("{} is {}, rank 0 has {}", key, here, there));
  }
  if (differences.empty()) return;
  throw ConfigError(
      "{}{}: start all ranks with the same flags, files and program", differences.front(),
      differences.size() == 1 ? "" : fmt::format(" ({} more differ)", differences.size() - 1));
}

// The threads of a host's ranks that can run at the same time.
int busy_threads(const TrainConfig& config, RankRunner& runner) {
  const std::int64_t cores = usable_cores().count;
  const std::int64_t threads = config.layout.threads_per_rank;
  return static_cast<int>(std::min<std::int64_t>(threads * runner.places().front().local_size,
                                                 std::max(cores, threads)));
}

cpu::ProductPrecision products_of(std::string_view name) {
  using enum cpu::ProductPrecision;
  for (const auto products : {kFp32, kBf16, kAmx}) {
    if (name_of(products) == name) return products;
  }
  throw InternalError("an unknown family of matrix products: {}", name);
}

// Whether somebody has started the job again who does not know what it saved: `phalanx launch`
// does.
bool is_started_again_blindly(const RunConfig& run) {
  std::int64_t by_launch = 0;
  for (const JobName& name : run.job) {
    const bool is_launch = name.name.starts_with(kLaunchJob);
    if (is_launch) by_launch = name.restarts;
    if (!is_launch && name.restarts > 0) return true;
  }
  return run.restarts > by_launch;
}

// Logs what an attempt of a job begins with.
void log_attempt(const RunConfig& run, const JobRecord& job, bool is_restarted, bool from_memory) {
  if (run.restarts == 0 || run.save.empty()) return;
  const std::int64_t attempt = run.restarts + 1;
  if (is_restarted) {
    log_info("> attempt {} of this job: goes on from {}", attempt,
             from_memory ? "a snapshot in memory" : "--save " + run.save);
  } else if (job.has_begun()) {
    log_info("> attempt {} of this job: nothing is saved yet, it begins as the first one did",
             attempt);
  } else if (is_started_again_blindly(run) && saved_checkpoints(run.save).empty()) {
    log_warning(
        "attempt {} of this job finds nothing in --save {}, and begins as a first one: either none "
        "before it came as far as that, or what they saved is gone (a file system that is not "
        "mounted, a folder that was moved, another host's disk): --load {} "
        "--exit-on-missing-checkpoint ends such an attempt",
        attempt, run.save, run.save);
  } else {
    log_info("> attempt {} of this job: none before it has begun a run in --save {}", attempt,
             run.save);
  }
}

// Called under the lock. An attempt that a launcher has started again resumes from what the job has
// saved. As long as nothing is saved it begins as the first attempt did, from the same checkpoint.
// Without a record of this job it is the first attempt. Returns the choice, perhaps of an earlier
// attempt.
JobRecord choose_checkpoint(const TrainConfig& given, std::span<const RefusedCheckpoint> refused,
                            DecidedRun& start) {
  RunDecisions& decisions = start.decisions;
  const fs::path save = given.run.save;
  JobRecord job = begun_by_this_job(given);
  const auto snapshot = newest_snapshot(given.run, job, refused);
  decisions.is_restarted = job.has_begun() && (snapshot || has_saved(job, given.run));
  log_attempt(given.run, job, decisions.is_restarted, snapshot != nullptr);
  if (decisions.is_restarted) start.config = restarted_from_save(std::move(start.config));
  const bool repeats = job.has_begun() && !decisions.is_restarted;
  // A snapshot is of the run that has begun.
  decisions.is_pretrained =
      !snapshot && (repeats ? job.is_pretrained : begins_pretrained(start.config.run));
  if (decisions.is_pretrained) {
    start.config = from_pretrained(std::move(start.config));
    log_info("> a new run from --pretrained-checkpoint {}", start.config.run.load);
  }
  if (snapshot) {
    start.checkpoint = snapshot;
    decisions.snapshot = snapshot->manifest().epoch;
    return job;
  }
  if (!repeats) {
    start.checkpoint = open_checkpoint(start.config.run, refused);
  } else if (!job.checkpoint.empty()) {
    start.checkpoint =
        open_checkpoint_at(start.config.run, chosen_checkpoint(job, save).string(), true, refused);
  }
  if (start.checkpoint) {
    if (upcycles(start.config.run)) {
      Upcycling(start.config).check_dense(start.checkpoint->manifest());
    }
    decisions.checkpoint = recorded_path(start.checkpoint->directory());
    decisions.manifest_digest = digest_of_manifest(start.checkpoint->directory());
  }
  if (job.has_begun()) return job;
  job.checkpoint = decisions.checkpoint;
  job.manifest_digest = decisions.manifest_digest;
  job.is_pretrained = decisions.is_pretrained;
  return job;
}

// In the leading process.
DecidedRun decide(const TrainConfig& config, RankRunner& runner,
                  std::span<const RefusedCheckpoint> refused) {
  DecidedRun start{
      .config = config, .lock = {}, .directory = {}, .decisions = {}, .checkpoint = {}, .base = {}};
  // Every later start records where the checkpoints lie, so this one does not begin without.
  if (!config.run.save.empty()) recorded_path(config.run.save);
  start.lock = lock_save_directory(config.run);
  JobRecord job = choose_checkpoint(config, refused, start);
  start.base = join_adapters(start.config, start.checkpoint.get(), true);
  start.decisions.name = random_digits(32);
  start.directory.emplace(start.config.run, start.checkpoint.get(), std::move(job),
                          start.decisions.name);
  start.decisions.identity = start.directory->identity();
  const RankPlace& here = runner.places()[static_cast<std::size_t>(runner.own_ranks().front())];
  if (const auto place = cuda_place(start.config.layout.device, here.local_rank)) {
    const ModelConfig& model = start.config.model;
    const DType storage = model.bf16 ? DType::kBF16 : model.fp16 ? DType::kF16 : DType::kF32;
    start.decisions.device = measure_device(*place, storage);
    if (start.checkpoint) {
      check_products(start.config, start.checkpoint->manifest(),
                     start.decisions.device.products_name());
    }
    return start;
  }
  std::string requested = start.config.model.matmul_precision;
  if (start.checkpoint) {
    requested = resumed_precision(start.config, start.checkpoint->manifest());
  }
  start.decisions.device =
      measure_device(requested, start.config.model.bf16, busy_threads(start.config, runner));
  return start;
}

// In every other process.
DecidedRun follow(TrainConfig config, RunDecisions decisions, const RankPlace& place) {
  DecidedRun start{.config = std::move(config),
                   .lock = {},
                   .directory = {},
                   .decisions = std::move(decisions),
                   .checkpoint = {},
                   .base = {}};
  const RunDecisions& d = start.decisions;
  if (d.is_restarted) start.config = restarted_from_save(std::move(start.config));
  if (d.is_pretrained) start.config = from_pretrained(std::move(start.config));
  const std::string& save = start.config.run.save;
  if (!d.nonce.empty() && !JoiningFile::is_seen(save, d.nonce)) {
    throw ConfigError(
        "--save {} is not the directory that rank 0 writes to: give one on a file system that all "
        "hosts share",
        save);
  }
  if (!cpu::has_products(d.device.products.products)) {
    throw ConfigError(
        "this processor has no {} products, which rank 0 has chosen: give --matmul-precision fp32",
        d.device.products_name());
  }
  if (!d.snapshot.empty()) start.checkpoint = open_snapshot(start.config.run, d.snapshot);
  if (d.checkpoint.empty()) {
    start.base = join_adapters(start.config, start.checkpoint.get(), false);
    return start;
  }
  const auto refuse = [&](std::string_view fault) {
    throw ConfigError(
        "--load {}: {} {}, which rank 0 begins with: give a directory on a file system that all "
        "hosts share",
        start.config.run.load, d.checkpoint, fault);
  };
  try {
    if (digest_of_manifest(d.checkpoint) != d.manifest_digest) refuse("is not the checkpoint");
  } catch (const InputMissingError&) {
    refuse("is not there");
  }
  // Files besides tensors: the first rank has verified them on its host; every other host verifies
  // its own view once.
  start.checkpoint =
      open_checkpoint_at(start.config.run, d.checkpoint, place.host > 0 && place.local_rank == 0);
  start.base = join_adapters(start.config, start.checkpoint.get(), false);
  return start;
}

// All processes run through this at the same time.
DecidedRun decide_together(TrainConfig config, RankRunner& runner,
                           std::span<const RefusedCheckpoint> refused) {
  resolve(config, true);
  check_memory_snapshots(config.run, runner.places().front().local_size, runner.hosts());
  check_files(config);
  agree(identity_of(config), runner);
  if (runner.leads()) {
    DecidedRun start = decide(config, runner, refused);
    const bool is_alone = runner.own_ranks().size() == runner.places().size();
    const bool is_saved = !start.config.run.save.empty() && !is_alone;
    std::optional<JoiningFile> file;
    if (is_saved) file.emplace(start.config.run.save);
    if (file) start.decisions.nonce = file->text();
    runner.broadcast(start.decisions.to_text());
    runner.gather({});  // all have looked
    return start;
  }
  const RunDecisions decisions = RunDecisions::from_text(runner.broadcast({}));
  const auto rank = static_cast<std::size_t>(runner.own_ranks().front());
  DecidedRun start = follow(std::move(config), decisions, runner.places()[rank]);
  runner.gather({});
  return start;
}

}  // namespace

std::string RunDecisions::to_text() const {
  const cpu::Peak& peak = device.peak;
  return Json{
      {"restarted", is_restarted},
      {"pretrained", is_pretrained},
      {"checkpoint", checkpoint},
      {"snapshot", snapshot},
      {"manifest", manifest_digest},
      {"run_id", identity.run_id},
      {"start", identity.start},
      {"resumed", identity.is_resumed},
      {"products", std::string(device.products_name())},
      {"reason", device.products.reason},
      {"peak", {peak.fp32_gflops, peak.bf16_gflops, peak.amx_gflops, peak.amx_instruction_gflops}},
      {"nonce", nonce},
      {"name", name}}
      .dump();
}

RunDecisions RunDecisions::from_text(const std::string& text) {
  const Json json = Json::parse(text);
  const auto peak = json.at("peak").get<std::array<double, 4>>();
  return {.is_restarted = json.at("restarted"),
          .is_pretrained = json.at("pretrained"),
          .checkpoint = json.at("checkpoint"),
          .snapshot = json.at("snapshot"),
          .manifest_digest = json.at("manifest"),
          .identity = {.run_id = json.at("run_id"),
                       .start = json.at("start"),
                       .is_resumed = json.at("resumed")},
          .device = {.products = {.products = products_of(json.at("products").get<std::string>()),
                                  .reason = json.at("reason")},
                     .peak = {.fp32_gflops = peak[0],
                              .bf16_gflops = peak[1],
                              .amx_gflops = peak[2],
                              .amx_instruction_gflops = peak[3]}},
          .nonce = json.at("nonce"),
          .name = json.at("name")};
}

DecidedRun decide_run(TrainConfig config, RankRunner& runner,
                      std::span<const RefusedCheckpoint> refused) {
  const auto begin = std::chrono::steady_clock::now();
  DecidedRun start = decide_together(std::move(config), runner, refused);
  start.time = std::chrono::steady_clock::now() - begin;
  return start;
}

void agree_on_inputs(const RunInputs& inputs, RankRunner& runner) {
  agree(identity_of(inputs), runner);
}

}  // namespace phalanx
