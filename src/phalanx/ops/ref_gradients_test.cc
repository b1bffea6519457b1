// Every backward op of the reference against finite differences of its forward, in double.

#include <gtest/gtest.h>

#include <set>

#include "phalanx/ops/cases/differentiate.h"

namespace phalanx::ops {
namespace {

class RefGradients : public testing::TestWithParam<std::string> {};

TEST_P(RefGradients, MatchDifferences) {
  int rows = 0;
  for (const GradientCase& row : make_case_table().gradients) {
    if (row.op != GetParam()) continue;
    ++rows;
    EXPECT_EQ(compare_with_differences(row), "");
  }
  EXPECT_GT(rows, 0);
}

std::vector<std::string> differentiated_ops() {
  std::set<std::string> ops;
  for (const GradientCase& row : make_case_table().gradients) ops.insert(row.op);
  return {ops.begin(), ops.end()};
}

INSTANTIATE_TEST_SUITE_P(Ops, RefGradients, testing::ValuesIn(differentiated_ops()),
                         [](const auto& instance) { return instance.param; });

// A factor of 1.0001 in a backward is seen.
TEST(RefGradients, SeeAWrongFactor) {
  GradientCase row = make_case_table().gradients.front();
  row.build = [build = row.build](Operands& operands) {
    GradientJob job = build(operands);
    job.backward = [backward = job.backward,
                    gradient = job.operands[0].gradient](Context& context) {
      backward(context);
      for (double& value : gradient.span<double>()) value *= 1.0001;
    };
    return job;
  };
  EXPECT_NE(compare_with_differences(row), "");
}

}  // namespace
}  // namespace phalanx::ops
