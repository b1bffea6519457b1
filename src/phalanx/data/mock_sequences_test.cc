#include "phalanx/data/mock_sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/data/pcg64.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// numpy.random.default_rng(0).bit_generator.random_raw()
TEST(Pcg64, IsNumpys) {
  Pcg64 random(0);
  EXPECT_EQ(random.next_u64(), 11749869230777074271U);
  EXPECT_EQ(random.next_u64(), 4976686463289251617U);
  EXPECT_EQ(random.next_u64(), 755828109848996024U);
}

// numpy.random.default_rng(0).integers(1, 4096, 100000, dtype=numpy.int32): its first values, its
// sum, and its product with 0, 1, 2, ...
TEST(MockSequences, LengthsAreMegatrons) {
  const MockSequences mock(100, 99);
  ASSERT_EQ(mock.sequences(), 100000);
  std::vector<std::int32_t> first;
  std::int64_t sum = 0;
  std::int64_t product = 0;
  for (std::int64_t i = 0; i < mock.sequences(); ++i) {
    if (i < 12) first.push_back(mock.length(i));
    sum += mock.length(i);
    product += i * mock.length(i);
  }
  EXPECT_THAT(first,
              ElementsAre(3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331, 2660, 3738));
  EXPECT_EQ(sum, 204637097);
  EXPECT_EQ(product, 10235325438683);
}

TEST(MockSequences, TokensAreARamp) {
  const MockSequences mock(50, 49);
  std::vector<std::int32_t> ids(6);
  mock.get(7, 0, ids);
  EXPECT_THAT(ids, ElementsAre(1, 2, 3, 4, 5, 6));
  mock.get(7, 46, ids);
  EXPECT_THAT(ids, ElementsAre(47, 48, 49, 0, 1, 2));
  mock.get(7, 62, ids);
  EXPECT_THAT(ids, ElementsAre(13, 14, 15, 16, 17, 49));  // 68 tokens
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [] { MockSequences(50, -1); }),
              HasSubstr("--mock-data"));
}

}  // namespace
}  // namespace phalanx
