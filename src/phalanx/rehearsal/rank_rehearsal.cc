#include "phalanx/rehearsal/rank_rehearsal.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "phalanx/base/numeric.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rank/step_run.h"
#include "phalanx/rehearsal/planning_rank.h"

namespace phalanx {
namespace {

// Records the cost of the largest pass of a unit.
class UnitCosts final : public nn::UnitHooks {
 public:
  UnitCosts(const Recorder& recorder, LargestUnit& largest)
      : recorder_(recorder), largest_(largest) {}

  void before(const nn::Unit& /*unit*/, nn::PassKind /*pass*/, int /*microbatch*/) override {
    first_ = recorder_.events().size();
  }
  void after(const nn::Unit& /*unit*/, nn::PassKind /*pass*/, int /*microbatch*/,
             const nn::UnitTensors& /*tensors*/) override {
    std::int64_t flops = 0;
    std::int64_t bytes = 0;
    for_each_event<OpRun>(std::span(recorder_.events()).subspan(first_), [&](const OpRun& run) {
      flops += run.cost.flops;
      bytes += run.cost.bytes_read + run.cost.bytes_written;
    });
    largest_.flops = std::max(largest_.flops, flops);
    largest_.bytes = std::max(largest_.bytes, bytes);
  }

 private:
  const Recorder& recorder_;
  LargestUnit& largest_;
  std::size_t first_ = 0;
};

void count_losses(Rank& rank, TrainingRun& run) {
  if (rank.wants_loss_counts())
    run.count_losses(std::vector<double>(rank.losses().num_losses, 1.0));
}

// Either listener may be null.
void play(Rank& rank, StateObserver* observer, nn::UnitHooks* passes, Recorder& recorder) {
  rank.initialise();
  const ProgramSize& size = rank.programs().usual();
  const std::vector<StepSchedule> schedules(static_cast<std::size_t>(size.iterations));
  rank.record_to(&recorder);
  TrainingRun run(rank, rank.programs().training(size), schedules, nullptr, observer);
  count_losses(rank, run);
  run.run(nullptr, passes);
  rank.record_to(nullptr);
}

}  // namespace

RankRehearsal rehearse(Rank& rank) {
  const RankPrograms& programs = rank.programs();
  RankArenas& arenas = rank.arenas();
  Recorder recorder;
  rank.record_to(&recorder);
  rank.initialise();
  {
    Arena& workspace = rank.context().workspace;
    const WorkspaceScope scope(workspace);
    workspace.allocate(DType::kU8, {gather_bytes(rank.ranks().world->size())});
  }
  RankRehearsal result;
  result.made = arenas.high_water();
  UnitCosts unit_costs(recorder, result.largest_unit);
  const SavedPlan* largest = nullptr;
  // A program of the same distinct actions as another differs from it in its saved tensors alone.
  std::map<std::vector<bool>, MemoryBytes> bytes_of_actions;
  for (const auto& [size, program] : programs.training()) {
    const SavedPlan& saved = program.executor->saved_plan();
    const auto [known, is_new] = bytes_of_actions.try_emplace(program.executor->distinct_actions());
    if (is_new || size == programs.usual()) {
      arenas.forget_high_water();
      const std::vector<StepSchedule> schedules(static_cast<std::size_t>(size.iterations));
      TrainingRun run(rank, program, schedules, nullptr);
      recorder.clear();
      count_losses(rank, run);
      MessageTotals before;
      before.add(recorder.messages());
      Executor::Rehearsal costs = run.rehearse(&unit_costs);
      known->second = arenas.high_water();
      if (size == programs.usual()) {
        result.flops_per_step = costs.flops / size.iterations;
        result.messages = std::move(costs.messages);
        result.messages.add(before);
        result.transfers = std::move(costs.transfers);
      }
    }
    ProgramMemory memory{size, known->second};
    memory.bytes["saved"] = round_up(saved.bytes(), kArenaAlignment);
    result.programs.push_back(memory);
    if (result.programs.back().bytes.total() >= result.programs[result.largest].bytes.total()) {
      result.largest = result.programs.size() - 1;
      largest = &saved;
    }
  }
  arenas.forget_high_water();
  EvaluationRun(rank, nullptr).rehearse();
  result.programs.push_back(
      {{.iterations = 0, .microbatches = programs.evaluation().microbatches()},
       arenas.high_water()});
  rank.record_to(nullptr);
  result.lent = largest->most_lent();
  for (int c = 0; c < std::ssize(rank.chunks()); ++c) {
    result.saved_per_microbatch.push_back(largest->bytes_per_microbatch(c));
    result.microbatches_in_flight.push_back(largest->microbatches_in_flight(c));
  }
  return result;
}

void play_usual_step(Rank& rank, StateObserver& observer, nn::UnitHooks& passes,
                     Recorder& recorder) {
  play(rank, &observer, &passes, recorder);
}

Trace usual_trace(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                  int number, const DeviceChoice& kernels, Rank::Shared* shared) {
  PlanningRank planning(config, model, programs, number, kernels, shared);
  Recorder recorder;
  play(planning.rank(), nullptr, nullptr, recorder);
  return recorder.events();
}

}  // namespace phalanx
