#include "phalanx/saving/run_saver.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/housekeeping.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/metrics/timing_log.h"
#include "phalanx/saving/gathered_tensors.h"
#include "phalanx/saving/rank_parts.h"
#include "phalanx/saving/stored_schedule.h"

namespace phalanx {
namespace {

// How long the end of a run may wait for the last checkpoint to be read back.
constexpr std::chrono::seconds kVerifiedAtEnd{5};

}  // namespace

RunSaver::RunSaver(SavedRun run, SaveTarget target, Rank& rank, Listeners listeners)
    : run_(run),
      target_(std::move(target)),
      rank_(rank),
      listeners_(std::move(listeners)),
      saved_iteration_(target_.last_saved) {
  if (!target_.directory.empty() && target_.retention.waits_for_verified &&
      rank_.ranks().world->rank() == 0) {
    verifier_.emplace(target_.directory);
  }
}

void RunSaver::save(const RunState& state, Occasion occasion) {
  if (target_.directory.empty()) return;
  if (saved_iteration_ == state.iteration) return verify(occasion);
  const std::string directory = target_.directory.string();
  const std::optional<std::string> reason = save_on_all(state);
  if (!reason) {
    saved_iteration_ = state.iteration;
    failures_ = 0;
    const std::string times = format_times(run_.config.run.timing_log_option, listeners_.times());
    listeners_.note({RunNote::Kind::kSaved, state.iteration,
                     fmt::format("  successfully saved checkpoint at iteration {:7d} to {}\n{}",
                                 state.iteration, directory, times),
                     fmt::format("checkpoint saved: {}/{}", directory,
                                 iteration_directory_name(state.iteration))});
    return verify(occasion);
  }
  ++failures_;
  const bool ends = occasion == Occasion::kLeaving || failures_ == kFailuresInARow;
  Communicator& world = *rank_.ranks().world;
  if (world.rank() > 0) {
    // The first rank says why.
    if (ends) world.barrier(rank_.context());
    return;
  }
  const std::string last_good = saved_iteration_ < 0
                                    ? std::string("there is no checkpoint of this run")
                                    : fmt::format("the last good one is {}/{}", directory,
                                                  iteration_directory_name(saved_iteration_));
  if (!ends) {
    listeners_.note(
        {RunNote::Kind::kSaveFailed, state.iteration,
         fmt::format("the checkpoint of iteration {} could not be saved: {}; {}; the run goes on",
                     state.iteration, *reason, last_good)});
    return;
  }
  throw IoError("the checkpoint of iteration {} could not be saved{}: {}; {}", state.iteration,
                occasion == Occasion::kPeriodic
                    ? fmt::format(", nor the {} before it", kFailuresInARow - 1)
                    : std::string(),
                *reason, last_good);
}

// What was saved is read back while the run goes on, and the last one, if that is soon, before it
// ends.
void RunSaver::verify(Occasion occasion) {
  if (!verifier_) return;
  verifier_->look();
  if (occasion == Occasion::kLeaving) {
    verifier_->finish(kVerifiedAtEnd);
    prune(target_.directory, run_.identity.start, saved_iteration_, target_.retention);
  }
  for (std::string& fault : verifier_->take_faults()) {
    listeners_.note({RunNote::Kind::kWarning, saved_iteration_, std::move(fault)});
  }
}

std::optional<std::string> RunSaver::save_on_all(const RunState& state) {
  const TimerScope time(&listeners_.timers, StepTimer::kSaveCheckpoint);
  std::string reason = try_to_save(state);
  if (rank_.largest_of_all(reason.empty() ? 0 : 1) == 0) return std::nullopt;
  return reason;
}

std::string RunSaver::try_to_save(const RunState& state) {
  const TrainConfig& config = run_.config;
  rank_.finish_gather();
  Communicator& world = *rank_.ranks().world;
  const auto busy =
      world.busy(fmt::format("saving the checkpoint of iteration {}", state.iteration));
  if (world.rank() == 0) {
    listeners_.note({RunNote::Kind::kSaving, state.iteration,
                     fmt::format("saving checkpoint at iteration {:7d} to {}", state.iteration,
                                 target_.directory.string())});
  }
  const bool with_optimizer = !config.run.no_save_optim;
  if (config.run.ckpt_fully_parallel_save) {
    RankParts parts(rank_, with_optimizer, target_.directory,
                    fmt::format("{}.{}.{}", run_.identity.run_id, run_.identity.start, ++saves_));
    return save_on_first(
        [&] { parts.serve(); },
        [&](const SaveOptions& options) { save_checkpoint(options, manifest_of(state), parts); },
        [&] { parts.give_up(); });
  }
  GatheredTensors tensors(contributed_tensors(rank_, with_optimizer), world, rank_.context());
  return save_on_first(
      [&] { tensors.serve(); },
      [&](const SaveOptions& options) { save_checkpoint(options, manifest_of(state), tensors); },
      [&] { tensors.skip_rest(); });
}

std::string RunSaver::save_on_first(const std::function<void()>& serve,
                                    const std::function<void(const SaveOptions&)>& save,
                                    const std::function<void()>& give_up) {
  if (rank_.ranks().world->rank() > 0) {
    serve();
    return {};
  }
  const auto expect_own_directory = [this](std::string_view /*step*/) {
    if (target_.lock != nullptr && *target_.lock) (*target_.lock)->expect_in_place();
  };
  expect_own_directory("begin");
  try {
    save({.directory = target_.directory,
          .retention = target_.retention,
          .copies = run_.inputs.copies,
          .before_step = expect_own_directory});
  } catch (const DirectoryLostError&) {
    throw;
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    give_up();
    return error.what();
  }
  return {};
}

Manifest RunSaver::manifest_of(const RunState& state) const {
  const TrainConfig& config = run_.config;
  Manifest manifest;
  manifest.run_id = run_.identity.run_id;
  manifest.start = run_.identity.start;
  manifest.iteration = state.iteration;
  manifest.consumed_train_samples = state.consumed_train_samples;
  manifest.consumed_valid_samples = state.consumed_valid_samples;
  manifest.optimizer = {.adam_step = state.adam_step,
                        .loss_scale = state.loss_scaler.scale,
                        .clean_steps = state.loss_scaler.clean_steps,
                        .hysteresis = state.loss_scaler.hysteresis,
                        .schedule_steps = state.schedule_samples};
  manifest.requested_samples = {
      .train = state.requested.train, .valid = state.requested.valid, .test = state.requested.test};
  manifest.matmul_precision = std::string(run_.products);
  manifest.threads_per_rank = config.layout.threads_per_rank;
  manifest.seed = static_cast<std::uint64_t>(config.run.seed);
  manifest.arguments = schedule_arguments(run_.schedule);
  for (const auto& [flag, value] : argument_values(config)) manifest.arguments[flag] = value;
  for (const auto& [name, value] : run_.inputs.arguments) manifest.arguments[name] = value;
  for (const auto& [name, value] : config.imported) manifest.arguments[name] = value;
  manifest.arguments[std::string(kFamilyArgument)] = family_of(config).name();
  manifest.arguments["--nproc"] = std::to_string(config.layout.world_size);
  if (state.evaluation_is_due) manifest.arguments[std::string(kDueEvaluation)] = "true";
  if (state.left_out_samples > 0) {
    manifest.arguments[std::string(kLeftOutSamples)] = std::to_string(state.left_out_samples);
  }
  manifest.input_files = run_.inputs.files;
  if (run_.digests != nullptr) manifest.data_blocks = run_.digests->known();
  return manifest;
}

}  // namespace phalanx
