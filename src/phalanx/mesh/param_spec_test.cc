#include "phalanx/mesh/param_spec.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(PaddedVocabulary, AsMegatron) {
  EXPECT_EQ(padded_vocabulary(50257, 128, 1), 50304);
  EXPECT_EQ(padded_vocabulary(50257, 128, 2), 50432);
  EXPECT_EQ(padded_vocabulary(50257, 128, 4), 50688);
  EXPECT_EQ(padded_vocabulary(50257, 128, 8), 51200);
  EXPECT_EQ(padded_vocabulary(30524, 128, 1), 30592);
  EXPECT_EQ(padded_vocabulary(30524, 128, 2), 30720);
}

TEST(ParamSpec, PaddingIsNotPartOfTheTensor) {
  const auto spec = whole_parameter("w", {5, 4}, DType::kF32, {}, 8);
  EXPECT_EQ(spec.local_shape, (Shape{8, 4}));
  EXPECT_EQ(true_count(spec), 20);
  EXPECT_TRUE(spec.decays);
  EXPECT_FALSE(whole_parameter("b", {4}, DType::kF32, {}).decays);
}

}  // namespace
}  // namespace phalanx
