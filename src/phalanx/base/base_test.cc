#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "phalanx/base/dtype.h"
#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/philox.h"
#include "phalanx/base/shape.h"

namespace phalanx {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0}, {0, 0, 0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NormalsHaveTheRightMoments) {
  const auto key = random_key(1234, RandomPurpose::kInitialisation);
  double sum = 0;
  double squares = 0;
  constexpr int kBlocks = 50000;
  for (int block = 0; block < kBlocks; ++block) {
    for (const double x :
         normal_block(key, parameter_coordinate("w"), static_cast<unsigned>(block))) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
    }
  }
  EXPECT_NEAR(sum / (4 * kBlocks), 0.0, 0.01);
  EXPECT_NEAR(squares / (4 * kBlocks), 1.0, 0.01);
}

TEST(Philox, UniformNumbersHaveAKnownValueAndStayBetweenTheirBounds) {
  const std::array<double, 4> known = {-0.201907058479, 0.761040395824, 0.471425568918,
                                       0.210963707650};
  const auto first = uniform_block({}, 0, 0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(first[i], known[i], 1e-12);
  const auto key = random_key(1234, RandomPurpose::kInitialisation);
  double sum = 0;
  double squares = 0;
  constexpr int kBlocks = 50000;
  for (int block = 0; block < kBlocks; ++block) {
    for (const double x :
         uniform_block(key, parameter_coordinate("w"), static_cast<unsigned>(block))) {
      ASSERT_LT(std::abs(x), 1.0);
      sum += x;
      squares += x * x;
    }
  }
  EXPECT_NEAR(sum / (4 * kBlocks), 0.0, 0.01);
  EXPECT_NEAR(squares / (4 * kBlocks), 1.0 / 3.0, 0.01);
}

TEST(Philox, CoordinatesDoNotCollide) {
  EXPECT_NE(random_key(1, RandomPurpose::kDropout).high,
            random_key(1, RandomPurpose::kSampling).high);
  EXPECT_NE(dropout_site(3, DropoutPlace::kAttention, 2),
            dropout_site(3, DropoutPlace::kMlpOutput, 2));
  // A single stack keeps its coordinates; the decoder after an encoder has others.
  EXPECT_EQ(dropout_site(3, DropoutPlace::kAttention, 2), 0x31002U);
  std::set<std::uint32_t> sites;
  for (const std::uint32_t layer : {0U, 1U, kEmbeddingLayer}) {
    for (std::uint32_t place = 0; place < 6; ++place) {
      for (const std::uint32_t head : {0U, 1U, 0xfffU}) {
        for (const std::uint32_t stack : {0U, 1U}) {
          sites.insert(dropout_site(layer, static_cast<DropoutPlace>(place), head, stack));
        }
      }
    }
  }
  EXPECT_EQ(sites.size(), 3U * 6U * 3U * 2U);
  EXPECT_NE(dropout_sample_key({1, 2}, 5).high, dropout_sample_key({1, 2}, 5 + (1ULL << 32)).high);
}

TEST(DType, SixteenBitConversionsRoundToNearestEven) {
  for (int i = 0; i < 65536; ++i) {  // every value survives the round trip
    const float16 half{static_cast<std::uint16_t>(i)};
    const bfloat16 brain{static_cast<std::uint16_t>(i)};
    if (!std::isnan(to_float(half))) {
      EXPECT_EQ(to_float16(to_float(half)).bits, half.bits);
    }
    if (!std::isnan(to_float(brain))) {
      EXPECT_EQ(to_bfloat16(to_float(brain)).bits, brain.bits);
    }
  }
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, to_bfloat16(1.0F).bits);  // a tie goes to even
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);  // the first value that overflows
  EXPECT_EQ(to_float16(65519.0F).bits, 0x7bff);
  EXPECT_EQ(to_float16(0x1p-25F).bits, 0);  // half of the smallest subnormal ties to zero
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DType, Names) {
  EXPECT_EQ(name_of(DType::kBF16), "bf16");
  EXPECT_EQ(dtype_from_name("i64"), DType::kI64);
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
}

TEST(Numeric, Formats) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(200LL << 30), "200 GiB");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-12), "-12");
}

TEST(Error, CheckNamesThePlace) {
  try {
    PHALANX_CHECK(1 == 2, "value {}", 7);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 70);
    EXPECT_NE(std::string(error.what()).find("value 7 (1 == 2)"), std::string::npos);
  }
}

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ((Shape{2, 3, 4}).count(), 24);
  EXPECT_EQ((Shape{}).count(), 1);
  EXPECT_EQ((Shape{2, 3}).to_string(), "[2, 3]");
}

}  // namespace
}  // namespace phalanx
