#pragma once
// What data-parallel ranks do for each other in a step: gradients are summed, bucket by bucket,
// each as soon as its last gradient of the last microbatch is there; with a distributed optimizer
// every rank receives the sum of its shard alone, updates it, and the parameters are gathered, each
// bucket before the first unit that reads it.
//
// At the end the gradients of what acts on a sequence-parallel stream are summed over the
// tensor-parallel group.

#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/nn/unit.h"

namespace phalanx {

struct DataParallelOptions {
  bool overlap_grad_reduce = false;   // reduce during backward, not after it
  bool overlap_param_gather = false;  // gather during the next forward, not at once
  std::int64_t bucket_size = 0;       // elements, where nothing is sharded; 0: one bucket
};

class DataParallel final : public nn::UnitHooks {
 public:
  // `group` is null for one rank. `uses` says of each parameter how many units of a microbatch add
  // to its gradient. The stores must outlive this.
  DataParallel(const ParameterStore& parameters, const GradientStore& gradients,
               std::vector<int> uses, Communicator* group, const TensorRegion& region,
               const DataParallelOptions& options, Arena& communication);

  // Before the passes of a step whose last microbatch is `last_microbatch`; during evaluation, with
  // gradients nobody wants, -1.
  void begin(Context& context, int last_microbatch);
  // After the last weight gradient: the gradients of the shard (of everything, without one) are the
  // sums over all ranks.
  void reduce();
  // After the update: the other ranks' parts of the parameters come in.
  void gather();
  // Until all have come in.
  void finish_gather();

  void before(const nn::Unit& unit, nn::PassKind pass, int microbatch) override;
  void grad_ready(ParamId id, int microbatch) override;

 private:
  void complete(ParamId id);
  void start_reduction(std::size_t bucket);
  void sum_over_sequence();
  void wait_for(std::size_t bucket);

  const ParameterStore* parameters_;
  const GradientStore* gradients_;
  std::vector<int> uses_;
  Communicator* group_;
  TensorRegion region_;
  DataParallelOptions options_;
  std::vector<FlatRange> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by ParamId
  // Own segments of sequence-partial parameters, with their places in the buffer that is summed: it
  // has room for all such parameters, so that its message is the same on every rank.
  struct Coalesced {
    Segment segment;
    std::int64_t place;
  };
  std::vector<Coalesced> sequence_partial_;
  Tensor coalesced_;

  Context* context_ = nullptr;
  int last_microbatch_ = -1;
  std::vector<int> uses_left_;        // by ParamId, in the last microbatch
  std::vector<int> parameters_left_;  // by bucket
  std::vector<Work> reductions_;      // by bucket
  std::vector<bool> started_;
  std::vector<Work> gathers_;  // by bucket
};

}  // namespace phalanx
