#include "phalanx/ops/cpu/flush_to_zero.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <thread>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::cpu {
namespace {

constexpr float kSmallest = std::numeric_limits<float>::min();
constexpr float kSubnormal = std::numeric_limits<float>::denorm_min() * 1000.0F;

// Computes x * y at run time.
float product(float x, float y) {
  const volatile float a = x, b = y;
  return a * b;
}

class FlushToZeroTest : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "this processor's state is left as it is";
#endif
  }
  // The caller's mode is unchanged.
  void TearDown() override { EXPECT_NE(product(kSmallest, 0.5F), 0.0F); }
};

TEST_F(FlushToZeroTest, OperandsAndResultsWhileItLives) {
  {
    const FlushToZero mode;
    EXPECT_EQ(product(kSmallest, 0.5F), 0.0F);
    EXPECT_EQ(product(kSubnormal, 1e20F), 0.0F);
    { const FlushToZero again; }
    EXPECT_EQ(product(kSmallest, 0.5F), 0.0F);
  }
  EXPECT_NE(product(kSubnormal, 1e20F), 0.0F);
}

struct Operands {
  explicit Operands(int threads = 3)
      : backend(make_cpu_backend(threads, ProductPrecision::kFp32)) {}

  Arena arena{"operands", std::int64_t{8} << 20};
  Arena workspace{"workspace", std::int64_t{8} << 20};
  std::unique_ptr<Backend> backend;
  Context context{.backend = *backend, .workspace = workspace};

  Tensor filled(const Shape& shape, float value) {
    const Tensor tensor = arena.allocate(DType::kF32, shape);
    std::ranges::fill(tensor.span<float>(), value);
    return tensor;
  }
};

void expect_zeros(const Tensor& tensor) {
  for (const float value : tensor.span<float>()) ASSERT_EQ(value, 0.0F);
}

// All threads of a team flush, those from before and those that join later.
TEST_F(FlushToZeroTest, Sums) {
  for (const int threads : {1, 3, 2, 6}) {
    Operands operands(threads);
    const Tensor sum = operands.filled({300000}, -kSmallest);
    ops::accumulate(operands.context,
                    {.destination = sum, .source = operands.filled({300000}, 1.5F * kSmallest)});
    expect_zeros(sum);
  }
}

// Products flush on whichever thread a rank runs.
TEST_F(FlushToZeroTest, MatrixProducts) {
  std::thread([] {
    Operands operands;
    const Tensor y = operands.filled({200, 200}, 1.0F);
    ops::linear_forward(operands.context, {.y = y,
                                           .x = operands.filled({200, 64}, 1e-20F),
                                           .weight = operands.filled({200, 64}, 1e-20F),
                                           .bias = {}});
    expect_zeros(y);
  }).join();
}

// The moments of a row without gradients.
TEST_F(FlushToZeroTest, AdamsMoments) {
  Operands operands;
  const Tensor average = operands.filled({100000}, kSmallest);
  const Tensor square = operands.filled({100000}, kSmallest);
  const std::array rows = {ops::Segment{.count = 100000}};
  ops::AdamSegments op;
  op.table = {rows, ops::allocate_segments(operands.arena, rows.size())};
  op.weight = operands.filled({100000}, 1.0F);
  op.gradient = operands.filled({100000}, 0.0F);
  op.exp_avg = average;
  op.exp_avg_sq = square;
  op.factor = operands.filled({1}, 1.0F);
  op.skip = operands.filled({1}, 0.0F);
  op.settings = operands.arena.allocate(DType::kF64, {1, 2});
  op.corrections = operands.arena.allocate(DType::kF64, {2});
  std::ranges::fill(op.settings.span<double>(), 0.0);
  std::ranges::fill(op.corrections.span<double>(), 1.0);
  ops::adam_segments(operands.context, op);
  expect_zeros(average);
  expect_zeros(square);
}

}  // namespace
}  // namespace phalanx::cpu
