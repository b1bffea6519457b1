// Which rows travel between ranks in which round.

#include "phalanx/nn/row_plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <tuple>

#include "phalanx/base/error.h"

namespace phalanx::nn {
namespace {

constexpr std::int64_t kExperts = 4;

ExpertParallel layout_of(int rank, int size, int tensor_rank = 0, int tensor_size = 1) {
  return {.rank = rank, .size = size, .tensor_rank = tensor_rank, .tensor_size = tensor_size};
}

using RunNumbers = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
std::vector<RunNumbers> runs_of(const std::vector<TravelRun>& runs) {
  std::vector<RunNumbers> all;
  for (const TravelRun& run : runs) {
    all.emplace_back(run.peer, run.expert, run.at_home, run.at_expert, run.count);
  }
  return all;
}

// Two ranks with two experts each. Rank 0 has 3 1 0 2 rows, rank 1 has 1 2 4 0.
RowPlan plan_of(int rank, std::int64_t rows_of_round) {
  return {layout_of(rank, 2), kExperts, {3, 1, 0, 2, 1, 2, 4, 0}, rows_of_round};
}

TEST(RowPlan, OrdersRowsByExpertThenHome) {
  const RowPlan plan = plan_of(0, 10);
  EXPECT_EQ(plan.rounds(), 1);
  EXPECT_EQ(plan.rows(0), 7);
  EXPECT_EQ(plan.offsets(0), (std::vector<std::int32_t>{0, 4, 7}));
  EXPECT_EQ(runs_of(plan.arriving(0)),
            (std::vector<RunNumbers>{
                {0, 0, 0, 0, 3}, {1, 0, 0, 3, 1}, {0, 1, 0, 4, 1}, {1, 1, 0, 5, 2}}));
  EXPECT_EQ(runs_of(plan.leaving(0)),
            (std::vector<RunNumbers>{{0, 0, 0, 0, 3}, {0, 1, 3, 4, 1}, {1, 3, 4, 4, 2}}));
  EXPECT_EQ(runs_of(plan_of(1, 10).leaving(0)),
            (std::vector<RunNumbers>{{0, 0, 0, 3, 1}, {0, 1, 1, 5, 2}, {1, 2, 3, 0, 4}}));
}

TEST(RowPlan, CutsRowsIntoRounds) {
  const RowPlan plan = plan_of(0, 3);
  EXPECT_EQ(plan.rounds(), 3) << "rank 0 has 7 rows";
  EXPECT_EQ(plan_of(1, 3).rounds(), 3) << "ranks agree, though rank 1 has 6 rows";
  EXPECT_EQ(plan.offsets(1), (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(plan.offsets(2), (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(plan_of(1, 3).rows(2), 0);
  EXPECT_EQ(runs_of(plan.arriving(1)),
            (std::vector<RunNumbers>{{1, 0, 0, 0, 1}, {0, 1, 0, 1, 1}, {1, 1, 0, 2, 1}}));
  EXPECT_EQ(runs_of(plan_of(1, 3).leaving(2)), (std::vector<RunNumbers>{{0, 1, 2, 0, 1}}));
}

// What leaves one rank for another is what arrives there, run by run: else messages would not meet.
TEST(RowPlan, RanksAgreeOnMessages) {
  constexpr int kSize = 2, kTensor = 2, kRanks = kSize * kTensor;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < kRanks * kExperts; ++i) counts.push_back(i * 7 % 5);
  std::vector<RowPlan> plans;
  for (int rank = 0; rank < kRanks; ++rank) {
    plans.emplace_back(layout_of(rank / kTensor, kSize, rank % kTensor, kTensor), kExperts, counts,
                       9);
  }
  std::int64_t rows = 0;
  ASSERT_GT(plans[0].rounds(), 1);
  for (int round = 0; round < plans[0].rounds(); ++round) {
    for (int home = 0; home < kRanks; ++home) {
      for (int there = 0; there < kRanks; ++there) {
        std::vector<RunNumbers> leaving, arriving;
        for (TravelRun run : plans[static_cast<std::size_t>(home)].leaving(round)) {
          if (run.peer != there) continue;
          rows += run.count;
          run.at_home = 0;
          run.peer = home;
          leaving.push_back(runs_of({run}).front());
        }
        for (const TravelRun& run : plans[static_cast<std::size_t>(there)].arriving(round)) {
          if (run.peer == home) arriving.push_back(runs_of({run}).front());
        }
        EXPECT_EQ(leaving, arriving) << home << " to " << there << " in round " << round;
      }
    }
  }
  EXPECT_EQ(rows, kTensor * std::reduce(counts.begin(), counts.end()))
      << "every row travels once to every rank of its expert";
}

TEST(RowPlan, PlansSizes) {
  const ExpertSettings settings{.experts = 8, .chosen = 2};
  const RowSizes whole = row_sizes(settings, {}, 100);
  EXPECT_EQ(whole.home, 200);
  EXPECT_EQ(whole.round, 200);
  const RowSizes four = row_sizes(settings, layout_of(0, 4), 100);
  EXPECT_EQ(four.balanced, 200);
  EXPECT_EQ(four.round, 400) << "twice as many as with balance";
  EXPECT_EQ(four.most, 800) << "all tokens of four ranks choose both experts";
  EXPECT_EQ(four.most_rounds(), 2);
  const RowSizes cut = row_sizes(settings, layout_of(0, 2, 0, 2), 100);
  EXPECT_EQ(cut.balanced, 400);
  EXPECT_EQ(cut.round, 800);
  EXPECT_EQ(cut.most, 800);
  EXPECT_EQ(cut.most_rounds(), 1);
  ExpertSettings gathers = settings;
  gathers.dispatch = TokenDispatch::kAllGather;
  EXPECT_EQ(row_sizes(gathers, layout_of(0, 4), 100).round, 800);
}

TEST(RowPlan, CapacityBoundsSizes) {
  ExpertSettings settings{.experts = 8, .chosen = 2, .capacity_factor = 1.2};
  EXPECT_EQ(row_sizes(settings, layout_of(0, 8), 100).most, 8 * 30);
  EXPECT_EQ(row_sizes(settings, {}, 100).round, 200);
  settings.pad_to_capacity = true;
  const RowSizes padded = row_sizes(settings, layout_of(0, 4), 100);
  EXPECT_EQ(padded.home, 8 * 30);
  EXPECT_EQ(padded.round, 4 * 2 * 30);
  EXPECT_EQ(padded.most_rounds(), 1);
  EXPECT_EQ(row_sizes(settings, {}, 100).round, 8 * 30);
}

TEST(RowPlan, BalancedCountsAddUpToAllPairs) {
  const ExpertSettings settings{.experts = 8, .chosen = 3};
  const std::vector<std::int64_t> counts = balanced_counts(settings, layout_of(0, 4), 7);
  ASSERT_EQ(counts.size(), 32U);
  for (std::size_t home = 0; home < 4; ++home) {
    std::int64_t sum = 0;
    for (std::size_t e = 0; e < 8; ++e) sum += counts[8 * home + e];
    EXPECT_EQ(sum, 21);
  }
  const RowPlan plan(layout_of(0, 4), 8, counts, 26);
  EXPECT_EQ(plan.rounds(), 1);
}

}  // namespace
}  // namespace phalanx::nn
