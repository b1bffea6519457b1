// The shapes of products and of attention in their costs.

#include <gtest/gtest.h>

#include "phalanx/ops/backend.h"

namespace phalanx::ops {
namespace {

// Rows 6, inputs 20, outputs 10; 4 experts.
class CostTest : public testing::Test {
 protected:
  Tensor tensor(const Shape& shape, DType dtype = DType::kBF16) {
    return memory_.allocate(dtype, shape);
  }

 private:
  Arena memory_ = Arena::planning("operands");
};

TEST_F(CostTest, OfLinears) {
  const Tensor x = tensor({6, 20}), y = tensor({6, 10}), weight = tensor({10, 20});
  LinearForward forward;
  forward.y = y;
  forward.x = x;
  forward.weight = weight;
  EXPECT_EQ(cost(forward).product, (ProductShape{.m = 6, .n = 10, .k = 20, .batch = 1}));
  const LinearInputGradient back{.dx = x, .dy = y, .weight = weight};
  EXPECT_EQ(cost(back).product, (ProductShape{.m = 6, .n = 20, .k = 10, .batch = 1}));
  const OpCost gradient =
      cost(LinearWeightGradient{.dweight = tensor({10, 20}, DType::kF32), .dy = y, .x = x});
  EXPECT_EQ(gradient.product, (ProductShape{.m = 10, .n = 20, .k = 6, .batch = 1}));
  EXPECT_EQ(gradient.flops, 2 * 6 * 20 * 10);
  EXPECT_EQ(gradient.dtype, DType::kBF16);
}

// The rows of all experts together, or as many as are expected.
TEST_F(CostTest, OfExperts) {
  const Tensor x = tensor({6, 20}), y = tensor({6, 10}), weight = tensor({4, 10, 20});
  const Tensor offsets = tensor({5}, DType::kI32);
  GroupedLinearForward forward;
  forward.y = y;
  forward.x = x;
  forward.weight = weight;
  forward.offsets = offsets;
  ProductShape product{.m = 6, .n = 10, .k = 20, .batch = 1, .m_groups = 4};
  EXPECT_EQ(cost(forward).product, product);
  forward.expected_rows = product.m = 3;
  EXPECT_EQ(cost(forward).product, product);
  EXPECT_EQ(cost(forward).flops, 2 * 3 * 20 * 10);
  const GroupedLinearInputGradient back{.dx = x, .dy = y, .weight = weight, .offsets = offsets};
  product = {.m = 6, .n = 20, .k = 10, .batch = 1, .m_groups = 4};
  EXPECT_EQ(cost(back).product, product);
  const GroupedLinearWeightGradient gradient{
      .dweight = tensor({4, 10, 20}, DType::kF32), .dy = y, .x = x, .offsets = offsets};
  product = {.m = 10, .n = 20, .k = 6, .batch = 1, .k_groups = 4};
  EXPECT_EQ(cost(gradient).product, product);
}

TEST_F(CostTest, OfAttention) {
  const auto forward = [&](const Shape& query, std::int64_t keys, const AttentionMask& mask) {
    AttentionForward op;
    op.out = tensor({query[0], 2, 6, 8});
    op.lse = tensor({2, 6, query[0]}, DType::kF32);
    op.in.query = tensor(query);
    op.in.key = op.in.value = tensor({keys, 2, 2, 8});
    op.in.mask = mask;
    return cost(op);
  };
  AttentionShape shape{
      .batch = 2, .heads = 6, .queries = 4, .keys = 4, .head_size = 8, .seen = 0.5};
  const OpCost causal = forward({4, 2, 6, 8}, 4, {.causal = true});
  EXPECT_EQ(causal.attention, shape);
  EXPECT_EQ(causal.flops, 2 * 2 * 4 * 4 * 2 * 6 * 8 / 2);
  EXPECT_EQ(causal.dtype, DType::kBF16);
  EXPECT_EQ(causal.product, ProductShape{});
  EXPECT_EQ(forward({4, 2, 2, 3, 8}, 4, {.causal = true}).attention, shape);
  shape.seen = 1.0;
  EXPECT_EQ(forward({4, 2, 6, 8}, 4, {}).attention, shape);
  // 1 + 2 + 2 + 2 of 16 pairs.
  shape.seen = 7.0 / 16.0;
  EXPECT_EQ(forward({4, 2, 6, 8}, 4, {.causal = true, .window = 2}).attention, shape);
  shape.keys = 0;
  shape.seen = 0.0;
  EXPECT_EQ(forward({4, 2, 6, 8}, 0, {}).attention, shape);
}

// Of what moves memory: the type of most bytes.
TEST_F(CostTest, OfMemory) {
  const Tensor half = tensor({6, 20}), full = tensor({6, 20}, DType::kF32);
  EXPECT_EQ(cost(Copy{.destination = half, .source = half}).dtype, DType::kBF16);
  EXPECT_EQ(cost(Copy{.destination = full, .source = half}).dtype, DType::kF32);
  EXPECT_EQ(cost(Copy{.destination = half, .source = full}).dtype, DType::kF32);
  EXPECT_EQ(cost(Fill{.x = half}).dtype, DType::kBF16);
  NormForward norm;
  norm.x = norm.y = half;
  norm.weight = norm.bias = tensor({20});
  norm.mean = norm.rstd = tensor({6}, DType::kF32);
  EXPECT_EQ(cost(norm).dtype, DType::kBF16);
  EXPECT_EQ(cost(norm).bytes_read, 2 * 120 + 2 * 2 * 20);
  EXPECT_EQ(cost(norm).bytes_written, 2 * 120 + 2 * 4 * 6);
}

}  // namespace
}  // namespace phalanx::ops
