#include "phalanx/train/step_programs.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/lowering.h"
#include "phalanx/pipeline/message_verifier.h"
#include "phalanx/pipeline/verifier.h"
#include "phalanx/train/config_views.h"

namespace phalanx {
namespace {

PipelinePrograms lowered(Schedule schedule) {
  verify(schedule);
  std::vector<Program> programs = lower(schedule);
  // What runs with rendezvous runs with any transport.
  const auto fault = message_fault(programs, Transport::kRendezvous);
  PHALANX_CHECK(!fault, "schedule {}: {}", schedule.kind, *fault);
  return {std::move(schedule), std::move(programs)};
}

PipelinePrograms training_programs(const TrainConfig& config, int iterations) {
  Schedule schedule =
      make_schedule(config.layout.pipeline_schedule,
                    schedule_request(config.layout, iterations * num_microbatches(config.layout)));
  if (const auto obstacle = training_obstacle(schedule)) {
    throw ConfigError("--pipeline-schedule {} cannot be trained with: {}",
                      config.layout.pipeline_schedule, *obstacle);
  }
  return lowered(std::move(schedule));
}

// How often a program of each length is needed does not matter: the lengths.
std::vector<int> lengths(const TrainConfig& config, const RunLength& run) {
  std::vector<int> found;
  std::int64_t iteration = run.begin().iteration;
  while (iteration < run.last_iteration()) {
    const int length = iterations_until_drained(config, run, iteration);
    if (std::find(found.begin(), found.end(), length) == found.end()) found.push_back(length);
    iteration += length;
  }
  return found;
}

}  // namespace

int iterations_until_drained(const TrainConfig& config, const RunLength& length,
                             std::int64_t iteration) {
  if (!is_asynchronous(config.layout)) return 1;
  const std::int64_t evaluation = config.run.eval_iters > 0 ? config.run.eval_interval : 0;
  const std::int64_t save = config.run.save.empty() ? 0 : config.run.save_interval;
  std::int64_t next = length.last_iteration();
  for (const std::int64_t interval :
       {config.layout.pipeline_drain_interval, evaluation, save, config.run.exit_interval}) {
    if (interval > 0) next = std::min(next, (iteration / interval + 1) * interval);
  }
  return static_cast<int>(std::max<std::int64_t>(1, next - iteration));
}

StepPrograms step_programs(const TrainConfig& config) {
  return step_programs(config, RunLength(config));
}

StepPrograms step_programs(const TrainConfig& config, const RunLength& length) {
  StepPrograms programs{
      .training = {},
      .evaluation = lowered(forward_only_schedule(
          schedule_kind(config.layout.pipeline_schedule)
              .placement(schedule_request(config.layout, num_microbatches(config.layout))),
          static_cast<int>(num_microbatches(config.layout))))};
  std::vector<int> needed =
      is_asynchronous(config.layout) ? lengths(config, length) : std::vector<int>{};
  // A plan has no iterations, nor has a run that was finished before.
  if (needed.empty()) needed.push_back(1);
  for (const int iterations : needed) {
    programs.training.emplace(iterations, training_programs(config, iterations));
  }
  return programs;
}

}  // namespace phalanx
