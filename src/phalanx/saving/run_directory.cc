#include "phalanx/saving/run_directory.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/saving/non_persistent.h"
#include "phalanx/saving/run_checkpoint.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

bool is_same_directory(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return !a.empty() && !b.empty() && fs::equivalent(a, b, error);
}

}  // namespace

bool is_saved_in(const fs::path& save, const CheckpointReader& checkpoint) {
  return !checkpoint.is_in_memory() &&
         is_same_directory(absolute_path(checkpoint.directory()).parent_path(), save);
}

TrainConfig restarted_from_save(TrainConfig config) {
  config.run.load = config.run.save;
  config.run.ckpt_step = 0;
  config.run.finetune = false;
  config.run.no_load_optim = false;
  config.run.overwrite = false;
  config.lora.load.clear();
  return config;
}

std::optional<DirectoryLock> lock_save_directory(const RunConfig& run) {
  if (run.save.empty()) return std::nullopt;
  if (const auto checkpoint = checkpoint_around(run.save)) {
    throw ConfigError(
        "--save {} lies in the checkpoint {}, and whoever saves there removes it one day with all "
        "that it holds: name a directory outside of it",
        run.save, checkpoint->string());
  }
  return std::optional<DirectoryLock>(std::in_place, run.save);
}

RunDirectory::RunDirectory(const RunConfig& run, const CheckpointReader* loaded, JobRecord job,
                           std::string name)
    : save_(run.save),
      loads_own_directory_(is_same_directory(run.load, run.save)),
      job_(std::move(job)),
      goes_on_with_job_(job_.has_begun() && job_.is_settled),
      identity_{.run_id = job_.run_id.empty() ? std::move(name) : job_.run_id} {
  if (save_.empty()) return;
  const fs::path not_lasting = non_persistent_directory(run, save_);
  // --load may also name one iteration of it.
  if (loaded != nullptr && !run.finetune) {
    identity_.is_resumed =
        loaded->is_in_memory() || is_saved_in(save_, *loaded) || is_saved_in(not_lasting, *loaded);
  }
  if (identity_.is_resumed) {
    const Manifest& manifest = loaded->manifest();
    if (!manifest.run_id.empty()) identity_.run_id = manifest.run_id;
    last_ = {.iteration = manifest.iteration,
             .evaluates_again = position_of(manifest).evaluation_is_due};
    abandoned_ = checkpoints_after(save_, manifest.start, manifest.iteration);
    identity_.start = manifest.start + 1;
  } else {
    abandoned_ = checkpoints_after(save_, -1, -1);
  }
  identity_.start = std::max(identity_.start, job_.start);
  // This start's number is higher than that of any checkpoint here, even of one that is about to be
  // moved aside: the move may be interrupted.
  for (const SavedCheckpoint& saved : saved_checkpoints(save_)) {
    identity_.start = std::max(identity_.start, saved.start + 1);
  }
  // Nor do those of this run in other places come from this start: a killed one may have saved
  // there alone.
  const std::vector<fs::path> places = {not_lasting, run.save_copy};
  for (const fs::path& place : places) {
    if (!identity_.is_resumed || place.empty()) continue;
    for (const SavedCheckpoint& saved : saved_checkpoints(place)) {
      if (saved.run_id != identity_.run_id) continue;
      identity_.start = std::max(identity_.start, saved.start + 1);
    }
  }
  // An earlier attempt of the job has decided to move these aside: not refused again.
  if (!job_.has_begun() || job_.is_settled) refuse_to_lose(run, loaded);
  if (job_.has_begun()) return;
  job_.run_id = identity_.run_id;
  job_.start = identity_.start;
}

void RunDirectory::refuse_to_lose(const RunConfig& run, const CheckpointReader* loaded) const {
  const std::vector<SavedCheckpoint> saved = saved_checkpoints(save_);
  if (abandoned_.empty() || run.overwrite) return;
  if (!identity_.is_resumed && saved.empty()) {
    throw ConfigError(
        "--save {} holds {}, which is not a checkpoint that can be read: --save elsewhere, or give "
        "--overwrite to move it aside",
        save_.string(), abandoned_.back().filename().string());
  }
  if (saved.empty()) return;
  const SavedCheckpoint& newest = saved.back();
  if (identity_.is_resumed) {
    // Only going back on purpose is refused, not falling back from a damaged checkpoint.
    const bool asked = run.ckpt_step > 0 || !loads_own_directory_;
    if (!asked || newest.directory.filename() == loaded->directory().filename()) return;
    throw ConfigError(
        "{}: --save {} holds newer checkpoints, up to iteration {}: give --overwrite to go back to "
        "iteration {} (they are moved aside), or --save elsewhere",
        run.ckpt_step > 0 ? fmt::format("--ckpt-step {}", run.ckpt_step)
                          : fmt::format("--load {}", run.load),
        save_.string(), newest.iteration, last_.iteration);
  }
  if (loads_own_directory_ && run.finetune) {
    throw ConfigError(
        "--finetune starts a new run, and --save {} holds the one it starts from, at iteration {}: "
        "--save elsewhere, leave --finetune out to go on with that run, or give --overwrite to "
        "move it aside",
        save_.string(), newest.iteration);
  }
  throw ConfigError(
      "--save {} holds a run at iteration {}: add --load {} to go on with it, --save elsewhere, or "
      "give --overwrite to move it aside",
      save_.string(), newest.iteration, save_.string());
}

std::string RunDirectory::what_is_moved(bool has_lines) const {
  const std::string checkpoints =
      fmt::format("{} checkpoint{}", abandoned_.size(), abandoned_.size() == 1 ? "" : "s");
  std::string metrics = fmt::format("the metrics after iteration {}", last_.iteration);
  if (abandoned_.empty()) return metrics;
  return has_lines ? checkpoints + " and " + metrics : checkpoints;
}

void RunDirectory::claim(const std::function<void(std::string_view step)>& before_step) const {
  if (save_.empty()) return;
  const auto step = [&](std::string_view name) {
    if (before_step) before_step(name);
  };
  const fs::path metrics = save_ / kMetricsName;
  const std::string lines = metrics_after(metrics, last_);
  // A run that continues writes the lines after its last checkpoint again.
  const bool goes_on =
      identity_.is_resumed || goes_on_with_job_ || (loads_own_directory_ && abandoned_.empty());
  JobRecord job = job_;
  step("record");
  if (abandoned_.empty() && (goes_on || lines.empty())) {
    job.is_settled = true;
    write_job_record(save_, job);
    step("cut");
    return cut_metrics(metrics, last_);
  }
  // An attempt that resumes what the job has saved may move checkpoints too. The name for these is
  // not part of the first attempt's recorded choice.
  std::string aside_name = job.aside;
  if (aside_name.empty() || goes_on_with_job_) aside_name = free_abandoned_name(save_);
  if (!goes_on_with_job_) job.aside = aside_name;
  write_job_record(save_, job);
  step("make aside");
  const fs::path aside = make_abandoned_directory(save_, aside_name);
  log_warning("{}: moved to {}: {}", save_.string(), aside_name, what_is_moved(!lines.empty()));
  // The lines are cut last: if this is killed before, they are there twice, and not lost.
  step("lines");
  if (!lines.empty()) write_file_durably(aside / kMetricsName, lines);
  for (auto next = abandoned_.rbegin(); next != abandoned_.rend(); ++next) {
    step("move");
    move_into(aside, {&*next, 1});
  }
  step("tracker");
  if (identity_.is_resumed) {
    write_tracker(save_, last_.iteration);
  } else {
    std::error_code ignored;  // the file is only a hint
    fs::remove(save_ / kTrackerName, ignored);
  }
  step("cut");
  cut_metrics(metrics, last_);
  step("settle");
  job.is_settled = true;
  write_job_record(save_, job);
}

}  // namespace phalanx
