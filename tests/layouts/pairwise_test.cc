#include "pairwise.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace phalanx {
namespace {

using Pairs = std::set<std::tuple<std::size_t, int, std::size_t, int>>;

void add_pairs(const Combination& combination, Pairs& pairs) {
  for (std::size_t a = 0; a < combination.size(); ++a) {
    for (std::size_t b = a + 1; b < combination.size(); ++b) {
      pairs.insert({a, combination[a], b, combination[b]});
    }
  }
}

TEST(Pairwise, CoversExactlyTheLegalPairs) {
  const std::vector<int> sizes = {3, 4, 2, 3, 2};
  const IsLegal is_legal = [](const Combination& c) {
    return !(c[0] == 2 && c[1] > 1) && (c[2] == 0 || c[3] == 1) && c[1] * c[4] < 3;
  };
  Pairs legal, covered;
  int product = 0;
  for_product(sizes, is_legal, [&](const Combination& c) {
    add_pairs(c, legal);
    ++product;
  });
  const auto cover = pairwise_cover(sizes, is_legal);
  for (const auto& combination : cover) {
    EXPECT_TRUE(is_legal(combination));
    add_pairs(combination, covered);
  }
  EXPECT_EQ(covered, legal);
  EXPECT_LT(static_cast<int>(cover.size()), product / 3);
  EXPECT_EQ(pairwise_cover(sizes, is_legal), cover);
}

TEST(Pairwise, WithoutRulesTheProductIsAllOfIt) {
  int count = 0;
  for_product(
      {3, 2, 4}, [](const Combination&) { return true; }, [&](const Combination&) { ++count; });
  EXPECT_EQ(count, 24);
}

}  // namespace
}  // namespace phalanx
