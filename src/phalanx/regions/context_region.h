#pragma once
// Context parallelism as attention sees it: the ranks of a group have different rows of the same
// samples (mesh/context_cut.h). All layers but attention work on their own rows alone; queries
// must see the keys of other ranks, which are exchanged in one of four ways.

#include <cstdint>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/communicator.h"

namespace phalanx {

enum class ContextExchange : std::uint8_t {
  kRing,          // p2p: keys and values go round, their blocks' results are merged
  kGather,        // all_gather: every rank gathers all keys and values
  kHeads,         // a2a: ranks exchange rows for heads, each attends with its heads to all rows
  kHeadsAndRing,  // a2a+p2p: heads within neighbours, a ring over them
};

// The layout that layers are built for.
struct ContextParallel {
  int size = 1;
  int inner = 1;  // of kHeadsAndRing: the neighbours that exchange heads
  std::vector<ContextExchange> exchanges = {};  // by layer of the model, or one for all
  // Whether each rank's rows are two chunks of the sample, rank r's the chunks r and 2 size - 1 -
  // r; else they are anywhere.
  bool in_chunks = true;

  bool is_parallel() const { return size > 1; }
  ContextExchange exchange_of(std::int64_t layer) const {
    return exchanges[exchanges.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
  }
  // How many neighbours share the heads of the layer, each with all rows of them all.
  int ranks_of_heads(std::int64_t layer) const {
    if (!is_parallel()) return 1;
    const ContextExchange exchange = exchange_of(layer);
    if (exchange == ContextExchange::kHeadsAndRing) return inner;
    return exchange == ContextExchange::kHeads ? size : 1;
  }
};

class ContextRegion {
 public:
  // One rank: no messages.
  ContextRegion() = default;
  // `heads` and `ring` are the two levels of kHeadsAndRing, where a layer has it, else null; so is
  // one that would have one rank. Rank a + inner * g of the group is rank a of its `heads` and rank
  // g of its `ring`.
  explicit ContextRegion(Communicator* group, Communicator* heads = nullptr,
                         Communicator* ring = nullptr)
      : group_(group), heads_(heads), ring_(ring) {}

  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  // All ranks of the sample; there must be several.
  Communicator& group() const {
    PHALANX_CHECK(group_ != nullptr, "the only rank of its samples has no group");
    return *group_;
  }
  // Null where the level has one rank.
  Communicator* heads() const { return heads_; }
  Communicator* ring() const { return ring_; }

 private:
  Communicator* group_ = nullptr;
  Communicator* heads_ = nullptr;
  Communicator* ring_ = nullptr;
};

}  // namespace phalanx
