#pragma once
// Which strips of queries and blocks of keys a task of attention does. The cut may depend on the
// number of threads because results do not depend on the cut: sums over keys go block by block and
// sums over queries strip by strip, always in order.

#include <algorithm>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/attention_blocks.h"

namespace phalanx::cpu {

// A share of n items whose cost grows or falls, such as the strips under a causal mask. Items are
// dealt from both ends, 0, n-1, 1, n-2, ..., so that all shares cost about the same.
struct Share {
  std::int64_t index = 0;
  std::int64_t of = 1;  // number of shares, at most n

  bool has(std::int64_t i, std::int64_t n) const {
    const std::int64_t place = std::min(2 * i, 2 * (n - 1 - i) + 1);
    return place * of / n == index;
  }
  // The first item of the share at or after i, or n.
  std::int64_t next(std::int64_t i, std::int64_t n) const {
    while (i < n && !has(i, n)) ++i;
    return i;
  }
  // Calls body(i, next i or n) in order.
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

// Tasks per thread: enough that one more or less matters little.
inline constexpr std::int64_t kTasksPerThread = 3;
constexpr std::int64_t enough_tasks(int threads) {
  return threads == 1 ? 1 : threads * kTasksPerThread;
}

// The number of shares of each head's n items: enough of them, and at most `most` items in each.
constexpr std::int64_t shares_of(std::int64_t heads, std::int64_t n, std::int64_t most,
                                 int threads) {
  const std::int64_t enough = ceil_div(enough_tasks(threads), std::max<std::int64_t>(1, heads));
  const std::int64_t shares = std::max(ceil_div(n, most), enough);
  return std::max<std::int64_t>(1, 2 * shares > n ? n : shares);
}

// One task: a share of the strips of one head against a share of its blocks of keys.
struct AttentionTask {
  std::int64_t head = 0;
  Share strips;
  Share blocks;
};

// The tasks of one walk over all heads.
struct AttentionPass {
  std::int64_t heads = 1;
  std::int64_t strip_shares = 1;
  std::int64_t block_shares = 1;
  std::int64_t block_keys = kBlockKeys;

  std::int64_t tasks() const { return heads * strip_shares * block_shares; }
  AttentionTask task(std::int64_t index) const {
    return {.head = index / (strip_shares * block_shares),
            .strips = {index / block_shares % strip_shares, strip_shares},
            .blocks = {index % block_shares, block_shares}};
  }
};

// Strips of a task that sums over strips. They share copied keys and values, and their queries and
// sums should stay in the second-level cache beside them.
inline constexpr std::int64_t kMostStrips = 12;

constexpr AttentionPass strip_pass(std::int64_t heads, std::int64_t strips, int threads,
                                   std::int64_t most = kMostStrips) {
  return {.heads = heads, .strip_shares = shares_of(heads, strips, most, threads)};
}

// The backward needs sums over strips (dkey, dvalue) and sums over keys (dquery). With many heads,
// a task is a whole head and keeps dquery of all its strips in scratch. With few heads, or if that
// scratch is too large, one pass computes dkey and dvalue by blocks, and a second pass computes
// dquery by strips: 7 products instead of 5, but bounded scratch and work for many threads.
struct BackwardCut {
  BackwardCut(std::int64_t heads, std::int64_t strips, std::int64_t keys_of_head,
              std::int64_t strip_bytes, int threads, std::int64_t block_keys = kBlockKeys);

  bool whole_heads;
  AttentionPass keys;     // computes dkey and dvalue, and dquery too if whole_heads
  AttentionPass queries;  // computes dquery, unless whole_heads
};

inline constexpr std::int64_t kMostQueryBytes = std::int64_t{8} << 20;
// dkey and dvalue do not depend on the blocks, so a pass of only these may use small blocks.
inline constexpr std::int64_t kFewestBlockKeys = 64;

inline BackwardCut::BackwardCut(std::int64_t heads, std::int64_t strips, std::int64_t keys_of_head,
                                std::int64_t strip_bytes, int threads, std::int64_t block_keys)
    : whole_heads(strips * strip_bytes <= kMostQueryBytes &&
                  7 * heads >= 5 * round_up(heads, threads)),
      keys{.heads = heads, .block_keys = block_keys} {
  if (whole_heads) return;
  queries = strip_pass(heads, strips, threads);
  queries.block_keys = block_keys;
  const auto blocks = [&] { return ceil_div(keys_of_head, keys.block_keys); };
  while (keys.block_keys > kFewestBlockKeys && heads * blocks() < enough_tasks(threads)) {
    keys.block_keys /= 2;
  }
  keys.block_shares = shares_of(heads, blocks(), blocks(), threads);
}

}  // namespace phalanx::cpu
