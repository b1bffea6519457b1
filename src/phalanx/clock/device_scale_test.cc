#include "phalanx/clock/device_scale.h"

#include <gtest/gtest.h>

#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

void expect_scaled(double factor) {
  DeviceDescription device = shipped_device("a100-80");
  device.measured_attention = {{.pass = {.type = ProductType::kBF16, .head_size = 64, .keys = 1024},
                                .share = measured(0.9, "")}};
  const DeviceDescription other = scaled(device, factor, "measured here");
  for (const ProductType type : {ProductType::kF32, ProductType::kBF16}) {
    // Long enough that memory does not decide.
    const MatrixProduct product{8192, 8192, 8192, 1, type};
    EXPECT_NEAR(product_seconds(other, product), factor * product_seconds(device, product),
                1e-9 * factor * product_seconds(device, product));
    EXPECT_LE(other.e_gemm(type), 1.0);
    EXPECT_LE(other.attention_share(type, false), 1.0);
    for (const bool is_backward : {false, true}) {
      const AttentionPass pass{
          .type = type, .is_backward = is_backward, .head_size = 64, .keys = 1024};
      const double seconds = attention_seconds(device, pass, 1e12, 0);
      EXPECT_NEAR(attention_seconds(other, pass, 1e12, 0), factor * seconds,
                  1e-9 * factor * seconds);
    }
  }
  const double moved = memory_seconds(device, 1e9);
  EXPECT_NEAR(memory_seconds(other, 1e9), factor * moved, 1e-9 * factor * moved);
  EXPECT_LE(other.e_bw.value, 1.0);
  EXPECT_EQ(other.kernel_floor.value, factor * device.kernel_floor.value);
  EXPECT_EQ(other.e_bw.origin, Origin::kMeasured);
  EXPECT_EQ(other.e_bw.source, "measured here");
  EXPECT_EQ(other.k0, device.k0);
  EXPECT_EQ(other.memory_bytes, device.memory_bytes);
}

TEST(DeviceScale, EveryTimeIsScaled) {
  expect_scaled(1.0);
  expect_scaled(1.25);
  expect_scaled(40.0);
}

TEST(DeviceScale, RatesGrowWhereSharesWouldBeAboveOne) {
  const DeviceDescription device = shipped_device("a100-80");
  expect_scaled(0.9);
  EXPECT_EQ(scaled(device, 0.9, "").peak(ProductType::kBF16), device.peak(ProductType::kBF16));
  expect_scaled(0.1);
  EXPECT_GT(scaled(device, 0.1, "").peak(ProductType::kBF16), device.peak(ProductType::kBF16));
}

}  // namespace
}  // namespace phalanx
