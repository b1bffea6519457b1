#include "phalanx/data/torch_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of torch.randperm.
TEST(TorchRandom, Permutations) {
  EXPECT_THAT(torch_permutation(10, 0), ElementsAre(4, 1, 7, 5, 3, 9, 0, 8, 6, 2));
  EXPECT_THAT(torch_permutation(8, 0), ElementsAre(4, 0, 7, 3, 2, 5, 1, 6));
  EXPECT_THAT(torch_permutation(8, 1), ElementsAre(5, 4, 2, 6, 7, 3, 1, 0));
  EXPECT_THAT(torch_permutation(0, 1), IsEmpty());
  EXPECT_THAT(torch_permutation(1, 1), ElementsAre(0));
}

TEST(TorchRandom, HasEveryValueOnce) {
  for (const std::uint64_t seed : {0, 1, 77}) {
    auto values = torch_permutation(1000, seed);
    std::ranges::sort(values);
    std::vector<std::uint32_t> expected(1000);
    std::iota(expected.begin(), expected.end(), 0U);
    EXPECT_EQ(values, expected);
  }
}

}  // namespace
}  // namespace phalanx
