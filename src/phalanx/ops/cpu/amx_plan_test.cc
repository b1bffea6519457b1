#include "phalanx/ops/cpu/amx_plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

// x W^T, dy W and dy^T x with dense operands.
enum class Pass { kForward, kInputGradient, kWeightGradient };
constexpr Pass kPasses[] = {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient};

ProductShape shape_of(Pass pass, std::int64_t rows, std::int64_t n, std::int64_t k) {
  constexpr DType kType = DType::kBF16;
  switch (pass) {
    case Pass::kForward:
      return {rows, n, k, {kType, k, true}, {kType, k, true}, false};
    case Pass::kInputGradient:
      return {rows, k, n, {kType, n, true}, {kType, k, false}, false};
    case Pass::kWeightGradient:
      break;
  }
  return {n, k, rows, {kType, n, false}, {kType, k, false}, true};
}

template <typename Visit>
void for_all_plans(int threads, const Visit& visit) {
  for (const std::int64_t rows : {1, 33, 1000, 1024, 50304}) {
    for (const std::int64_t n : {1, 100, 768, 50304}) {
      for (const std::int64_t k : {1, 385, 3072, 4097}) {
        for (const Pass pass : kPasses) {
          const ProductShape shape = shape_of(pass, rows, n, k);
          SCOPED_TRACE(fmt::format("pass {}, {} x {} x {}, {} threads", static_cast<int>(pass),
                                   rows, n, k, threads));
          visit(shape, AmxPlan(shape, threads));
        }
      }
    }
  }
}

TEST(AmxPlan, BitsDoNotDependOnThreads) {
  const auto choices = [](int threads) {
    std::vector<std::int64_t> all;
    for_all_plans(threads, [&](const ProductShape&, const AmxPlan& plan) {
      all.insert(all.end(), {plan.depth_block, plan.swapped, plan.packs_left, plan.in_c});
    });
    return all;
  };
  const auto of_one = choices(1);
  for (const int threads : {2, 3, 64}) EXPECT_EQ(choices(threads), of_one);
}

// Up to 1,024 of depth there are no partial sums; weight gradients are cut at 512.
TEST(AmxPlan, BlocksOfDepth) {
  const auto block = [](Pass pass, std::int64_t rows, std::int64_t n, std::int64_t k) {
    return AmxPlan(shape_of(pass, rows, n, k), 1).depth_block;
  };
  EXPECT_EQ(block(Pass::kForward, 64, 64, 1), 32);
  EXPECT_EQ(block(Pass::kForward, 64, 64, 768), 768);
  EXPECT_EQ(block(Pass::kForward, 64, 64, 1024), 1024);
  EXPECT_EQ(block(Pass::kForward, 64, 64, 1025), 512);
  EXPECT_EQ(block(Pass::kForward, 64, 64, 3072), 1024);
  EXPECT_EQ(block(Pass::kInputGradient, 64, 50304, 768), 1024);
  EXPECT_EQ(block(Pass::kWeightGradient, 1024, 768, 768), 512);
  EXPECT_EQ(block(Pass::kWeightGradient, 1024, 50304, 768), 1024);
}

TEST(AmxPlan, BlocksAreWholeAndCoverTheProduct) {
  for (const int threads : {1, 3, 64}) {
    for_all_plans(threads, [](const ProductShape&, const AmxPlan& plan) {
      EXPECT_EQ(plan.depth_block % kStepDepth, 0);
      EXPECT_EQ(plan.row_block % kTileSide, 0);
      EXPECT_TRUE(plan.row_span == plan.rows || plan.row_span % plan.row_block == 0);
      EXPECT_TRUE(plan.panel_span == plan.panels() || plan.panel_span % plan.panel_block == 0);
      EXPECT_GT(plan.panel_set, 0);
      // A block of depth of line sums is within one of the product.
      EXPECT_TRUE(plan.depth_blocks() == 1 || plan.depth_block % 512 == 0);
    });
  }
}

TEST(AmxPlan, KeepsWithinItsMemory) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  for (const int threads : {1, 2, 64}) {
    for_all_plans(threads, [threads](const ProductShape&, const AmxPlan& plan) {
      EXPECT_LE(plan.right_bytes, std::max(17 * kMiB, threads * kMiB));
      EXPECT_LE(plan.sums_bytes, 65 * kMiB);
      EXPECT_LE(plan.thread_bytes, 3 * kMiB);
    });
  }
}

// Every thread has work, and the busiest thread not much more than its share.
TEST(AmxPlan, GivesWorkToManyThreads) {
  constexpr std::int64_t kGpt2[][3] = {{1024, 2304, 768},
                                       {1024, 768, 768},
                                       {1024, 3072, 768},
                                       {1024, 768, 3072},
                                       {1024, 50304, 768}};
  for (const int threads : {2, 7, 64}) {
    for (const auto& [rows, n, k] : kGpt2) {
      for (const Pass pass : kPasses) {
        const AmxPlan plan(shape_of(pass, rows, n, k), threads);
        const double tasks = static_cast<double>(ceil_div(plan.rows, plan.row_block) *
                                                 ceil_div(plan.panels(), plan.panel_block));
        const double work = static_cast<double>(plan.strips() * plan.panels()) / threads;
        const double largest = static_cast<double>(plan.row_block / kTileSide * plan.panel_block);
        EXPECT_LE(std::ceil(tasks / threads) * largest / work, 1.5)
            << threads << " threads, " << n << " x " << k << ", pass " << static_cast<int>(pass);
      }
    }
  }
}

// Generation of one position reads the weights in place.
TEST(AmxPlan, DoesNotPackWeightsForAFewRows) {
  const AmxPlan plan(shape_of(Pass::kForward, 1, 50304, 768), 2);
  EXPECT_TRUE(plan.swapped);
  EXPECT_LE(plan.workspace_bytes(2), std::int64_t{1} << 20);
}

TEST(AmxPlan, NeedsNoMoreThanTheMostThatIsPlanned) {
  struct Size {
    std::int64_t n, k;
  };
  for (const int threads : {1, 2, 64}) {
    for (const Pass pass : kPasses) {
      for (const Size& size :
           {Size{17, 100}, Size{3072, 768}, Size{352, 5000}, Size{5000, 40}, Size{4100, 4100}}) {
        for (const std::int64_t most : {1, 20, 300, 2100, 20000}) {
          const std::int64_t bound =
              AmxPlan::most_workspace_bytes(shape_of(pass, most, size.n, size.k), threads);
          for (std::int64_t rows = 1; rows <= most; rows += 1 + rows / 5) {
            const AmxPlan plan(shape_of(pass, rows, size.n, size.k), threads);
            ASSERT_LE(plan.workspace_bytes(threads), bound)
                << threads << " threads, pass " << static_cast<int>(pass) << ", " << rows << " of "
                << most << " rows, " << size.n << " x " << size.k;
          }
        }
      }
    }
  }
}

// As of the whole, whose length of blocks depends on its size.
TEST(AmxPlan, PartsAreSummedAsTheWhole) {
  ProductShape part = shape_of(Pass::kWeightGradient, 4000, 4096, 4096);
  const std::int64_t block = AmxPlan(part, 1).depth_block;
  part.rows = 64;
  EXPECT_NE(AmxPlan(part, 1).depth_block, block);
  part.whole_elements = 4096 * 4096;
  EXPECT_EQ(AmxPlan(part, 1).depth_block, block);
}

}  // namespace
}  // namespace phalanx::cpu
