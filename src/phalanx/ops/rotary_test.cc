// Angles and frequencies against numbers of the programs that models come from.

#include "phalanx/ops/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/ops/backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

// Element by element.
auto near(double tolerance, const std::vector<double>& expected) {
  return testing::Pointwise(testing::DoubleNear(tolerance), expected);
}

constexpr Rotary kEight{.dimensions = 8};
constexpr Rotary kLlama3{.dimensions = 128,
                         .base = 500000.0,
                         .scaling = Rotary::Scaling::kLlama3,
                         .factor = 8.0,
                         .original_positions = 8192.0,
                         .low_frequency = 1.0,
                         .high_frequency = 4.0};
constexpr Rotary kYarn{.dimensions = 64,
                       .scaling = Rotary::Scaling::kYarn,
                       .factor = 4.0,
                       .original_positions = 2048.0};

// The reference in f64, or in f32.
class RotaryNumbers : public testing::TestWithParam<DType> {
 protected:
  Tensor values(DType dtype, const Shape& shape, const std::vector<double>& contents) {
    Tensor tensor = arena_.allocate(dtype, shape);
    ref::Array array(shape);
    array.values = contents;
    ref::write(tensor, array);
    return tensor;
  }
  Tensor table(const Rotary& rotary, std::int64_t positions) {
    Tensor table = arena_.allocate(GetParam(), {positions, rotary.dimensions});
    rotary_table(context_, {.table = table, .rotary = rotary});
    return table;
  }
  // 1 ... 8 at a position.
  std::vector<double> rotated(const Rotary& rotary, std::int32_t position) {
    const Tensor x = values(GetParam(), {1, 1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
    Tensor at = arena_.allocate(DType::kI32, {1, 1});
    *at.as<std::int32_t>() = position;
    rotate(context_, {.y = x,
                      .x = x,
                      .position = at,
                      .table = table(rotary, position + 1),
                      .interleaved = rotary.interleaved});
    return ref::read(x).values;
  }

  Arena arena_{"test", 1 << 20};
  Arena workspace_{"workspace", 1 << 10};
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Context context_{.backend = *backend_, .workspace = workspace_};
};

TEST_P(RotaryNumbers, TurnByThePosition) {
  const ref::Array last = ref::read(table(kEight, 1001).slice(0, 1000, 1));
  EXPECT_THAT(last.values, near(1e-7, {.562379076, .862318872, -.839071529, .540302306, .826879541,
                                       -.506365641, -.544021111, .841470985}));
  EXPECT_THAT(rotated(kEight, 3), near(1e-6, {-1.69559252, .137551665, 2.78868151, 3.97598219,
                                              -4.80884266, 6.32305956, 7.08683681, 8.01196384}));
  EXPECT_THAT(rotated({.dimensions = 8, .interleaved = true}, 3),
              near(1e-6, {-1.27223253, -1.83886504, 1.68392861, 4.70790672, 4.81777716, 6.14727783,
                          6.97596836, 8.02096462}));
  EXPECT_THAT(rotated({.dimensions = 4}, 3),
              near(1e-6, {-1.41335249, 1.87911808, -2.82885742, 4.0581913, 5, 6, 7, 8}));
  // Positions divided by 3.
  EXPECT_THAT(rotated({.dimensions = 8, .interpolation = 3.0}, 9), near(1e-6, rotated(kEight, 3)));
  EXPECT_THAT(rotated({.dimensions = 8, .attention_factor = 2.0}, 0),
              near(0.0, {2, 4, 6, 8, 10, 12, 14, 16}));
}

TEST_P(RotaryNumbers, ScaleAsLlama3) {
  const std::vector<double> theta = rotary_frequencies(kLlama3, GetParam());
  Rotary plain = kLlama3;
  plain.scaling = Rotary::Scaling::kNone;
  const std::vector<double> before = rotary_frequencies(plain, GetParam());
  ASSERT_EQ(theta.size(), 64U);
  const auto expect = [](double value, double expected) {
    EXPECT_NEAR(value / expected, 1.0, 4e-7);
  };
  expect(theta[28], .00321144611);
  expect(before[29], .00261609908);
  expect(theta[29], .00216657063);
  expect(theta[30], .00137189368);
  expect(theta[31], .00085675146);
  expect(theta[33], .00031269365);
  expect(before[35], .000764496974);
  for (std::size_t i = 0; i <= 28; ++i) EXPECT_EQ(theta[i], before[i]) << i;
  for (std::size_t i = 35; i < 64; ++i) EXPECT_EQ(theta[i], before[i] / 8.0) << i;
}

TEST_P(RotaryNumbers, ScaleAsYarn) {
  const std::vector<double> theta = rotary_frequencies(kYarn, GetParam());
  Rotary plain = kYarn;
  plain.scaling = Rotary::Scaling::kNone;
  const std::vector<double> before = rotary_frequencies(plain, GetParam());
  const auto ratio = [&](std::size_t i) { return before[i] / theta[i]; };
  EXPECT_NEAR(ratio(0), 1.0, 2e-7);
  EXPECT_NEAR(ratio(9), 1.061224, 1e-6);
  EXPECT_NEAR(ratio(10), 1.130435, 1e-6);
  EXPECT_NEAR(ratio(11), 1.209302, 1e-6);
  EXPECT_NEAR(ratio(15), 1.677419, 1e-6);
  EXPECT_NEAR(ratio(20), 3.25, 1e-6);
  for (std::size_t i = 22; i < 32; ++i) EXPECT_NEAR(ratio(i), 4.0, 1e-6) << i;
  // Without rounding the range outwards it is narrower.
  Rotary exact = kYarn;
  exact.truncate = false;
  const std::vector<double> narrow = rotary_frequencies(exact, GetParam());
  EXPECT_NEAR(before[8] / narrow[8], 1.0, 2e-7);
  EXPECT_NEAR(before[9] / narrow[9], 1.061909, 1e-6);
  EXPECT_NEAR(before[20] / narrow[20], 3.897837, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RotaryNumbers, testing::Values(DType::kF64, DType::kF32),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

// Base to a negative power in f32 is what other programs have: exponent, power and quotient are
// each rounded.
TEST(RotaryFrequencies, AreRoundedAsElsewhere) {
  for (const double theta : rotary_frequencies(kLlama3, DType::kF32)) {
    EXPECT_EQ(theta, static_cast<double>(static_cast<float>(theta)));
  }
}

}  // namespace
}  // namespace phalanx::ops
