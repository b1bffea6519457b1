#pragma once
// The programs of one rank, each with the executor that runs it.

#include <map>
#include <memory>

#include "phalanx/pipeline/executor.h"
#include "phalanx/rank/communicators.h"
#include "phalanx/rank/rank_states.h"
#include "phalanx/rank/step_programs.h"

namespace phalanx {

struct RankProgram {
  std::unique_ptr<Executor> executor;
  int microbatches_per_update = 1;  // an evaluation has one sum, of all its microbatches

  int microbatches() const { return executor->program().microbatches; }
  int updates() const { return microbatches() / microbatches_per_update; }
};

class RankPrograms {
 public:
  // The states and communicators must outlive this. `plans`, where given, may know the plans of
  // saved memory.
  RankPrograms(const StepPrograms& programs, const RankStates& states,
               const nn::BatchShapes& shapes, const RankCommunicators& ranks, SavedPlans* plans);

  const std::map<ProgramSize, RankProgram>& training() const { return training_; }
  const RankProgram& training(const ProgramSize& size) const;
  const RankProgram& evaluation() const { return evaluation_; }
  // The size of the run's usual step.
  const ProgramSize& usual() const { return usual_; }
  // Where activations lie in files; null: all stay in memory.
  SavedFiles* saved_files() const { return saved_files_.get(); }

  // The most of any program:
  int most_microbatches() const;
  int batch_slots() const;

 private:
  const ProgramSize usual_;
  std::unique_ptr<SavedFiles> saved_files_;
  std::map<ProgramSize, RankProgram> training_;
  RankProgram evaluation_;
};

}  // namespace phalanx
