#pragma once
// The merge step of byte-pair encoding (Sennrich et al., 2016): in a list of ids, the adjacent pair
// of lowest rank becomes one id, the leftmost first, until no pair has a rank.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/tokenizer/pair_map.h"

namespace phalanx {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

class BpeMerges {
 public:
  // When the pairs that a merge makes join the others. It matters where a list ranks a merge before
  // one that makes its parts.
  enum class Order {
    kRankByRank,  // when all pairs of the rank are merged: GPT-2's own code
    kAtOnce,      // before the next pair is looked for: Hugging Face's tokenizers, tiktoken
  };

  // Buffers, reused from call to call; one per thread.
  class Workspace {
   private:
    friend class BpeMerges;
    // An id at the place of its first part, in a doubly linked list.
    struct Node {
      std::int32_t id;
      std::uint32_t rank;  // of the pair that begins here
      std::uint32_t previous;
      std::uint32_t next;
    };
    std::vector<Node> nodes_;
    std::vector<std::uint64_t> candidates_;  // a heap of (rank << 32 | place of the left part)
    std::vector<std::uint32_t> changed_;
  };

  explicit BpeMerges(Order order) : order_(order) {}
  // The rank of a merge is its place in the list.
  BpeMerges(std::span<const BpeMerge> merges, Order order);

  // A pair that comes again keeps its first rank. Ids are not negative; ranks are below 2^31, and
  // memory grows with the largest. Pairs that share a rank must make the same id, and the order
  // must be kAtOnce.
  void add(const BpeMerge& merge, std::uint32_t rank);

  // Merges in place; returns how many ids are left, at the front of `ids`. O(n log n). DataError
  // for 2^32 - 1 ids or more.
  std::size_t apply(std::span<std::int32_t> ids, Workspace& workspace) const;

 private:
  class LongList;

  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const {
    return ranks_.find(PairMap::key(left, right));
  }
  std::size_t apply_to_few(std::span<std::int32_t> ids) const;

  Order order_;
  PairMap ranks_;
  std::vector<std::int32_t> results_;  // by rank
};

}  // namespace phalanx
