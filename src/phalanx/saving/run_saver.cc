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
#include "phalanx/saving/part_contents.h"
#include "phalanx/saving/stored_schedule.h"

namespace phalanx {
namespace {

// How long the end of a run may wait for the last checkpoint to be read back.
constexpr std::chrono::seconds kVerifiedAtEnd{5};

}  // namespace

RunSaver::RunSaver(SavedRun run, SaveTarget target, Rank& rank, Listeners listeners,
                   BackgroundSaving background)
    : run_(run),
      target_(std::move(target)),
      rank_(rank),
      listeners_(std::move(listeners)),
      background_(std::move(background)),
      saved_iteration_(target_.last_saved) {
  if (!target_.directory.empty() && target_.retention.waits_for_verified &&
      rank_.ranks().world->rank() == 0) {
    verifier_.emplace(target_.directory, holder());
  }
}

RunSaver::~RunSaver() {
  if (under_way_ && under_way_->in_background) rank_.fence_with(nullptr);
}

void RunSaver::save(const RunState& state, Occasion occasion) {
  if (target_.directory.empty()) return;
  const bool is_periodic = occasion == Occasion::kPeriodic;
  // The ranks hear of the end of a save at different moments: what they do together must not depend
  // on whether one is under way here.
  if (is_periodic && (begun_ == state.iteration || is_left_out(state.iteration))) return;
  settle(state.iteration);
  end_if_hopeless();
  if (saved_iteration_ == state.iteration) return verify(occasion);
  const RunConfig& flags = run_.config.run;
  if (!flags.async_save && !flags.ckpt_fully_parallel_save) {
    Span span;
    const std::optional<std::string> reason = save_whole(state);
    if (!reason) span.times = format_times(flags.timing_log_option, listeners_.times());
    span.bytes = begun_bytes_.value_or(0);
    span.until = state.iteration;
    conclude(state.iteration, reason, occasion, span);
    return end_if_hopeless();
  }
  const bool goes_on = flags.async_save && is_periodic && target_.trains_meanwhile;
  begin_parts(state, goes_on);
  if (goes_on) {
    under_way_->span.times = format_times(flags.timing_log_option, listeners_.times());
    return;
  }
  end_parts(wait_for_verdict(), occasion, state.iteration);
  end_if_hopeless();
}

bool RunSaver::is_left_out(std::int64_t iteration) {
  if (!run_.config.run.save_skip_if_busy || begun_ < 0) return false;
  const bool is_busy = under_way_ && !under_way_->save->verdict();
  if (rank_.largest_of_all(is_busy ? 1 : 0) == 0) return false;
  listeners_.note(
      {RunNote::Kind::kWarning, iteration,
       fmt::format("the checkpoint of iteration {} is left out: that of iteration {} is "
                   "still being saved (--save-skip-if-busy)",
                   iteration, begun_)});
  return true;
}

void RunSaver::poll(std::int64_t iteration) {
  if (!under_way_) return;
  if (const auto verdict = under_way_->save->verdict()) {
    return end_parts(*verdict, Occasion::kPeriodic, iteration);
  }
  if (under_way_->snapshot->has_stalled()) under_way_->save->answer_for_stalled();
}

void RunSaver::settle(std::int64_t iteration) {
  if (under_way_) end_parts(wait_for_verdict(), Occasion::kPeriodic, iteration);
  if (leading_) leading_->finish();
}

SaveVerdict RunSaver::wait_for_verdict() {
  const TimerScope time(&listeners_.timers, StepTimer::kSaveCheckpoint);
  const auto busy = rank_.ranks().control->busy(
      fmt::format("saving the checkpoint of iteration {}", under_way_->iteration));
  under_way_->snapshot->lend_rest(rank_);
  SaveVerdict verdict = under_way_->save->wait(leading_.get());
  if (leading_) leading_->finish();
  return verdict;
}

void RunSaver::begin_parts(const RunState& state, bool in_background) {
  PHALANX_CHECK(background_.mailbox != nullptr, "a save in parts without a mailbox");
  const TimerScope time(&listeners_.timers, StepTimer::kSaveCheckpoint);
  if (tiles_.empty()) tiles_ = saved_tiles(rank_, run_.content());
  const std::string epoch =
      fmt::format("{}.{}.{}", run_.identity.run_id, run_.identity.start, ++saves_);
  Communicator& world = *rank_.ranks().control;
  const std::string what = fmt::format("saving the checkpoint of iteration {}", state.iteration);
  UnderWay& begun = under_way_.emplace(UnderWay{});
  begun.iteration = state.iteration;
  begun.in_background = in_background;
  begun.snapshot = std::make_shared<TileSnapshot>(
      rank_, tiles_, in_background ? rank_.snapshot_memory() : Tensor{},
      TileSnapshot::Waiting{
          .stalled_after = background_.stalled_after,
          .is_long = [&world,
                      what] { return std::make_shared<Communicator::Busy>(world.busy(what)); },
          .timers = &listeners_.timers});
  begun.save = std::make_unique<RankSave>(RankSave::Task{.rank = world.rank(),
                                                         .directory = target_.directory,
                                                         .epoch = epoch,
                                                         .pieces = part_pieces(rank_, tiles_),
                                                         .snapshot = begun.snapshot},
                                          background_);
  if (is_leader()) begin_to_lead(state, epoch);
  if (!in_background) return;
  begun_ = state.iteration;
  rank_.fence_with(begun.snapshot.get());
  if (begun.snapshot->must_be_lent()) begun.snapshot->lend_rest(rank_);
}

void RunSaver::begin_to_lead(const RunState& state, const std::string& epoch) {
  std::vector<Manifest::Entry> tensors = tensors_in_parts(rank_, run_.content());
  under_way_->span.bytes = stored_bytes(tensors);
  tell_begin(state.iteration, under_way_->span.bytes);
  leading_ = std::make_unique<LeadingSave>(LeadingSave::Task{.options = options(),
                                                             .manifest = manifest_of(state),
                                                             .tensors = std::move(tensors),
                                                             .epoch = epoch,
                                                             .ranks = rank_.ranks().world->size(),
                                                             .old_texts = std::move(old_texts_)},
                                           background_);
}

void RunSaver::end_parts(const SaveVerdict& verdict, Occasion occasion, std::int64_t iteration) {
  // Another saver's save may be under way.
  if (under_way_->in_background) rank_.fence_with(nullptr);
  if (leading_) {
    leading_->rethrow();
    old_texts_ = leading_->texts();
  }
  UnderWay ended = std::move(*under_way_);
  under_way_.reset();
  ended.span.until = iteration;
  // In the background a save ends at another moment for each rank.
  if (verdict.is_saved && !ended.in_background) {
    ended.span.times = format_times(run_.config.run.timing_log_option, listeners_.times());
  }
  conclude(ended.iteration,
           verdict.is_saved ? std::nullopt : std::optional<std::string>(verdict.reason), occasion,
           ended.span);
}

void RunSaver::tell_begin(std::int64_t iteration, std::int64_t bytes) {
  begun_bytes_ = bytes;
  listeners_.note({RunNote::Kind::kSaving, iteration,
                   fmt::format("saving checkpoint at iteration {:7d} to {}", iteration,
                               target_.directory.string())});
}

void RunSaver::conclude(std::int64_t iteration, const std::optional<std::string>& reason,
                        Occasion occasion, const Span& span) {
  const std::string directory = target_.directory.string();
  if (!reason) {
    saved_iteration_ = iteration;
    failures_ = 0;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - span.begin;
    listeners_.note(
        {RunNote::Kind::kSaved, iteration,
         fmt::format("  successfully saved checkpoint at iteration {:7d} to {}\n{}", iteration,
                     directory, span.times),
         fmt::format("checkpoint saved: {}/{}", directory, iteration_directory_name(iteration)),
         fmt::format(R"({{"until": {}, "seconds": {:.6f}, "bytes": {}}})", span.until,
                     seconds.count(), span.bytes)});
    return verify(occasion);
  }
  ++failures_;
  is_hopeless_ =
      !target_.may_fail && (occasion == Occasion::kLeaving || failures_ == kFailuresInARow);
  const std::string last_good = saved_iteration_ < 0
                                    ? std::string("there is no checkpoint of this run")
                                    : fmt::format("the last good one is {}/{}", directory,
                                                  iteration_directory_name(saved_iteration_));
  if (is_hopeless_) {
    hopeless_ = fmt::format(
        "the checkpoint of iteration {} could not be saved{}: {}; {}", iteration,
        occasion == Occasion::kPeriodic ? fmt::format(", nor the {} before it", kFailuresInARow - 1)
                                        : std::string(),
        *reason, last_good);
  } else if (is_leader()) {
    listeners_.note(
        {RunNote::Kind::kSaveFailed, iteration,
         fmt::format("the checkpoint of iteration {} could not be saved: {}; {}; the run goes on",
                     iteration, *reason, last_good)});
  }
}

// What was saved is read back while the run goes on, and the last one, if that is soon, before it
// ends.
void RunSaver::verify(Occasion occasion) {
  if (!verifier_) return;
  verifier_->look();
  if (occasion == Occasion::kLeaving) {
    verifier_->finish(kVerifiedAtEnd);
    if (const DirectoryLock* lock = this->lock()) lock->expect_in_place();
    prune(target_.directory, run_.identity.start, saved_iteration_, target_.retention, holder());
  }
  for (std::string& fault : verifier_->take_faults()) {
    listeners_.note({RunNote::Kind::kWarning, saved_iteration_, std::move(fault)});
  }
}

// All ranks at the same time, with the same answer.
void RunSaver::end_if_hopeless() {
  if (!is_hopeless_) return;
  // The first rank says why.
  if (!is_leader()) rank_.ranks().control->barrier(rank_.host_context());
  throw IoError("{}", hopeless_);
}

std::optional<std::string> RunSaver::save_whole(const RunState& state) {
  const TimerScope time(&listeners_.timers, StepTimer::kSaveCheckpoint);
  std::string reason = write_whole(state);
  if (rank_.largest_of_all(reason.empty() ? 0 : 1) == 0) return std::nullopt;
  return reason;
}

std::string RunSaver::write_whole(const RunState& state) {
  rank_.finish_gather();
  Communicator& world = *rank_.ranks().control;
  const auto busy =
      world.busy(fmt::format("saving the checkpoint of iteration {}", state.iteration));
  GatheredTensors tensors(contributed_tensors(rank_, run_.content()), world, rank_.host_context());
  if (!is_leader()) {
    tensors.serve();
    return {};
  }
  std::int64_t bytes = 0;
  for (int i = 0; i < tensors.size(); ++i) {
    bytes += tensors.info(i).global_shape.count() * size_of(tensors.info(i).dtype);
  }
  tell_begin(state.iteration, bytes);
  const SaveOptions options = this->options();
  options.before_step("begin");
  try {
    save_checkpoint(options, manifest_of(state), tensors);
  } catch (const DirectoryLostError&) {
    throw;
  } catch (const Error& error) {
    if (!may_pass(error)) throw;
    tensors.skip_rest();
    return error.what();
  }
  return {};
}

const DirectoryLock* RunSaver::lock() const {
  return target_.lock != nullptr && *target_.lock ? &**target_.lock : nullptr;
}

DirectoryHolder RunSaver::holder() const {
  return {.run_id = run_.identity.run_id,
          .holds = [lock = lock()] { return lock == nullptr || lock->is_in_place(); }};
}

SaveOptions RunSaver::options() const {
  return {.directory = target_.directory,
          .retention = target_.retention,
          .copies = run_.inputs.copies,
          .holds_directory = holder().holds,
          .before_step = [lock = lock()](std::string_view /*step*/) {
            if (lock != nullptr) lock->expect_in_place();
          }};
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
  manifest.base = run_.base;
  return manifest;
}

}  // namespace phalanx
