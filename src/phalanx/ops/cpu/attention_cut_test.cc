// Each piece of attention's work is done once, and many threads get about equal work.

#include "phalanx/ops/cpu/attention_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "phalanx/ops/cpu/attention_blocks.h"

namespace phalanx::cpu {
namespace {

struct Sizes {
  std::int64_t batch, heads, length, width;

  std::int64_t all_heads() const { return batch * heads; }
  std::int64_t strips() const { return ceil_div(length, kStripRows); }
  std::int64_t strip_bytes() const { return kStripRows * round_up(width, 16) * 4; }
};

std::ostream& operator<<(std::ostream& out, const Sizes& shape) {
  return out << shape.batch << " x " << shape.length << ", " << shape.heads << " heads";
}

// Counts pairs of query and key under a causal mask.
std::int64_t causal_pairs(const Sizes& shape, std::int64_t strip, std::int64_t block,
                          std::int64_t block_keys) {
  std::int64_t pairs = 0;
  const std::int64_t last = std::min(shape.length, (strip + 1) * kStripRows);
  for (std::int64_t query = strip * kStripRows; query < last; ++query) {
    pairs += std::clamp<std::int64_t>(query + 1 - block * block_keys, 0, block_keys);
  }
  return pairs;
}

// Calls body(head, strip, block) for the work of a task.
template <typename Body>
void for_each_meeting(const Sizes& shape, const AttentionPass& pass, std::int64_t index,
                      const Body& body) {
  const AttentionTask task = pass.task(index);
  task.blocks.for_each(
      ceil_div(shape.length, pass.block_keys), [&](std::int64_t block, std::int64_t) {
        task.strips.for_each(shape.strips(), [&](std::int64_t strip, std::int64_t) {
          body(task.head, strip, block);
        });
      });
}

// The work of each thread at the end of a pass. A free thread takes the next task.
std::vector<std::int64_t> loads(const Sizes& shape, const AttentionPass& pass, int threads) {
  std::vector<std::int64_t> work(static_cast<std::size_t>(threads), 0);
  for (std::int64_t task = 0; task < pass.tasks(); ++task) {
    std::int64_t& free = *std::min_element(work.begin(), work.end());
    for_each_meeting(shape, pass, task, [&](auto /*head*/, auto strip, auto block) {
      free += causal_pairs(shape, strip, block, pass.block_keys);
    });
  }
  return work;
}

// The fraction of the threads' time that is spent working.
double busy(const std::vector<std::int64_t>& work) {
  const auto most = static_cast<double>(*std::max_element(work.begin(), work.end()));
  return std::accumulate(work.begin(), work.end(), 0.0) / (most * static_cast<double>(work.size()));
}

void expect_each_meeting_once(const Sizes& shape, const AttentionPass& pass) {
  const std::int64_t blocks = ceil_div(shape.length, pass.block_keys);
  std::vector<int> visits(static_cast<std::size_t>(shape.all_heads() * shape.strips() * blocks));
  for (std::int64_t task = 0; task < pass.tasks(); ++task) {
    for_each_meeting(shape, pass, task, [&](auto head, auto strip, auto block) {
      const std::int64_t at = (head * shape.strips() + strip) * blocks + block;
      ++visits[static_cast<std::size_t>(at)];
    });
  }
  EXPECT_EQ(std::count(visits.begin(), visits.end(), 1), std::ssize(visits));
}

std::int64_t largest_share(std::int64_t n, std::int64_t shares) {
  std::int64_t largest = 0;
  for (std::int64_t index = 0; index < shares; ++index) {
    std::int64_t count = 0;
    Share{index, shares}.for_each(n, [&](std::int64_t, std::int64_t) { ++count; });
    EXPECT_GT(count, 0) << index << " of " << shares << " shares of " << n;
    largest = std::max(largest, count);
  }
  return largest;
}

TEST(AttentionCut, SharesAreNotEmptyAndNotLarge) {
  for (std::int64_t n = 1; n < 70; ++n) {
    for (const std::int64_t most : {1, 5, 12}) {
      for (const int threads : {1, 3, 64}) {
        EXPECT_LE(largest_share(n, shares_of(2, n, most, threads)), most) << n;
      }
    }
  }
  EXPECT_EQ(shares_of(2, 0, 12, 64), 1);
}

class AttentionCutOf : public testing::TestWithParam<Sizes> {
 protected:
  BackwardCut backward(int threads) const {
    const Sizes& shape = GetParam();
    return {shape.all_heads(), shape.strips(), shape.length, shape.strip_bytes(), threads};
  }
  AttentionPass forward(int threads) const {
    return strip_pass(GetParam().all_heads(), GetParam().strips(), threads);
  }
};

TEST_P(AttentionCutOf, DoesEverythingOnce) {
  for (const int threads : {1, 2, 5, 64}) {
    expect_each_meeting_once(GetParam(), forward(threads));
    const BackwardCut cut = backward(threads);
    expect_each_meeting_once(GetParam(), cut.keys);
    if (!cut.whole_heads) expect_each_meeting_once(GetParam(), cut.queries);
  }
}

TEST_P(AttentionCutOf, FitsItsScratch) {
  for (const int threads : {1, 2, 5, 64}) {
    const std::int64_t strips = GetParam().strips();
    EXPECT_LE(largest_share(strips, forward(threads).strip_shares), kMostStrips);
    const BackwardCut cut = backward(threads);
    if (cut.whole_heads) {
      EXPECT_LE(strips * GetParam().strip_bytes(), kMostQueryBytes);
    } else {
      EXPECT_LE(largest_share(strips, cut.queries.strip_shares), kMostStrips);
    }
  }
}

TEST_P(AttentionCutOf, KeepsManyThreadsBusy) {
  const auto expect_busy = [&](const AttentionPass& pass, int threads, const std::string& name) {
    const auto work = loads(GetParam(), pass, threads);
    EXPECT_GT(busy(work), 0.72) << name << ", " << threads << " threads";
    return *std::min_element(work.begin(), work.end());
  };
  for (const int threads : {2, 8, 64}) {
    EXPECT_GT(expect_busy(forward(threads), threads, "forward"), 0) << threads << " threads";
    const BackwardCut cut = backward(threads);
    // Idle threads are acceptable where the others save 2 of 7 products.
    const std::int64_t least = expect_busy(cut.keys, threads, "keys");
    if (cut.whole_heads) continue;
    EXPECT_GT(least, 0) << threads << " threads";
    EXPECT_GT(expect_busy(cut.queries, threads, "queries"), 0) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, AttentionCutOf,
                         testing::Values(Sizes{4, 12, 256, 64}, Sizes{1, 12, 1024, 64},
                                         Sizes{1, 16, 1024, 64}, Sizes{4, 12, 1024, 64},
                                         Sizes{1, 25, 1024, 64}, Sizes{2, 16, 2048, 128}));

// Whole heads would need scratch that grows with the length of the sequence.
TEST(AttentionCut, BoundsTheScratchOfLongSequences) {
  const BackwardCut cut(96, 1 << 20, 1 << 18, kStripRows * 64 * 4, 1);
  EXPECT_FALSE(cut.whole_heads);
}

}  // namespace
}  // namespace phalanx::cpu
