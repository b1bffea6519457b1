#pragma once
// The memory of a rank before its first byte moves: a rehearsal on the planning backend, and the
// comparison with what a run really used.

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rehearsal/rank_rehearsal.h"

namespace phalanx {

struct MemoryPlan {
  // Bytes, by arena.
  std::int64_t parameters = 0;
  std::int64_t main_parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t saved = 0;
  std::int64_t workspace = 0;
  std::int64_t communication = 0;
  std::int64_t constants = 0;
  std::int64_t staging = 0;  // of states in files
  std::int64_t total = 0;
  // What libraries and the program itself may take beside the arenas, data that is read ahead
  // included: a bound, not a measurement.
  std::int64_t library_bound = 0;
  std::int64_t process_bound = 0;  // of it, what all ranks of a process take together once

  // The programs of the run, the evaluation's last; the bytes above are the most of all of them.
  // `made`: how far the arenas go before the first one.
  std::vector<std::int64_t> made = {};
  std::vector<ProgramMemory> programs = {};
  std::size_t largest = 0;                         // the program that takes the most, and of it:
  std::vector<std::int64_t> saved_per_microbatch;  // by chunk
  std::vector<int> microbatches_in_flight;         // likewise
  std::int64_t model_parameters = 0;               // of this rank, without vocabulary padding
  std::int64_t flops_per_step = 0;  // of matrix products and attention as they are computed
  LargestUnit largest_unit = {};    // of what a rank does without telling who watches over it
  std::int64_t lent = 0;            // of `saved`: weights and gradients that passes are lent
  MessageTotals messages;           // of a training step
  TransferTotals transfers;         // likewise: from and to files
  std::int64_t file_bytes = 0;      // what these files take of the disk

  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
};

// The kernels that a plan is for; their threads are the configuration's.
struct PlannedKernels {
  cpu::ProductPrecision products = cpu::ProductPrecision::kFp32;
  cpu::Processor processor = cpu::this_processor();

  cpu::CpuDevice device(const LayoutConfig& layout) const {
    return {static_cast<int>(layout.threads_per_rank), products, processor};
  }
};

// Of one rank of the world of `config`. Nothing of the model's size is allocated.
MemoryPlan plan_memory(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                       int rank, const PlannedKernels& kernels, Rank::Shared* shared = nullptr);

// Ranks with one plan: those of one place in the model, which is all that a plan depends on.
struct RankPlan {
  MemoryPlan memory;
  std::vector<int> ranks;
};
// Of all ranks, or of these; by their first ranks.
std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const PlannedKernels& kernels);
std::vector<RankPlan> plan_ranks(const TrainConfig& config, const Model& model,
                                 const StepPrograms& programs, const PlannedKernels& kernels,
                                 std::span<const int> ranks);

// Of all ranks in one process, with what it needs for itself, at most.
std::int64_t process_bytes(std::span<const RankPlan> plans);

// Arenas of exactly the planned sizes. SystemError where the system has not that much memory.
RankArenas allocate_arenas(const MemoryPlan& plan);

// Where everything has run that was planned: InternalError naming the arena whose high-water mark
// is not the planned one.
void check_high_water(const MemoryPlan& plan, const RankArenas& arenas);

// Compares what a rank uses with its plan, whose parts must outlive this.
class HighWaterCheck {
 public:
  HighWaterCheck(const MemoryPlan& plan, const RankArenas& arenas);
  // After the rank has run one of the plan's programs: InternalError naming the arena whose
  // high-water mark is not what the programs come to that have run.
  void after(const ProgramSize& program);
  void after_evaluation() { after(plan_.programs.back().size); }

 private:
  const MemoryPlan& plan_;
  const RankArenas& arenas_;
  std::vector<std::int64_t> reached_;  // by the programs that have run
};

}  // namespace phalanx
