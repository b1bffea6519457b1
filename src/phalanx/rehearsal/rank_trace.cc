#include "phalanx/rehearsal/rank_trace.h"

#include "phalanx/rank/step_run.h"
#include "phalanx/rehearsal/planning_rank.h"

namespace phalanx {

RankTrace trace_rank(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                     int number, const DeviceChoice& kernels) {
  PlanningRank planning(config, model, programs, number, kernels);
  Rank& rank = planning.rank();
  Recorder recorder;
  rank.record_to(&recorder);
  rank.initialise();
  recorder.clear();
  const ProgramSize& size = rank.programs().usual();
  const RankProgram& program = rank.programs().training(size);
  const std::vector<StepSchedule> schedules(static_cast<std::size_t>(size.iterations));
  RankTrace trace{.rank = number};
  {
    TrainingRun run(rank, program, schedules, nullptr);
    if (rank.wants_loss_counts()) {
      run.count_losses(std::vector<double>(rank.losses().num_losses, 1.0));
    }
    trace.before = recorder.events();
    run.rehearse(nullptr, &trace.distinct);
  }
  rank.record_to(nullptr);
  trace.actions = program.executor->program().actions;
  trace.numbers = program.executor->numbers_of_actions();
  return trace;
}

}  // namespace phalanx
