// The rehearsal of a rank's programs on the planning backend: what they compute, send and hold.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/rank/gather.h"
#include "phalanx/rank/rank.h"

namespace phalanx {
namespace {

// What each unit's pass records.
class UnitCosts final : public nn::UnitHooks {
 public:
  UnitCosts(const Recorder& recorder, LargestUnit& largest)
      : recorder_(recorder), largest_(largest) {}

  void before(const nn::Unit& /*unit*/, nn::PassKind /*pass*/, int /*microbatch*/) override {
    first_ = recorder_.records().size();
  }
  void after(const nn::Unit& /*unit*/, nn::PassKind /*pass*/, int /*microbatch*/,
             const nn::UnitTensors& /*tensors*/) override {
    std::int64_t flops = 0;
    std::int64_t bytes = 0;
    for (std::size_t i = first_; i < recorder_.records().size(); ++i) {
      const OpCost& cost = recorder_.records()[i].cost;
      flops += cost.flops;
      bytes += cost.bytes_read + cost.bytes_written;
    }
    largest_.flops = std::max(largest_.flops, flops);
    largest_.bytes = std::max(largest_.bytes, bytes);
  }

 private:
  const Recorder& recorder_;
  LargestUnit& largest_;
  std::size_t first_ = 0;
};

}  // namespace

Rank::Rehearsal Rank::rehearse() {
  Recorder recorder;
  context_.recorder = &recorder;
  initialise();
  {
    const WorkspaceScope scope(context_.workspace);
    context_.workspace.allocate(DType::kU8, {gather_bytes(ranks_.world->size())});
  }
  Rehearsal result;
  result.made = arenas_.high_water();
  UnitCosts unit_costs(recorder, result.largest_unit);
  const SavedPlan* largest = nullptr;
  // A program of the same distinct actions as another differs from it in its saved tensors alone.
  std::map<std::vector<bool>, MemoryBytes> bytes_of_actions;
  for (const auto& [size, program] : training_) {
    const SavedPlan& saved = program.executor->saved_plan();
    const auto [known, is_new] = bytes_of_actions.try_emplace(program.executor->distinct_actions());
    if (is_new || size == usual_) {
      arenas_.forget_high_water();
      const std::vector<StepSchedule> schedules(static_cast<std::size_t>(size.iterations));
      iterations_ = schedules;
      begin(nullptr, &program);
      if (asynchronous_) asynchronous_->begin();
      begin_update(0);
      recorder.clear();
      if (wants_loss_counts()) sum_loss_counts(std::vector<double>(terms_.size(), 1.0));
      const std::vector<Message> before = recorder.messages();
      nn::HooksInTurn hooks = states_.hooks({saved_files_.get(), &unit_costs});
      auto run =
          program.executor->rehearse(context_, arenas_["saved"], settings(true), *this, hooks);
      known->second = arenas_.high_water();
      if (size == usual_) {
        result.flops_per_step = run.flops / size.iterations;
        result.messages = std::move(run.messages);
        result.messages.add(before, 1);
        result.transfers = std::move(run.transfers);
      }
    }
    ProgramMemory memory{size, known->second};
    memory.bytes["saved"] = round_up(saved.bytes(), kArenaAlignment);
    result.programs.push_back(std::move(memory));
    if (result.programs.back().bytes.total() >= result.programs[result.largest].bytes.total()) {
      result.largest = result.programs.size() - 1;
      largest = &saved;
    }
  }
  arenas_.forget_high_water();
  begin(nullptr, nullptr);
  states_.begin_passes(context_, -1);
  nn::HooksInTurn hooks = states_.hooks({saved_files_.get()});
  evaluation_->rehearse(context_, arenas_["saved"], settings(false), *this, hooks);
  if (scores_ != nullptr) sum_evaluation_counts();
  result.programs.push_back({{.iterations = 0, .microbatches = evaluation_->program().microbatches},
                             arenas_.high_water()});
  context_.recorder = nullptr;
  result.lent = largest->most_lent();
  for (int c = 0; c < std::ssize(states_.model().chunks); ++c) {
    result.saved_per_microbatch.push_back(largest->bytes_per_microbatch(c));
    result.microbatches_in_flight.push_back(largest->microbatches_in_flight(c));
  }
  return result;
}

void Rank::play(StateObserver& observer, nn::UnitHooks& passes, Recorder& recorder) {
  initialise();
  const TrainingProgram& program = training_.at(usual_);
  const std::vector<StepSchedule> schedules(static_cast<std::size_t>(usual_.iterations));
  iterations_ = schedules;
  begin(nullptr, &program);
  if (asynchronous_) asynchronous_->begin();
  begin_update(0);
  if (wants_loss_counts()) sum_loss_counts(std::vector<double>(terms_.size(), 1.0));
  context_.recorder = &recorder;
  observer_ = &observer;
  states_.observe_with(&observer);
  run_training(*program.executor, nullptr, &passes);
  states_.observe_with(nullptr);
  observer_ = nullptr;
  context_.recorder = nullptr;
}

}  // namespace phalanx
