#include "phalanx/settings/batch_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

using Piece = BatchSchedule::Piece;

// GPT-3's (Brown et al., 2020, as Megatron-LM's script has it): --rampup-batch-size 16 16 5859375
// --global-batch-size 1536. The numbers are Python's, of Megatron's formula.
TEST(BatchSchedule, Gpt3sRamp) {
  const BatchSchedule ramp({.start = 16, .increment = 16, .samples = 5859375}, 1536);
  for (const auto& [consumed, batch] : {std::pair<std::int64_t, std::int64_t>{0, 16},
                                        {1, 16},
                                        {61677, 16},
                                        {61678, 32},
                                        {123355, 32},
                                        {123356, 48},
                                        {1000000, 272},
                                        {1480263, 384},
                                        {2929687, 768},
                                        {2929688, 768},
                                        {5797697, 1504},
                                        {5797698, 1520},
                                        {5859374, 1520},
                                        {5859375, 1536},
                                        {5859376, 1536},
                                        {146484375, 1536}}) {
    EXPECT_EQ(ramp.at(consumed), batch) << consumed;
  }
  ASSERT_EQ(ramp.pieces().size(), 96U);
  std::int64_t sum = 0;
  for (const Piece& piece : ramp.pieces()) sum += piece.from;
  EXPECT_EQ(sum, 281250045);
  EXPECT_EQ(ramp.smallest(), 16);
  EXPECT_EQ(ramp.largest(), 1536);
  EXPECT_EQ(ramp.last(), 1536);
  EXPECT_EQ(ramp.next_change(0), 61678);
  EXPECT_EQ(ramp.next_change(61677), 61678);
  EXPECT_EQ(ramp.next_change(61678), 123356);
  EXPECT_EQ(ramp.next_change(5859375), std::nullopt);
}

// The table is the formula, also where samples per step are no whole number.
TEST(BatchSchedule, IsTheFormulaAtEverySample) {
  struct Case {
    BatchSchedule::Rampup rampup;
    std::int64_t batch;
  };
  for (const Case& c :
       {Case{{4, 4, 60}, 12}, Case{{1, 1, 10}, 4}, Case{{3, 5, 7}, 18}, Case{{2, 3, 1000}, 302},
        Case{{1, 1, 3}, 30}, Case{{8, 8, 49}, 400}, Case{{5, 1, 20}, 5}}) {
    const BatchSchedule ramp(c.rampup, c.batch);
    const auto& [start, increment, samples] = c.rampup;
    const std::int64_t steps = (c.batch - start) / increment;
    for (std::int64_t consumed = 0; consumed < samples + 3; ++consumed) {
      std::int64_t expected = c.batch;
      if (consumed <= samples && steps > 0) {
        const double per_step = static_cast<double>(samples) / static_cast<double>(steps);
        const auto made = static_cast<std::int64_t>(static_cast<double>(consumed) / per_step);
        expected = std::min(start + made * increment, c.batch);
      }
      ASSERT_EQ(ramp.at(consumed), expected) << start << " " << increment << " " << samples;
    }
  }
}

TEST(BatchSchedule, NeighboursWithOneBatchAreOnePiece) {
  const BatchSchedule steps({{0, 8}, {100, 10}, {200, 12}, {300, 4}});
  EXPECT_EQ(steps.at(299), 12);
  EXPECT_EQ(steps.at(300), 4);
  EXPECT_EQ(steps.last(), 4);
  EXPECT_EQ(steps.largest(), 12);
  EXPECT_EQ(steps.rounded_down(4).pieces(), (std::vector<Piece>{{0, 8}, {200, 12}, {300, 4}}));
  EXPECT_EQ(BatchSchedule(6).pieces(), (std::vector<Piece>{{0, 6}}));
  EXPECT_EQ(BatchSchedule(6).next_change(0), std::nullopt);
}

// 4, 4, 4, 8, 8, 12, 12, ...
TEST(BatchSchedule, IterationsAreCountedByTheirBatches) {
  const BatchSchedule ramp({.start = 4, .increment = 4, .samples = 24}, 12);
  const std::vector<std::int64_t> sums = {0, 4, 8, 12, 20, 28, 40, 52};
  for (std::int64_t i = 0; i < std::ssize(sums); ++i) {
    EXPECT_EQ(ramp.samples_of(i), sums[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(ramp.iterations_for(sums[static_cast<std::size_t>(i)]), i);
    EXPECT_EQ(ramp.iterations_for(sums[static_cast<std::size_t>(i)] + 1), i + 1);
  }
  EXPECT_EQ(ramp.samples_of(1'000'000), 28 + 999'995 * 12);
  EXPECT_EQ(ramp.iterations_for(28 + 999'995 * 12), 1'000'000);
  // From the middle on, also where a batch has gone beyond its piece.
  EXPECT_EQ(ramp.samples_of(3, 20), 8 + 12 + 12);
  EXPECT_EQ(ramp.samples_of(2, 11), 4 + 8);
  EXPECT_EQ(ramp.iterations_alike(0), 3);
  EXPECT_EQ(ramp.iterations_alike(15), 2);
  EXPECT_EQ(ramp.iterations_alike(28), std::nullopt);
  EXPECT_EQ(BatchSchedule(6).samples_of(7, 100), 42);
  EXPECT_EQ(BatchSchedule(6).iterations_for(43), 8);
}

}  // namespace
}  // namespace phalanx
