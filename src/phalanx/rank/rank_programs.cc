#include "phalanx/rank/rank_programs.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {

RankPrograms::RankPrograms(const StepPrograms& programs, const RankStates& states,
                           const nn::BatchShapes& shapes, const RankCommunicators& ranks,
                           SavedPlans* plans)
    : usual_(programs.usual) {
  if (Storage* storage = states.activation_storage()) {
    saved_files_ = std::make_unique<SavedFiles>(*storage);
  }
  const std::vector<ChunkTables> tables = states.tables();
  const auto executor = [&](const PipelinePrograms& pipeline) {
    return std::make_unique<Executor>(
        pipeline.ranks[static_cast<std::size_t>(ranks.coordinates.pipeline)], tables, shapes,
        ranks.pipeline.get(), plans, saved_files_.get());
  };
  for (const auto& [size, pipeline] : programs.training) {
    training_.emplace(size,
                      RankProgram{executor(pipeline), pipeline.schedule.microbatches_per_update});
  }
  evaluation_.executor = executor(programs.evaluation);
  evaluation_.microbatches_per_update = evaluation_.microbatches();
  if (saved_files_) saved_files_->open();
}

const RankProgram& RankPrograms::training(const ProgramSize& size) const {
  const auto found = training_.find(size);
  PHALANX_CHECK(found != training_.end(), "no program of {} iterations of {} microbatches",
                size.iterations, size.microbatches);
  return found->second;
}

int RankPrograms::most_microbatches() const {
  int most = evaluation_.microbatches();
  for (const auto& [size, program] : training_) most = std::max(most, program.microbatches());
  return most;
}

int RankPrograms::batch_slots() const {
  int most = evaluation_.executor->batch_slots().count();
  for (const auto& [size, program] : training_) {
    most = std::max(most, program.executor->batch_slots().count());
  }
  return most;
}

}  // namespace phalanx
