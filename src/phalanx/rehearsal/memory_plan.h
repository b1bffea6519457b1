#pragma once
// The plan of a rank's memory, which a rehearsal on the planning backend makes before anything is
// allocated, and its comparison with what a run really used.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/ops/device_choice.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rehearsal/rank_rehearsal.h"

namespace phalanx {

struct MemoryPlan {
  MemoryBytes bytes = {};
  // The most that libraries, the program itself and data that is read ahead may take besides the
  // arenas. It is a bound, not a measurement.
  std::int64_t library_bound = 0;
  std::int64_t snapshot_bytes = 0;  // in memory files of the launcher
  std::int64_t process_bound = 0;   // the part of it that a process takes once for all its ranks

  // The programs of the run, the evaluation last; `bytes` is the most of all of them. `made`: how
  // far the arenas go before the first program.
  MemoryBytes made = {};
  std::vector<ProgramMemory> programs = {};
  std::size_t largest = 0;  // the program that takes the most; these two and `lent` are of it:
  std::vector<std::int64_t> saved_per_microbatch;  // by chunk
  std::vector<int> microbatches_in_flight;         // by chunk
  std::int64_t model_parameters = 0;               // of this rank, without vocabulary padding
  std::int64_t expert_parameters = 0;              // of these, the experts'
  std::int64_t flops_per_step = 0;  // of matrix products and attention as they are computed
  LargestUnit largest_unit = {};    // the longest work between two signs of life of a rank
  std::int64_t lent = 0;   // part of bytes["saved"]: whole weights and gradients for passes
  MessageTotals messages;  // of a training step
  std::vector<int> summing =
      {};                       // sizes of the groups in which a step sums more than a few numbers
  TransferTotals transfers;     // of a training step, from and to files
  std::int64_t file_bytes = 0;  // disk space of these files
  // With --async-save: the most that any of these ranks saves. The row "snapshot" is a share of it.
  std::int64_t saved_bytes = 0;

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

// The plan of one rank of the world of `config`. Nothing of the model's size is allocated.
MemoryPlan plan_memory(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                       int rank, const DeviceChoice& kernels, Rank::Shared* shared = nullptr);

// Plans so many bytes of a row, which are taken before the first program.
void reserve(MemoryPlan& plan, MemoryRow row, std::int64_t bytes);
// The same for the snapshot of a save.
void reserve_snapshot(MemoryPlan& plan, std::int64_t bytes);

// A plan and the ranks that it is for: all that have one place in the model.
struct RankPlan {
  MemoryPlan memory;
  std::vector<int> ranks;
};
// The plans of all ranks, or of `ranks`, in the order of their first ranks.
std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const DeviceChoice& kernels);
std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const DeviceChoice& kernels,
                                 std::span<const int> ranks);

// The most that one process with all these ranks takes.
std::int64_t process_bytes(std::span<const RankPlan> plans);

// After all planned programs have run: InternalError, with the name of the arena, if a high-water
// mark is not the planned one.
void check_high_water(const MemoryPlan& plan, const RankArenas& arenas);

// Compares what a rank uses with its plan. Both must outlive this.
class HighWaterCheck {
 public:
  HighWaterCheck(const MemoryPlan& plan, const RankArenas& arenas);
  // After the rank has run one of the plan's programs: InternalError, with the name of the arena,
  // if a high-water mark is not the most of the programs that have run.
  void after(const ProgramSize& program);
  void after_evaluation() { after(plan_.programs.back().size); }

 private:
  const MemoryPlan& plan_;
  const RankArenas& arenas_;
  MemoryBytes reached_;  // the most of the programs that have run
};

}  // namespace phalanx
