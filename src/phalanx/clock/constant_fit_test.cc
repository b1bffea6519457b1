#include "phalanx/clock/constant_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/clock/machine.h"
#include "phalanx/clock/pattern_search.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// What a device of these constants would be measured to take.
DeviceMeasurements measurements_of(const DeviceDescription& device) {
  DeviceMeasurements points{.name = "cpu", .title = "A processor", .source = "measured here"};
  points.cores = static_cast<int>(device.cores.value);
  points.memory_bytes = 64'000'000'000;
  points.smallest_op = device.kernel_floor.value;
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, ProductType type) {
    const MatrixProduct shape{m, n, k, 1, type};
    points.products.push_back({shape, product_seconds(device, shape)});
  };
  for (const ProductType type : {ProductType::kF32, ProductType::kBF16}) {
    for (const std::int64_t k : {256, 1024, 8192}) product(8192, 8192, k, type);
    product(1024, 768, 768, type);
    product(1024, 3072, 768, type);
    product(768, 2304, 1024, type);
    product(256, 512, 2048, type);
    product(4096, 768, 3072, type);
  }
  product(1000, 768, 768, ProductType::kF32);
  product(1024, 770, 768, ProductType::kF32);
  for (const double bytes : {67e6, 268e6, 1e9}) {
    points.memory.push_back({bytes, memory_seconds(device, bytes)});
  }
  for (const ProductType type : {ProductType::kF32, ProductType::kBF16}) {
    for (const bool is_backward : {false, true}) {
      const AttentionPass pass{type, is_backward, 64, 1024};
      points.attention.push_back(
          {pass, is_backward ? 2.5e12 : 1e12, attention_seconds(device, pass, 1e12, 0)});
    }
  }
  points.ops = {{"copy_f32", 1e8, 1e-3 + points.smallest_op},
                {"copy_f32", 3e8, 1e-3 + points.smallest_op}};
  return points;
}

void expect_near_share(double value, double expected, double share) {
  EXPECT_NEAR(value, expected, share * expected);
}

TEST(ConstantFit, FindsTheConstantsThatMadeThePoints) {
  const DeviceDescription device = shipped_device("a100-80");
  const FittedDevice fit = fitted_device(measurements_of(device));
  EXPECT_LT(fit.product_error, 0.005);
  EXPECT_LT(fit.memory_error, 1e-6);
  const DeviceDescription& found = fit.device;
  for (const ProductType type : {ProductType::kF32, ProductType::kBF16}) {
    expect_near_share(found.peak(type) * found.e_gemm(type),
                      device.peak(type) * device.e_gemm(type), 0.01);
    EXPECT_LE(found.e_gemm(type), 1.0);
    expect_near_share(found.peak(type) * found.attention_share(type, false),
                      device.peak(type) * device.attention_forward.value, 0.01);
    expect_near_share(found.peak(type) * found.attention_share(type, true),
                      device.peak(type) * device.attention_backward.value, 0.01);
  }
  expect_near_share(found.k0.value, 400, 0.05);
  expect_near_share(found.e_tile.value, 0.65, 0.05);
  expect_near_share(found.memory_rate.value * found.e_bw.value, 2039e9 * 0.86, 1e-6);
  expect_near_share(found.unaligned_64.value, 1.08, 0.02);
  expect_near_share(found.unaligned_8.value, 2.5, 0.02);
  expect_near_share(found.op_rates.at("copy_f32").value, 2e11, 1e-9);
  EXPECT_EQ(found.kernel_floor.value, 4e-6);
  EXPECT_EQ(found.cores.value, 108);
  for (const NamedQuantity& number : quantities_of(found)) {
    EXPECT_EQ(number.quantity.origin, Origin::kMeasured) << number.key;
    EXPECT_EQ(number.quantity.source, "measured here") << number.key;
    EXPECT_FALSE(number.quantity.is_range()) << number.key;
  }
}

TEST(ConstantFit, OfNoisyPointsIsAsGoodAsTheNoise) {
  DeviceMeasurements points = measurements_of(shipped_device("h100"));
  double sign = 1.0;
  for (ProductPoint& point : points.products) {
    point.seconds *= 1.0 + 0.03 * sign;
    sign = -sign;
  }
  const FittedDevice fit = fitted_device(points);
  EXPECT_GT(fit.product_error, 0.005);
  EXPECT_LT(fit.product_error, 0.035);
}

TEST(ConstantFit, APeakIsTheBestThatWasMeasured) {
  DeviceMeasurements points = measurements_of(shipped_device("h100"));
  ProductPoint& fast = points.products[2];
  fast.seconds *= 0.7;
  const double best = fast.product.flops() / fast.seconds;
  const FittedDevice fit = fitted_device(points);
  EXPECT_DOUBLE_EQ(fit.device.peak(ProductType::kF32), best);
  EXPECT_LT(fit.device.e_gemm(ProductType::kF32), 0.9);
  EXPECT_LT(fit.product_error, 0.15);
}

TEST(ConstantFit, NeedsPointsOfEveryKind) {
  DeviceMeasurements points = measurements_of(shipped_device("a100-80"));
  DeviceMeasurements few = points;
  few.products.resize(2);
  EXPECT_THAT(error_of<ConfigError>([&] { fitted_device(few); }),
              HasSubstr("2 measured products of f32: 3 at least"));
  few = points;
  few.products.clear();
  EXPECT_THAT(error_of<ConfigError>([&] { fitted_device(few); }),
              HasSubstr("no measured products"));
  few = points;
  few.memory.clear();
  EXPECT_THAT(error_of<ConfigError>([&] { fitted_device(few); }), HasSubstr("no measured ops"));
  few = points;
  few.attention.clear();
  EXPECT_THAT(error_of<ConfigError>([&] { fitted_device(few); }),
              HasSubstr("no measured attention"));
}

TEST(PatternSearch, StaysWithinItsBoundsAndFindsTheLowestPlace) {
  const auto place =
      pattern_search({{.start = 0.5, .step = 0.3}, {.start = 0.5, .step = 0.3, .least = 0.2}},
                     [](const std::vector<double>& at) { return std::abs(at[0] - 0.31) + at[1]; });
  EXPECT_NEAR(place[0], 0.31, 1e-3);
  EXPECT_EQ(place[1], 0.2);
}

}  // namespace
}  // namespace phalanx
