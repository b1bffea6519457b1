#include "phalanx/ops/cpu/product_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "phalanx/base/numeric.h"

namespace phalanx::cpu {
namespace {

// x W^T, dy W and dy^T x with dense operands.
enum class Pass { kForward, kInputGradient, kWeightGradient };
constexpr Pass kPasses[] = {Pass::kForward, Pass::kInputGradient, Pass::kWeightGradient};

ProductShape shape_of(Pass pass, std::int64_t rows, std::int64_t n, std::int64_t k,
                      DType dtype = DType::kF32) {
  const bool f32 = dtype == DType::kF32;
  switch (pass) {
    case Pass::kForward:
      return {rows, n, k, {dtype, k, true}, {dtype, k, true}, f32, f32};
    case Pass::kInputGradient:
      return {rows, k, n, {dtype, n, true}, {dtype, k, false}, f32, f32};
    case Pass::kWeightGradient:
      break;
  }
  return {n, k, rows, {dtype, n, false}, {dtype, k, false}, true, true};
}

// The kernels of every target of the build; their sizes can be read on any processor.
std::vector<const PanelKernel*> kernels() {
  std::vector<const PanelKernel*> found;
  const auto add = [&](const PanelKernel& kernel) {
    if (std::ranges::find(found, &kernel) == found.end()) found.push_back(&kernel);
  };
  for (const Target target : targets_of_build()) {
    add(panel_kernel(ProductPrecision::kFp32, target));
    if (target >= Target::kAvx512Bf16) add(panel_kernel(ProductPrecision::kBf16, target));
  }
  return found;
}

struct Size {
  std::int64_t rows, n, k;
};
// GPT-2 124M with 4 x 256 tokens.
constexpr Size kGpt2[] = {
    {1024, 2304, 768}, {1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072}, {1024, 50304, 768}};

template <typename Visit>
void for_all_plans(int threads, const Visit& visit) {
  for (const PanelKernel* kernel : kernels()) {
    for (const std::int64_t rows : {1, 7, 63, 1000, 1024, 50304}) {
      for (const std::int64_t n : {1, 17, 100, 352, 768, 50304}) {
        for (const std::int64_t k : {1, 385, 3072, 4097, 50304}) {
          for (const Pass pass : kPasses) {
            const ProductShape shape = shape_of(pass, rows, n, k, kernel->operand);
            visit(shape, *kernel, ProductPlan(shape, *kernel, threads));
          }
        }
      }
    }
  }
}

TEST(ProductPlan, CutsTheDepthByItsLengthAndTheKernelAlone) {
  std::vector<std::int64_t> blocks;
  for (const int threads : {1, 3, 64}) {
    std::vector<std::int64_t> of_these_threads;
    for_all_plans(threads, [&](const ProductShape& shape, const PanelKernel& kernel,
                               const ProductPlan& plan) {
      EXPECT_EQ(plan.depth_block, depth_block_of(shape.depth, kernel));
      EXPECT_EQ(plan.depth_span % plan.depth_block, 0);
      of_these_threads.push_back(plan.depth_block);
    });
    if (blocks.empty()) blocks = of_these_threads;
    EXPECT_EQ(of_these_threads, blocks);
  }
}

// Blocks of depth determine fp32's bits, so they must not depend on the kernel's width.
TEST(ProductPlan, BlocksOfDepthAreBalanced) {
  const PanelKernel& f32 = panel_kernel(ProductPrecision::kFp32, active_target());
  EXPECT_EQ(depth_block_of(1, f32), 16);
  EXPECT_EQ(depth_block_of(256, f32), 256);
  EXPECT_EQ(depth_block_of(768, f32), 768);
  EXPECT_EQ(depth_block_of(1024, f32), 1024);
  EXPECT_EQ(depth_block_of(1025, f32), 528);
  EXPECT_EQ(depth_block_of(2304, f32), 768);
  EXPECT_EQ(depth_block_of(3072, f32), 1024);
}

TEST(ProductPlan, PanelsCoverTheColumns) {
  for_all_plans(2, [](const ProductShape&, const PanelKernel& kernel, const ProductPlan& plan) {
    std::int64_t column = 0;
    for (std::int64_t panel = 0; panel < plan.panels(); ++panel) {
      ASSERT_EQ(plan.panel_begin(panel), column);
      const std::int64_t width = plan.panel_begin(panel + 1) - column;
      ASSERT_TRUE(width > 0 && width <= kernel.columns() && width % kernel.width == 0);
      // A panel of one vector is slow: it occurs only if it is the only panel.
      if (kernel.widths > 2 && plan.panels() > 1) {
        ASSERT_GT(width, kernel.width);
      }
      column += width;
    }
    EXPECT_GE(column, plan.columns);
    EXPECT_LT(column - plan.columns, kernel.width);
  });
}

TEST(ProductPlan, KeepsWithinItsMemory) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  for_all_plans(2, [](const ProductShape& shape, const PanelKernel&, const ProductPlan& plan) {
    EXPECT_LE(plan.left_bytes, 33 * kMiB);
    EXPECT_LE(plan.right_bytes, 17 * kMiB);
    EXPECT_LE(plan.span_sums_bytes, 132 * kMiB);
    EXPECT_LE(plan.thread_bytes(), 6 * kMiB) << shape.rows << " x " << shape.columns;
  });
}

// Every thread has work, and the busiest thread not much more than its share.
TEST(ProductPlan, GivesWorkTo64Threads) {
  constexpr int kThreads = 64;
  for (const PanelKernel* kernel : kernels()) {
    for (const Size& size : kGpt2) {
      for (const Pass pass : kPasses) {
        const ProductPlan plan(shape_of(pass, size.rows, size.n, size.k, kernel->operand), *kernel,
                               kThreads);
        const std::int64_t tasks = ceil_div(std::min(plan.row_span, plan.rows), plan.row_block) *
                                   ceil_div(plan.panel_span, plan.panel_block);
        const double share = static_cast<double>(tasks) / kThreads;
        const double busiest = static_cast<double>(ceil_div(tasks, kThreads));
        EXPECT_GE(tasks, kThreads) << kernel->name << " " << size.n << " x " << size.k;
        EXPECT_LE(busiest / share, 1.34) << kernel->name << " " << size.n << " x " << size.k
                                         << ", pass " << static_cast<int>(pass);
      }
    }
  }
}

// Generation of one position of many sequences reads the weights in place.
TEST(ProductPlan, DoesNotPackWeightsForAFewRows) {
  const PanelKernel& kernel = panel_kernel(ProductPrecision::kFp32, active_target());
  const ProductPlan plan(shape_of(Pass::kForward, 1, 50304, 768), kernel, 2);
  EXPECT_TRUE(plan.swapped);
  EXPECT_EQ(plan.left_bytes, 0);
  EXPECT_LE(plan.workspace_bytes(2), std::int64_t{1} << 20);
}

// Of every number of rows up to the most: what is planned where data say how many there are.
TEST(ProductPlan, NeedsNoMoreThanTheMostThatIsPlanned) {
  constexpr std::int64_t kMost[] = {1, 20, 300, 2100, 50304};
  for (const PanelKernel* kernel : kernels()) {
    for (const DType dtype : {DType::kF32, kernel->operand}) {
      for (const int threads : {1, 2, 64}) {
        for (const Pass pass : kPasses) {
          for (const Size& size : {Size{0, 17, 100}, Size{0, 3072, 768}, Size{0, 352, 5000},
                                   Size{0, 5000, 40}, Size{0, 4100, 4100}}) {
            for (const std::int64_t most : kMost) {
              const std::int64_t bound = ProductPlan::most_workspace_bytes(
                  shape_of(pass, most, size.n, size.k, dtype), *kernel, threads);
              for (std::int64_t rows = 1; rows <= most; rows += 1 + rows / 7) {
                const ProductShape shape = shape_of(pass, rows, size.n, size.k, dtype);
                const ProductPlan plan(shape, *kernel, threads);
                ASSERT_LE(plan.workspace_bytes(threads), bound)
                    << kernel->name << ", " << threads << " threads, pass "
                    << static_cast<int>(pass) << ", " << rows << " of " << most << " rows, "
                    << size.n << " x " << size.k;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::cpu
