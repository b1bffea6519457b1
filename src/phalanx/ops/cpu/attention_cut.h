#pragma once
// Which strips of queries and which blocks of keys a task of attention does. Results do not depend
// on it: a strip adds up its keys block by block, and a block its queries strip by strip, in the
// order of both, whoever does the rest. So the cut may follow the number of threads.

#include <algorithm>
#include <cstdint>

#include "phalanx/base/numeric.h"

namespace phalanx::cpu {

// A share of n things of growing or falling cost, such as the strips under a causal mask: the first
// and the last of them together, then the second and the last but one, dealt out in turn. All
// shares weigh about the same.
struct Share {
  std::int64_t index = 0;
  std::int64_t of = 1;

  bool has(std::int64_t i, std::int64_t n) const { return std::min(i, n - 1 - i) % of == index; }
  // The first of the share from i on, or n.
  std::int64_t next(std::int64_t i, std::int64_t n) const {
    while (i < n && !has(i, n)) ++i;
    return i;
  }
  // Calls body(i, the next i or n) in order.
  template <typename Body>
  void for_each(std::int64_t n, const Body& body) const {
    std::int64_t following = next(0, n);
    while (following < n) {
      const std::int64_t i = following;
      following = next(i + 1, n);
      body(i, following);
    }
  }
};

// Shares of n things, of which the largest has about `most`, and none is empty.
constexpr std::int64_t shares_of(std::int64_t n, std::int64_t most) {
  const std::int64_t pairs = ceil_div(n, 2);
  return std::clamp<std::int64_t>(ceil_div(pairs, std::max<std::int64_t>(1, most / 2)), 1,
                                  std::max<std::int64_t>(1, pairs));
}

// Tasks for each thread where the work allows it: one that is done early takes little more time
// than one that is done late.
inline constexpr std::int64_t kTasksPerThread = 3;

// Things of a head that are a task, where `heads` of them are done at once.
constexpr std::int64_t task_size(std::int64_t heads, std::int64_t n, int threads,
                                 std::int64_t most) {
  return std::clamp<std::int64_t>(heads * n / (threads * kTasksPerThread), 1, most);
}

// One task: a share of the strips of one head against a share of its blocks of keys.
struct AttentionTask {
  std::int64_t head = 0;
  Share strips;
  Share blocks;
};

// The tasks of one pass: every head, cut into shares of its strips or of its blocks.
struct AttentionPass {
  std::int64_t heads = 1;
  std::int64_t strip_shares = 1;
  std::int64_t block_shares = 1;

  std::int64_t tasks() const { return heads * strip_shares * block_shares; }
  AttentionTask task(std::int64_t index) const {
    return {.head = index / (strip_shares * block_shares),
            .strips = {index / block_shares % strip_shares, strip_shares},
            .blocks = {index % block_shares, block_shares}};
  }
};

// The strips of a task: they share the keys and values that it copies, and their queries and
// outputs should stay in the second cache beside them.
inline constexpr std::int64_t kMostStrips = 12;

inline AttentionPass forward_pass(std::int64_t heads, std::int64_t strips, int threads) {
  const bool alone = threads == 1;
  const std::int64_t size = alone ? kMostStrips : task_size(heads, strips, threads, kMostStrips);
  return {.heads = heads, .strip_shares = shares_of(strips, size), .block_shares = 1};
}

// The backward needs sums over strips (dkey, dvalue) and over blocks (dquery). Where heads are
// many, a task is a whole head, with dquery of all its strips in scratch. Where they are few, or
// that scratch would be large, a first pass makes dkey and dvalue, each task of some blocks, and a
// second one dquery, each task of some strips: 7 products instead of 5, but scratch is bounded and
// work for many threads.
struct BackwardCut {
  BackwardCut(std::int64_t heads, std::int64_t strips, std::int64_t blocks,
              std::int64_t strip_bytes, int threads);

  bool whole_heads;
  AttentionPass keys;     // makes dkey and dvalue, and dquery too if whole_heads
  AttentionPass queries;  // makes dquery, unless whole_heads
};

inline constexpr std::int64_t kMostQueryBytes = std::int64_t{8} << 20;
inline constexpr std::int64_t kMostBlocks = 8;

inline BackwardCut::BackwardCut(std::int64_t heads, std::int64_t strips, std::int64_t blocks,
                                std::int64_t strip_bytes, int threads)
    : whole_heads(strips * strip_bytes <= kMostQueryBytes &&
                  7 * heads >= 5 * round_up(heads, threads)),
      keys{.heads = heads} {
  if (whole_heads) return;
  queries = forward_pass(heads, strips, threads);
  keys.block_shares = shares_of(blocks, task_size(heads, blocks, threads, kMostBlocks));
}

}  // namespace phalanx::cpu
