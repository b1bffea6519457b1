#include "phalanx/tasks/bag_of_words.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(BagOfWords, LearnsWhichWordsThereAre) {
  std::vector<WordBag> bags;
  for (std::int32_t i = 0; i < 300; ++i) {
    // Words 0 to 2 tell the class, the others do not.
    bags.push_back({{3 + i % 7, i % 3, 3 + i % 5}, i % 3});
  }
  const BagOfWords model(bags, 10, 3, 1);
  EXPECT_EQ(model.correct(bags), 300);
  EXPECT_EQ(model.predict({{1, 4}, 0}), 1);
}

// The same bag with each class once: half of the predictions are right, whatever is learnt.
TEST(BagOfWords, IsAtChanceWhereOrderIsAll) {
  std::vector<WordBag> bags;
  std::uint32_t state = 1;
  for (int i = 0; i < 200; ++i) {
    WordBag bag;
    for (int k = 0; k < 6; ++k) {
      state = state * 1664525U + 1013904223U;
      bag.tokens.push_back(static_cast<std::int32_t>(state >> 24) % 40);
    }
    bags.push_back(bag);
    bag.label = 1;
    bags.push_back(bag);
  }
  EXPECT_EQ(BagOfWords(bags, 40, 2, 1).correct(bags), 200);
}

}  // namespace
}  // namespace phalanx
