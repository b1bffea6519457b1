#include "phalanx/tasks/class_scores.h"

#include <gtest/gtest.h>

#include <vector>

namespace phalanx {
namespace {

// Values of scikit-learn's accuracy_score() and f1_score(), by hand.
TEST(ClassScores, OfTwoClassesF1IsThatOfTheSecond) {
  const auto scores = class_scores(2);
  ASSERT_EQ(scores->counts(), 6);
  // Hits, labels and predictions by class: class 1 has four samples and three predictions, two of
  // which are right.
  const std::vector<double> counts = {5, 2, 6, 4, 7, 3};
  const auto found = scores->scores(counts);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "accuracy");
  EXPECT_DOUBLE_EQ(found[0].value, 0.7);
  EXPECT_EQ(found[1].name, "f1");
  EXPECT_DOUBLE_EQ(found[1].value, 4.0 / 7.0);
}

TEST(ClassScores, OfMoreClassesF1IsTheMean) {
  const auto scores = class_scores(3);
  // Class 2 has no sample and no prediction: 0.
  const auto found = scores->scores(std::vector<double>{1, 1, 0, 2, 1, 0, 1, 2, 0});
  EXPECT_DOUBLE_EQ(found[0].value, 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(found[1].value, (2.0 / 3.0 + 2.0 / 3.0) / 3.0);
}

TEST(ClassScores, OfNothingAreZero) {
  const auto scores = class_scores(2);
  for (const NamedLoss& score : scores->scores(std::vector<double>(6, 0.0))) {
    EXPECT_EQ(score.value, 0.0);
  }
}

TEST(ClassOf, TakesTheFirstOfEquals) {
  EXPECT_EQ(class_of(std::vector<float>{0.5F, 2.0F, 2.0F}), 1);
}

}  // namespace
}  // namespace phalanx
