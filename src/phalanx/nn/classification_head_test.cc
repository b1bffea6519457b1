#include "phalanx/nn/classification_head.h"

#include <gtest/gtest.h>

#include "phalanx/nn/test_support.h"
#include "phalanx/ops/cases/differentiate.h"

namespace phalanx::nn {
namespace {

using ops::GradientCase;
using ops::Operands;

constexpr std::int64_t kTestClasses = 3;

// The batch gets two more columns: a label and a mask of each sample.
GradientCase classification_case(std::vector<double> mask, NormPlace norm_place) {
  return {"classification_head", norm_place == NormPlace::kPre ? "pre-norm" : "post-norm",
          [mask, norm_place](Operands& operands) {
            TransformerConfig config = test_config();
            config.norm_place = norm_place;
            const auto all = std::make_shared<LayerFixture>();
            const std::int64_t samples = all->shape.micro_batch;
            const auto unit = std::make_shared<ClassificationHead>(
                all->table,
                ClassificationHeadOptions{.classes = kTestClasses, .labels = 4, .loss_mask = 5},
                config);
            all->allocate(operands, unit->saved_slots(), kTestClasses);
            all->batch.columns.push_back(operands.integers({1, samples}, 0, kTestClasses));
            all->batch.columns.push_back(operands.values(operands.full(), {1, samples}, mask));
            return unit_job(operands, all, unit);
          }};
}

// With dropout, in double on the reference; also with a sample that does not count.
TEST(ClassificationHead, GradientsMatchDifferences) {
  for (const NormPlace place : {NormPlace::kPre, NormPlace::kPost}) {
    EXPECT_EQ(ops::compare_with_differences(classification_case({1, 1}, place)), "");
    EXPECT_EQ(ops::compare_with_differences(classification_case({0, 1}, place)), "");
  }
}

}  // namespace
}  // namespace phalanx::nn
