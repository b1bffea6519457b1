#include "phalanx/clock/wanted_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::SizeIs;

OpCost product(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.name = name, .product = {.m = m, .n = n, .k = k, .batch = 1}};
}

TEST(WantedShapes, AreLayersOfEveryPassAndEachOnce) {
  WantedShapes shapes;
  for (int i = 0; i < 2; ++i) {
    shapes.add(product("linear_forward", 512, 768, 256));
    shapes.add(product("linear_input_gradient", 512, 256, 768));
    shapes.add(product("linear_weight_gradient", 768, 256, 512));
  }
  ASSERT_THAT(shapes.products, SizeIs(3));
  for (const WantedProduct& layer : shapes.products) {
    EXPECT_EQ(layer.rows, 512);
    EXPECT_EQ(layer.n, 768);
    EXPECT_EQ(layer.k, 256);
  }
}

TEST(WantedShapes, AreThoseThatAreMeasured) {
  WantedShapes shapes;
  OpCost experts = product("linear_forward", 512, 768, 256);
  experts.product.m_groups = 4;
  shapes.add(experts);
  shapes.add({.name = "copy"});
  OpCost attention{.name = "attention_backward", .attention = {2, 4, 256, 256, 64, 0.5}};
  shapes.add(attention);
  shapes.add(attention);
  attention.attention.keys = 512;
  shapes.add(attention);
  EXPECT_THAT(shapes.products, SizeIs(0));
  ASSERT_THAT(shapes.attention, SizeIs(1));
  EXPECT_EQ(shapes.attention.front().size, (ops::AttentionSize{256, 2, 4, 4, 64}));
}

}  // namespace
}  // namespace phalanx
