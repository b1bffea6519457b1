#pragma once
// Expert parallelism as the layers see it. The dense ranks of a pipeline stage, tensor x context x
// data of them, are also a grid of expert-tensor x expert x expert-data ranks (Megatron's second
// grid; mesh/rank_grid.h with the sizes of experts). Along the expert axis each rank has its own
// experts, E / size neighbours in the numbering of a layer; along the expert-tensor axis each has a
// part of every expert's features, as tensor-parallel ranks do of a dense MLP.

#include <cstdint>

#include "phalanx/base/error.h"
#include "phalanx/comm/communicator.h"

namespace phalanx {

// The layout that layers are built for.
struct ExpertParallel {
  int rank = 0;
  int size = 1;
  int tensor_rank = 0;
  int tensor_size = 1;

  // Whether tokens leave their rank.
  bool is_parallel() const { return size * tensor_size > 1; }
  // Of `experts` of a layer: how many this rank has, and the first of them.
  std::int64_t local_experts(std::int64_t experts) const { return experts / size; }
  std::int64_t first_expert(std::int64_t experts) const { return rank * local_experts(experts); }
};

class ExpertRegion {
 public:
  // All experts are whole on this rank: no messages.
  ExpertRegion() = default;
  // `experts`: the ranks along the expert axis. `tensor`: those along the expert-tensor axis.
  // `all`: both, rank tensor_rank + tensor_size * rank. Null where the group would have one rank.
  ExpertRegion(const ExpertParallel& layout, Communicator* experts, Communicator* tensor,
               Communicator* all)
      : layout_(layout), experts_(experts), tensor_(tensor), all_(all) {}

  const ExpertParallel& layout() const { return layout_; }
  bool is_parallel() const { return layout_.is_parallel(); }
  // Null where the axis has one rank.
  Communicator* experts() const { return experts_; }
  Communicator* tensor() const { return tensor_; }
  // There must be several ranks.
  Communicator& all() const {
    PHALANX_CHECK(all_ != nullptr, "the only rank with experts has no group");
    return *all_;
  }

 private:
  ExpertParallel layout_;
  Communicator* experts_ = nullptr;
  Communicator* tensor_ = nullptr;
  Communicator* all_ = nullptr;
};

}  // namespace phalanx
