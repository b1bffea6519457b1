#include "phalanx/comm/ucx/sum_steps.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "phalanx/comm/ucx/sums.h"

namespace phalanx::ucx {
namespace {

SumSteps steps_of(int members, int block) {
  return {SumTree(members, block), std::vector<int>(static_cast<std::size_t>(members), 0)};
}

TEST(SumStepsTest, EveryBlockTakesFromEveryOtherOnce) {
  for (const int block : {2, 3, 8}) {
    for (const int members : {2, 8, 9, 17, 33, 64, 65, 100}) {
      const SumSteps steps = steps_of(members, block);
      for (int taker = 0; taker < steps.blocks(); ++taker) {
        std::set<int> taken;
        for (int step = 0; step < steps.steps(); ++step) {
          const int other = steps.taken_by(taker, step);
          if (other < 0) continue;
          EXPECT_TRUE(taken.insert(other).second);
          EXPECT_EQ(steps.taker_of(other, step), taker);
        }
        EXPECT_EQ(std::ssize(taken), steps.blocks());
        EXPECT_EQ(steps.taken_by(taker, 0), taker);
      }
    }
  }
}

// So only the sums of one node's terms wait at a time, at every level.
TEST(SumStepsTest, TheTermsOfANodeComeOneAfterTheOther) {
  const SumSteps steps = steps_of(100, 3);
  for (int taker = 0; taker < steps.blocks(); ++taker) {
    for (int below = 3; below < steps.blocks(); below *= 3) {
      std::set<int> done;
      int last = -1;
      for (int step = 0; step < steps.steps(); ++step) {
        const int block = steps.taken_by(taker, step);
        if (block < 0 || block / below == last) continue;
        last = block / below;
        EXPECT_TRUE(done.insert(last).second) << "node " << last;
      }
    }
  }
}

TEST(SumStepsTest, BlocksOfAHostAddForOtherHosts) {
  // Blocks of 4: on host 0; on hosts 0 and 1; on host 1; a single member.
  const SumSteps steps(SumTree(13, 4), {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(steps.has_adders());
  EXPECT_EQ(steps.adder(0, 3), -1);  // of the same host
  EXPECT_EQ(steps.adder(0, 5), -1);
  EXPECT_EQ(steps.adder(0, 6), 2);
  EXPECT_EQ(steps.adder(0, 9), 1);
  EXPECT_EQ(steps.adder(1, 0), -1);
  EXPECT_EQ(steps.adder(2, 3), 8 + 3);
  EXPECT_EQ(steps.adder(3, 0), -1);
  EXPECT_FALSE(steps_of(13, 4).has_adders());
  EXPECT_FALSE(SumSteps(SumTree(3, 4), {0, 1, 2}).has_adders());
}

TEST(SumMemoryTest, DoesNotGrowAsTheGroup) {
  constexpr std::int64_t kMiB = 1 << 20;
  EXPECT_EQ(bytes_of_sums(1, 8, false), 0);
  EXPECT_EQ(bytes_of_sums(2, 8, false), 2 * kMiB);
  for (const int members : {8, 16, 64, 512, 4096}) {
    EXPECT_LE(bytes_of_sums(members, 8, false), 2 * 6 * kMiB) << members;
    EXPECT_LE(bytes_of_sums(members, 8, true), 2 * 8 * kMiB) << members;
    EXPECT_GE(bytes_of_sums(members, 8, true), 2 * 3 * kMiB) << members;
  }
}

}  // namespace
}  // namespace phalanx::ucx
