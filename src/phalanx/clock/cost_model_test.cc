#include "phalanx/clock/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/clock/machine.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// Four cores of 5e11 FLOP/s each.
DeviceDescription four_cores() {
  DeviceDescription device;
  device.name = "four";
  device.product(ProductType::kBF16) = {.peak = data_sheet(4e12, "t"), .e_gemm = fitted(0.5, "t")};
  device.product(ProductType::kFP8) = {.peak = data_sheet(8e12, "t"), .e_gemm = fitted(0.5, "t")};
  device.cores = data_sheet(4, "t");
  device.memory_rate = data_sheet(1e12, "t");
  device.k0 = fitted(64, "t");
  device.e_tile = fitted(0.5, "t");
  device.e_bw = fitted(0.8, "t");
  device.kernel_floor = fitted(1e-6, "t");
  device.attention_forward = fitted(0.5, "t");
  device.attention_backward = fitted(0.4, "t");
  device.unaligned_64 = fitted(1.08, "t");
  device.unaligned_8 = fitted(2.5, "t");
  return device;
}

double seconds(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  return product_seconds(four_cores(), {m, n, k, batch});
}

TEST(ProductSeconds, OneWaveOfLargeTiles) {
  // 2 x 2 tiles of 256 x 128, depth 192 + 64.
  EXPECT_DOUBLE_EQ(seconds(512, 256, 192), 2.0 * 256 * 128 * 256 / 5e11);
  // The same four tiles as a batch.
  EXPECT_DOUBLE_EQ(seconds(256, 128, 192, 4), 2.0 * 256 * 128 * 256 / 5e11);
  // Tiles that hang over count whole: 300 rows are two tiles.
  EXPECT_DOUBLE_EQ(seconds(320, 256, 192), 2.0 * 256 * 128 * 256 / 5e11);
}

TEST(ProductSeconds, OneTileIsCutAlongItsDepth) {
  // One tile: four cores take a quarter of 1,024 each.
  EXPECT_DOUBLE_EQ(seconds(256, 128, 1024), 2.0 * 256 * 128 * (256 + 64) / 5e11);
}

TEST(ProductSeconds, SmallTilesForSmallProducts) {
  // Four tiles of 64 x 64 at 0.8^3 of the rate; a tile of twice the size would leave cores idle, or
  // start twice.
  DeviceDescription device = four_cores();
  device.e_tile.value = 0.8;
  EXPECT_DOUBLE_EQ(product_seconds(device, {128, 128, 64}), 2.0 * 64 * 64 * 128 / (5e11 * 0.512));
}

TEST(ProductSeconds, ManyWavesEndHalfFull) {
  // 17 tiles on 4 cores: 4.25 waves and a half.
  EXPECT_DOUBLE_EQ(seconds(17 * 256, 128, 64), 4.75 * 2 * 256 * 128 * 128 / 5e11);
  // 16 tiles: 4 waves.
  EXPECT_DOUBLE_EQ(seconds(16 * 256, 128, 64), 4.0 * 2 * 256 * 128 * 128 / 5e11);
}

TEST(ProductSeconds, UnalignedDimensionsCost) {
  EXPECT_DOUBLE_EQ(seconds(512, 256, 184), 1.08 * 2 * 256 * 128 * (184 + 64) / 5e11);
  EXPECT_DOUBLE_EQ(seconds(512, 256, 188), 2.5 * 2 * 256 * 128 * (188 + 64) / 5e11);
  EXPECT_DOUBLE_EQ(seconds(510, 256, 192), 2.5 * 2 * 256 * 128 * (192 + 64) / 5e11);
}

TEST(ProductSeconds, NeverLessThanBytesOrTheFloor) {
  DeviceDescription slow = four_cores();
  slow.memory_rate.value = 1e9;
  const MatrixProduct product{512, 256, 192};
  EXPECT_DOUBLE_EQ(product.bytes(), 2.0 * (512 * 192 + 192 * 256 + 512 * 256));
  EXPECT_DOUBLE_EQ(product_seconds(slow, product), product.bytes() / 1e9);
  EXPECT_DOUBLE_EQ((MatrixProduct{2, 3, 5, 7, ProductType::kFP8}.bytes()), 7.0 * (10 + 15 + 12));
  slow = four_cores();
  slow.kernel_floor.value = 1e-3;
  EXPECT_DOUBLE_EQ(product_seconds(slow, product), 1e-3);
  EXPECT_EQ(seconds(0, 256, 192), 0.0);
}

TEST(ProductSeconds, EightBitsHaveTheirOwnRates) {
  const MatrixProduct product{512, 256, 192, 1, ProductType::kFP8};
  EXPECT_DOUBLE_EQ(product_seconds(four_cores(), product), 2.0 * 256 * 128 * 256 / 1e12);
  EXPECT_THAT(error_of<ConfigError>([] {
                product_seconds(four_cores(), {8, 8, 8, 1, ProductType::kF32});
              }),
              HasSubstr("device four: it has no peak_f32"));
}

TEST(ProductSeconds, StayBelowThePeakAndNeverFallWithSize) {
  constexpr std::array<std::int64_t, 8> kSizes = {64, 192, 320, 512, 1088, 2048, 4160, 8192};
  for (const std::string& name : shipped_device_names()) {
    const DeviceDescription device = shipped_device(name);
    for (const std::int64_t m : kSizes) {
      for (const std::int64_t k : kSizes) {
        double before = 0.0;
        for (const std::int64_t n : kSizes) {
          const MatrixProduct product{m, n, k};
          const double now = product_seconds(device, product);
          EXPECT_GE(now, before) << name << " " << m << " " << n << " " << k;
          EXPECT_GE(now, product.flops() / device.peak(ProductType::kBF16));
          EXPECT_GE(now, product.bytes() / device.memory_rate.value);
          EXPECT_GE(product_seconds(device, {m, n + 64, k}), now);
          EXPECT_GE(product_seconds(device, {m + 64, n, k}), now);
          EXPECT_GE(product_seconds(device, {m, n, k + 64}), now);
          EXPECT_GE(product_seconds(device, {m, n, k, 3}), now);
          before = now;
        }
      }
    }
  }
}

TEST(ProductSeconds, LargeProductsReachTheFittedShare) {
  const DeviceDescription device = shipped_device("a100-80");
  const MatrixProduct product{8192, 8192, 8192};
  const double reached = product.flops() / product_seconds(device, product) / 312e12;
  // 0.788 but for the tiles' starts, 258 / 8,450, and half a wave of 19.
  EXPECT_NEAR(reached, 0.788 * 8192 / (8192 + 258) * 18.96 / 19.46, 1e-3);
}

TEST(MemorySeconds, AreBytesAtTheRateThatOpsReachAndTheFloor) {
  EXPECT_DOUBLE_EQ(memory_seconds(four_cores(), 8e8), 1e-3 + 1e-6);
  EXPECT_DOUBLE_EQ(memory_seconds(four_cores(), 0), 1e-6);
  EXPECT_DOUBLE_EQ(optimizer_seconds(four_cores(), 1e6), 40e6 / 8e11 + 1e-6);
}

TEST(OpSeconds, UseTheOpsOwnRateWhereThereIsOne) {
  DeviceDescription device = four_cores();
  device.op_rates[op_rate_key("copy", DType::kBF16)] = measured(2e12, "t");
  EXPECT_DOUBLE_EQ(op_seconds(device, "copy", DType::kBF16, 8e8), 4e-4 + 1e-6);
  EXPECT_EQ(op_seconds(device, "copy", DType::kF32, 8e8), memory_seconds(device, 8e8));
  EXPECT_EQ(op_seconds(device, "fill", DType::kBF16, 8e8), memory_seconds(device, 8e8));
  // Beyond the caches memory is the limit, but a slower op stays slow.
  device.cache_bytes = measured(1e8, "t");
  EXPECT_EQ(op_seconds(device, "copy", DType::kBF16, 8e8), memory_seconds(device, 8e8));
  EXPECT_DOUBLE_EQ(op_seconds(device, "copy", DType::kBF16, 1e8), 5e-5 + 1e-6);
  device.op_rates["copy_bf16"].value = 1e11;
  EXPECT_DOUBLE_EQ(op_seconds(device, "copy", DType::kBF16, 8e8), 8e-3 + 1e-6);
}

TEST(AttentionSeconds, OfATypeMayHaveTheirOwnShare) {
  DeviceDescription device = four_cores();
  device.product(ProductType::kBF16).attention_forward = measured(0.25, "t");
  const auto seconds = [&](ProductType type, bool is_backward) {
    return attention_seconds(device, {type, is_backward}, 4e9, 0);
  };
  EXPECT_DOUBLE_EQ(seconds(ProductType::kBF16, false), 4e-3);
  EXPECT_DOUBLE_EQ(seconds(ProductType::kFP8, false), 1e-3);
  EXPECT_DOUBLE_EQ(seconds(ProductType::kBF16, true), 6.25e-3);
}

TEST(AttentionSeconds, AreUsefulOperationsAtAShareOfThePeak) {
  const DeviceDescription device = four_cores();
  const AttentionPass forward{ProductType::kBF16, false};
  const AttentionPass backward{ProductType::kBF16, true};
  EXPECT_DOUBLE_EQ(attention_seconds(device, forward, 4e9, 0), 2e-3);
  EXPECT_DOUBLE_EQ(attention_seconds(device, backward, 4e9, 0), 2.5 * 4e9 / (4e12 * 0.4));
  EXPECT_DOUBLE_EQ(attention_seconds(device, forward, 4e9, 5e9), 5e-3);
  EXPECT_DOUBLE_EQ(attention_seconds(device, forward, 0, 0), 1e-6);
}

TEST(ScaleFactor, GrowsWithEachDoubling) {
  EXPECT_EQ(scale_factor(0.004, 1), 1.0);
  EXPECT_DOUBLE_EQ(scale_factor(0.004, 2), 1.004);
  EXPECT_NEAR(scale_factor(0.004, 1024), 1.0407, 1e-4);
}

}  // namespace
}  // namespace phalanx
