#pragma once
// The messages of data-parallel ranks in a step. Gradients are summed bucket by bucket. The sum of
// a bucket begins when the last microbatch has added its last gradient. With a distributed
// optimizer every rank receives the sum of its shard only and updates it; then the parameters are
// gathered, each bucket before the first unit that reads it.
//
// If gradients are cut too (ZeRO stage 2), the gradients of every microbatch are summed at once and
// added to the shard. A unit's gradients are whole only during its backward pass; with overlap,
// also during the next unit's.
//
// If pipeline ranks share a parameter, its gradient is summed over them first, and the buckets with
// it are summed last: each data-parallel rank adds what one rank with the whole model would add.
//
// At the end, two more sums over the tensor-parallel group: gradients of parameters that act on a
// sequence-parallel stream, and gradients of rows that several of its ranks hold.

#include "phalanx/base/step_timers.h"
#include "phalanx/data_parallel/gradient_store.h"
#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/state_observer.h"
#include "phalanx/data_parallel/unit_order.h"
#include "phalanx/nn/unit.h"

namespace phalanx {

struct DataParallelOptions {
  bool overlap_grad_reduce = false;   // reduce during backward, not after it
  bool overlap_param_gather = false;  // gather during the next forward, not at once
};

// The groups of the sums; null if this rank is alone in one.
struct ReductionGroups {
  // The ranks that share one copy of the states, if states are cut; else all data-parallel (of
  // experts: expert-data) ranks.
  PerDomain<Communicator*> data = {};
  // The ranks that have the same part of each copy, if there are several copies.
  PerDomain<Communicator*> replicas = {};
  // By shared parameter of the model: its holders in their order.
  std::vector<Communicator*> shared = {};
  // Ranks of the tensor-parallel group that hold the same boxes of some parameters.
  Communicator* box_holders = nullptr;
};

class DataParallel final : public nn::PassStates {
 public:
  // `uses`: by ParamId, how many units of a microbatch add to its gradient. `chunks`: only if
  // gradients are cut. The stores must outlive this.
  DataParallel(const ParameterStore& parameters, GradientStore& gradients, std::vector<int> uses,
               const ReductionGroups& groups, const TensorRegion& region,
               const DataParallelOptions& options, Arena& communication,
               std::vector<UnitOrder> chunks = {});

  // Before the passes of a step whose last microbatch is `last_microbatch`; -1 before an
  // evaluation, which has no gradients.
  void begin(Context& context, int last_microbatch);
  // After the last weight gradient of a chunk: starts the sums of its buckets that have not started
  // yet, without waiting. A bucket that waits for another chunk or another stage starts later.
  void reduce(int chunk);
  // After the last weight gradient of all chunks: makes the gradients of the shard (all gradients,
  // if states are not cut) the sums over all ranks.
  void finish_reduction();
  // After the update: starts to gather the other ranks' parts of the parameters.
  void gather();
  // Waits for all gathers.
  void finish_gather();
  // Before the first step: gathers parameters of which each rank has its own part.
  void gather_loaded(Context& context);

  // Waits for reductions and gathers add to these timers from now on; null: none.
  void time_with(StepTimers* timers) { timers_ = timers; }
  // Tells the observer of every move from now on; null: none.
  void observe_with(StateObserver* observer) { observer_ = observer; }

  std::vector<SavedTensor> lent_tensors(int chunk, const nn::PassOrder& order) const override;
  void enter(int chunk, const nn::PassOrder& order, bool forward, Tensors lent) override;
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;
  void grad_ready(ParamId id, int microbatch) override;

 private:
  void complete(ParamId id);
  void start_if_complete(std::size_t bucket);
  void start_reduction(std::size_t bucket);
  // Counts the gradients that are missing before each bucket's sum over data-parallel ranks.
  void count_missing();
  // If gradients are cut: starts the sum that sets, or is added to, the shard of a bucket.
  void start_scatter(std::size_t bucket);
  // Waits for the sums that must end with this unit of the chunk.
  void finish_scatters(int unit);
  // The sum of one of gradients_->shared() over its holders.
  struct SharedState {
    bool started = false;
    Work work;
  };
  Communicator* group_of(const SharedSum& sum) const;
  // All roles of this rank are complete.
  void complete_shared(std::size_t shared);
  void start_shared_sum(std::size_t shared);
  void finish_shared_sums();
  void sum_along_holders(const SharedSum& sum);  // of a chain
  void finish_buckets();
  void sum_over_sequence();
  void sum_over_box_holders();
  // The range of a parameter that several tensor-parallel ranks hold.
  struct Common {
    ParamId id = 0;
    std::int64_t begin = 0, count = 0;  // within the parameter
  };
  // If gradients are cut: copies this rank's parts of a common range to common_sum_ or back.
  void copy_common(const Common& common, bool in);
  void sum_over_replicas();
  void wait_for(std::size_t bucket);

  void tell_begin(StateMove move, std::size_t bucket) const {
    if (observer_ != nullptr) observer_->begins(move, static_cast<int>(bucket));
  }
  void tell_end(StateMove move, std::size_t bucket) const {
    if (observer_ != nullptr) observer_->is_done(move, static_cast<int>(bucket));
  }

  const StateLayout& states() const { return parameters_->states(); }
  ReductionDomain domain(std::size_t bucket) const {
    return states().domain(states().buckets()[bucket].group);
  }

  const ParameterStore* parameters_;
  GradientStore* gradients_;
  std::vector<UnitOrder> chunks_;
  std::vector<std::vector<GradientHold>> holds_;  // by chunk
  std::vector<int> uses_;
  ReductionGroups groups_;
  TensorRegion region_;
  DataParallelOptions options_;
  std::vector<int> shared_of_;  // by ParamId: index into the shared parameters of this rank, or -1
  // This rank's segments of sequence-partial parameters and their offsets in the summed buffer. The
  // buffer covers all such parameters, so every rank sends the same message.
  struct Coalesced {
    Segment segment;
    std::int64_t place;
  };
  std::vector<Coalesced> sequence_partial_;
  Tensor coalesced_;
  // By parameter: the whole common range, so every data-parallel rank sends the same message. If
  // gradients are not cut, the range is summed in place; elements outside this rank's segments are
  // undefined before and after.
  std::vector<Common> common_;
  Tensor common_sum_;  // if gradients are cut: room for one range

  Context* context_ = nullptr;
  int last_microbatch_ = -1;
  std::vector<int> uses_left_;  // by ParamId, in the last microbatch
  // By bucket: the number of its parameters, and of their sums over holders, that are incomplete.
  std::vector<int> missing_;
  std::vector<Work> reductions_;  // by bucket
  std::vector<bool> started_;
  // If gradients are cut: a sum in progress.
  struct Scatter {
    std::size_t bucket = 0;
    int until = 0;             // this unit's end waits for it
    bool adds = false;         // to the sum of earlier microbatches
    bool is_in_place = false;  // `sum` is its place in the shard
    Tensor sum;
    Work work;
  };
  std::vector<bool> has_sum_;  // by bucket: earlier microbatches of this update have a sum
  std::vector<Scatter> scatters_;
  int chunk_ = 0;
  StepTimers* timers_ = nullptr;
  StateObserver* observer_ = nullptr;
  std::vector<SharedState> shared_;
  std::vector<Work> gathers_;  // by bucket
};

}  // namespace phalanx
