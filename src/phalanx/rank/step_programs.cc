#include "phalanx/rank/step_programs.h"

#include <algorithm>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/message_verifier.h"
#include "phalanx/pipeline/schedule_memory.h"
#include "phalanx/pipeline/verifier.h"
#include "phalanx/rank/rank_model.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {
namespace {

PipelinePrograms lowered(Schedule schedule) {
  verify(schedule);
  std::vector<Program> programs = lower(schedule);
  // A program that runs with rendezvous sends runs with any transport.
  const auto fault = message_fault(programs, Transport::kRendezvous);
  PHALANX_CHECK(!fault, "schedule {}: {}", schedule.kind, *fault);
  return {std::move(schedule), std::move(programs)};
}

// The first stage that trains a parameter. Names do not depend on the vocabulary.
int first_trained_stage(const TrainConfig& config, const Placement& placement) {
  const auto is_frozen = frozen_parameters(config);
  if (!is_frozen) return 0;
  const auto model = make_model(config, std::max<std::int64_t>(config.model.model_vocab_size, 1));
  return WholeModel(*model, placement, model_stages(config, placement), is_frozen)
      .first_trained_stage;
}

PipelinePrograms training_programs(const TrainConfig& config, const ProgramSize& size) {
  Schedule schedule =
      make_schedule(config.layout.pipeline_schedule,
                    schedule_request(config.layout, size.microbatches, size.iterations));
  if (const auto obstacle = training_obstacle(schedule)) {
    throw ConfigError("--pipeline-schedule {} cannot be trained with: {}",
                      config.layout.pipeline_schedule, *obstacle);
  }
  schedule.first_trained_stage = first_trained_stage(config, schedule.placement);
  return lowered(std::move(schedule));
}

// The first iteration behind this one after which the pipeline must be empty.
std::int64_t next_pause(const TrainConfig& config, const RunLength& length,
                        std::int64_t iteration) {
  const std::int64_t evaluation = config.run.eval_iters > 0 ? config.run.eval_interval : 0;
  const std::int64_t answers = answer_interval(config.run);
  const std::int64_t save = config.run.save.empty() ? 0 : config.run.save_interval;
  std::int64_t next = length.end_of_stretch(iteration);
  for (const std::int64_t interval :
       {config.layout.pipeline_drain_interval, evaluation, answers, save,
        config.run.save_copy_interval, config.run.non_persistent_save_interval,
        config.run.exit_interval, config.run.check_weight_hash_across_dp_replicas_interval}) {
    if (interval > 0) next = std::min(next, (iteration / interval + 1) * interval);
  }
  return next;
}

// The sizes of the programs that the run needs.
std::set<ProgramSize> sizes(const TrainConfig& config, const RunLength& run) {
  const auto microbatches = [&](std::int64_t batch) {
    return static_cast<int>(num_microbatches(config.layout, batch));
  };
  std::set<ProgramSize> found;
  for (const RunLength::Stretch& stretch : run.stretches()) {
    if (!is_asynchronous(config.layout)) {
      found.insert({1, microbatches(stretch.global_batch)});
      continue;
    }
    for (std::int64_t i = stretch.begin; i < stretch.end();) {
      const int length = iterations_until_drained(config, run, i);
      found.insert({length, microbatches(stretch.global_batch)});
      i += length;
    }
  }
  if (!found.empty()) return found;
  // A plan may leave the length of the run open.
  if (config.run.train_iters == 0 && config.run.train_samples == 0) {
    for (const BatchSchedule::Piece& piece : run.batches().pieces()) {
      found.insert({1, microbatches(piece.batch)});
    }
  } else {  // a run that was finished before
    found.insert({1, microbatches(run.global_batch(run.begin().consumed_train_samples))});
  }
  return found;
}

// The programs of all batches are in memory at the same time: refuses too many.
void check_together(const TrainConfig& config, const std::set<ProgramSize>& sizes) {
  constexpr std::int64_t kMostPasses = 8'000'000;  // some gigabytes
  std::int64_t passes = 0;
  for (const ProgramSize& size : sizes) {
    passes += std::int64_t{size.iterations} * size.microbatches *
              config.layout.pipeline_model_parallel_size;
  }
  if (sizes.size() > 1 && passes > kMostPasses) {
    throw ConfigError(
        "the run has {} programs for its batches, with {} microbatches on all {} ranks of a "
        "pipeline: "
        "more than {}. Let the batch change in fewer steps, or raise --micro-batch-size",
        sizes.size(), passes, config.layout.pipeline_model_parallel_size, kMostPasses);
  }
  expect_schedules_fit(static_cast<double>(passes),
                       "give a larger --micro-batch-size, a smaller --global-batch-size or a "
                       "shorter pipeline");
}

}  // namespace

int StepPrograms::most_updates() const {
  int most = 1;
  for (const auto& [size, pipeline] : training) {
    const Schedule& schedule = pipeline.schedule;
    most = std::max(most, schedule.microbatches / schedule.microbatches_per_update);
  }
  return most;
}

int iterations_until_drained(const TrainConfig& config, const RunLength& length,
                             std::int64_t iteration) {
  if (!is_asynchronous(config.layout)) return 1;
  const std::int64_t next = next_pause(config, length, iteration);
  return static_cast<int>(std::max<std::int64_t>(1, next - iteration));
}

bool pauses_after(const TrainConfig& config, const RunLength& length, std::int64_t iteration) {
  const std::int64_t snapshots = config.run.memory_snapshot_interval;
  return next_pause(config, length, iteration - 1) == iteration ||
         (snapshots > 0 && iteration % snapshots == 0);
}

StepPrograms step_programs(const TrainConfig& config) {
  return step_programs(config, RunLength(config));
}

StepPrograms step_programs(const TrainConfig& config, const RunLength& length) {
  const std::set<ProgramSize> needed = sizes(config, length);
  check_together(config, needed);
  StepPrograms programs{
      .training = {},
      .evaluation = lowered(forward_only_schedule(
          schedule_kind(config.layout.pipeline_schedule)
              .placement(schedule_request(config.layout, num_microbatches(config.layout))),
          static_cast<int>(num_microbatches(config.layout)))),
      .usual = {}};
  const int last = length.stretches().empty()
                       ? std::ranges::max(needed, {}, &ProgramSize::microbatches).microbatches
                       : static_cast<int>(num_microbatches(config.layout,
                                                           length.stretches().back().global_batch));
  programs.usual = *std::ranges::find(needed, last, &ProgramSize::microbatches);
  for (const ProgramSize& size : needed) {
    try {
      const auto [program, is_new] =
          programs.training.emplace(size, training_programs(config, size));
      if (program->second.schedule.placement != programs.placement()) {
        throw ConfigError(
            "--pipeline-schedule {} would cut the model into other stages than for the last one: "
            "give a schedule with a fixed number of stages",
            config.layout.pipeline_schedule);
      }
    } catch (const ConfigError& error) {
      if (length.batches().pieces().size() == 1) throw;
      throw ConfigError("a global batch of {} samples, which the run comes to: {}",
                        size.microbatches * samples_per_microbatch(config.layout), error.what());
    }
  }
  return programs;
}

}  // namespace phalanx
