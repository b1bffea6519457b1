#pragma once
// What data-parallel ranks do for each other in a step: gradients are summed, bucket by bucket,
// each as soon as its last gradient of the last microbatch is there; with a distributed optimizer
// every rank receives the sum of its shard alone, updates it, and the parameters are gathered, each
// bucket before the first unit that reads it.
//
// Where gradients are cut too (ZeRO stage 2), those of every microbatch are summed at once, added
// to the shard, and let go: a unit's are whole while its backward pass runs, and with overlap
// during the next unit's.
//
// The gradients of a parameter that ranks of a pipeline share are summed over these first, and the
// buckets with it come last: so each data-parallel rank adds to the sum what one rank with the
// whole model would.
//
// At the end the gradients of what acts on a sequence-parallel stream are summed over the
// tensor-parallel group, and those of rows that neighbours in it have too over these.

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

// Who takes part in the sums: null where nobody else does.
struct ReductionGroups {
  // Where states are cut those that share a copy of them, else all of data parallelism.
  Communicator* data = nullptr;
  // Those that have the same part of each copy, where there are several.
  Communicator* replicas = nullptr;
  // Of each of the model's shared parameters, its holders in their order.
  std::vector<Communicator*> shared = {};
  // Neighbours of the tensor-parallel group that have the same boxes of some parameters.
  Communicator* box_holders = nullptr;
};

class DataParallel final : public nn::PassStates {
 public:
  // `uses` says of each parameter how many units of a microbatch add to its gradient. `chunks`:
  // where gradients are cut. The stores must outlive this.
  DataParallel(const ParameterStore& parameters, GradientStore& gradients, std::vector<int> uses,
               const ReductionGroups& groups, const TensorRegion& region,
               const DataParallelOptions& options, Arena& communication,
               std::vector<UnitOrder> chunks = {});

  // Before the passes of a step whose last microbatch is `last_microbatch`; during evaluation, with
  // gradients nobody wants, -1.
  void begin(Context& context, int last_microbatch);
  // After the last weight gradient of a chunk: the sums of its buckets that have not begun begin,
  // and nothing is waited for. A bucket that needs more, of another chunk or another stage, begins
  // later.
  void reduce(int chunk);
  // After the last weight gradient of all chunks: the gradients of the shard (of everything,
  // without one) are the sums over all ranks.
  void finish_reduction();
  // After the update: the other ranks' parts of the parameters come in.
  void gather();
  // Until all have come in.
  void finish_gather();

  // Waits for reductions, and gathers, count their time there from now on; null: nowhere.
  void time_with(StepTimers* timers) { timers_ = timers; }
  // Is told from now on; null: nobody.
  void observe_with(StateObserver* observer) { observer_ = observer; }

  std::vector<SavedTensor> lent_tensors(int chunk, const nn::PassOrder& order) const override;
  void enter(int chunk, const nn::PassOrder& order, bool forward,
             std::span<const Tensor> blocks) override;
  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void after(const nn::Unit& unit, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& tensors) override;
  void grad_ready(ParamId id, int microbatch) override;

 private:
  void complete(ParamId id);
  void start_if_complete(std::size_t bucket);
  void start_reduction(std::size_t bucket);
  // By bucket, what has to come before its sum over data parallelism begins.
  void count_missing();
  // Into the shard, or to be added to it.
  void start_scatter(std::size_t bucket);
  // Those that may be under way until a unit of the chunk is done with.
  void finish_scatters(int unit);
  // One of gradients_->shared().
  struct SharedState {
    bool started = false;
    Work work;
  };
  Communicator* group_of(const SharedSum& sum) const;
  // This rank has the gradients of all roles that it has.
  void complete_shared(std::size_t shared);
  void start_shared_sum(std::size_t shared);
  void finish_shared_sums();
  void pass_on(const SharedSum& sum);
  void finish_buckets();
  void sum_over_sequence();
  void sum_over_box_holders();
  // What other ranks have too of a parameter.
  struct Common {
    ParamId id = 0;
    std::int64_t begin = 0, count = 0;  // within the parameter
  };
  // Own parts of a common range of gradients that are cut, into the room for it or back.
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

  const ParameterStore* parameters_;
  GradientStore* gradients_;
  std::vector<UnitOrder> chunks_;
  std::vector<std::vector<GradientHold>> holds_;  // by chunk
  std::vector<int> uses_;
  ReductionGroups groups_;
  TensorRegion region_;
  DataParallelOptions options_;
  std::vector<int> shared_of_;  // by ParamId: index into the shared parameters of this rank, or -1
  // Own segments of sequence-partial parameters, with their places in the buffer that is summed: it
  // has room for all such parameters, so that its message is the same on every rank.
  struct Coalesced {
    Segment segment;
    std::int64_t place;
  };
  std::vector<Coalesced> sequence_partial_;
  Tensor coalesced_;
  // All of that of each, for then the message is the same on every data-parallel rank. Where
  // gradients are not cut they are summed where they are; what is not of the own segments then has
  // no meaning before and after.
  std::vector<Common> common_;
  Tensor common_sum_;  // of gradients that are cut: room for one of them

  Context* context_ = nullptr;
  int last_microbatch_ = -1;
  std::vector<int> uses_left_;  // by ParamId, in the last microbatch
  // By bucket: its parameters that are not complete, and sums with other holders.
  std::vector<int> missing_;
  std::vector<Work> reductions_;  // by bucket
  std::vector<bool> started_;
  // Of gradients that are cut: by bucket, whether microbatches of this update have left a sum; and
  // the sums under way.
  struct Scatter {
    std::size_t bucket = 0;
    int until = 0;             // the unit behind which it is waited for
    bool adds = false;         // to what microbatches before have left
    bool is_in_place = false;  // `sum` is where it stays
    Tensor sum;
    Work work;
  };
  std::vector<bool> has_sum_;
  std::vector<Scatter> scatters_;
  int chunk_ = 0;
  StepTimers* timers_ = nullptr;
  StateObserver* observer_ = nullptr;
  std::vector<SharedState> shared_;
  std::vector<Work> gathers_;  // by bucket
};

}  // namespace phalanx
