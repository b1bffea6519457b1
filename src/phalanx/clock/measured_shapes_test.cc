#include "phalanx/clock/measured_shapes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

MatrixProduct of_size(std::int64_t m, std::int64_t n, std::int64_t k,
                      ProductType type = ProductType::kBF16) {
  return {m, n, k, 1, type};
}

TEST(MeasuredShapes, TheNearestOfTheTypeCounts) {
  const std::vector<MeasuredProduct> points = {
      {{1024, 1024, 1024, 1, ProductType::kBF16}, measured(1.0, "")},
      {{4096, 1024, 1024, 1, ProductType::kF32}, measured(1.0, "")}};
  EXPECT_EQ(doublings_to_measured(points, {1024, 1024, 1024, 1, ProductType::kBF16}), 0.0);
  EXPECT_EQ(doublings_to_measured(points, {8192, 1024, 16384, 1, ProductType::kBF16}), 5.0);
  EXPECT_EQ(doublings_to_measured(points, {1024, 1024, 1024, 1, ProductType::kF32}), 2.0);
  EXPECT_TRUE(std::isinf(doublings_to_measured(points, {8, 8, 8, 1, ProductType::kF16})));
}

TEST(ProductFactor, IsTheMeasuredOneThereAndTheFormulasFarAway) {
  const std::vector<MeasuredProduct> measured = {{of_size(1024, 768, 768), {.value = 2.0}},
                                                 {of_size(8192, 768, 768), {.value = 0.5}}};
  EXPECT_NEAR(product_factor(measured, of_size(1024, 768, 768)), 2.0, 1e-3);
  EXPECT_NEAR(product_factor(measured, of_size(8192, 768, 768)), 0.5, 1e-3);
  // A doubling away it is nearly so, in any dimension.
  EXPECT_NEAR(product_factor(measured, of_size(512, 768, 768)), 1.9, 0.05);
  EXPECT_NEAR(product_factor(measured, of_size(1024, 768, 384)), 1.9, 0.05);
  EXPECT_NEAR(product_factor(measured, of_size(1024, 768 << 8, 768 << 8)), 1.0, 1e-2);
  EXPECT_EQ(product_factor(measured, of_size(1024, 768, 768, ProductType::kF32)), 1.0);
  EXPECT_EQ(product_factor({}, of_size(1024, 768, 768)), 1.0);
}

// Two measurements at the same distance count the same.
TEST(ProductFactor, LiesBetweenItsNeighbours) {
  const std::vector<MeasuredProduct> measured = {{of_size(1024, 768, 768), {.value = 3.0}},
                                                 {of_size(4096, 768, 768), {.value = 3.0}}};
  const double between = product_factor(measured, of_size(2048, 768, 768));
  EXPECT_GT(between, 2.8);
  EXPECT_LT(between, 3.0);
}

TEST(ProductFactor, MultipliesTheFormula) {
  DeviceDescription device = shipped_device("h100");
  const MatrixProduct product = of_size(8192, 768, 3072);
  const double formula = product_seconds(device, product);
  device.measured_products = {{product, {.value = 1.25}}};
  EXPECT_NEAR(product_seconds(device, product), 1.25 * formula, 1e-4 * formula);
  EXPECT_EQ(formula_seconds(device, product), formula);
  EXPECT_EQ(product_seconds(device, of_size(0, 768, 3072)), 0.0);
}

TEST(AttentionShare, IsOfTheHeadSizeAndTheKeys) {
  const auto pass = [](std::int64_t head_size, std::int64_t keys, bool is_backward = false) {
    return AttentionPass{ProductType::kBF16, is_backward, head_size, keys};
  };
  const std::vector<MeasuredAttention> measured = {{pass(64, 1024), {.value = 0.1}},
                                                   {pass(128, 4096), {.value = 0.4}},
                                                   {pass(128, 4096, true), {.value = 0.3}}};
  EXPECT_NEAR(attention_share(measured, pass(64, 1024), 0.2), 0.1, 1e-4);
  EXPECT_NEAR(attention_share(measured, pass(128, 4096), 0.2), 0.4, 1e-3);
  EXPECT_NEAR(attention_share(measured, pass(128, 4096, true), 0.2), 0.3, 1e-3);
  EXPECT_NEAR(attention_share(measured, pass(128, 8192), 0.2), 0.4, 0.03);
  EXPECT_NEAR(attention_share(measured, pass(128, 1 << 20), 0.2), 0.2, 0.01);
  EXPECT_EQ(attention_share(measured, pass(0, 0), 0.2), 0.2);
  EXPECT_EQ(attention_share({}, pass(64, 1024), 0.2), 0.2);
}

}  // namespace
}  // namespace phalanx
