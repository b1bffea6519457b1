#include <fmt/core.h>
#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/nn/self_attention.h"

namespace phalanx::nn {
namespace {

TransformerConfig config_of(std::int64_t heads, std::int64_t groups, int rank, int size) {
  TransformerConfig config;
  config.heads = heads;
  config.query_groups = groups;
  config.head_size = 2;
  config.tensor = {.rank = rank, .size = size};
  return config;
}

// 8 heads of 2 in 2 groups: rows 0 to 7 are the queries of the first, 8 to 11 its key and value; 12
// to 19 and 20 to 23 those of the second.
TEST(QkvRows, AreWholeGroupsOrThePartOfOne) {
  using Rows = std::vector<RowRange>;
  EXPECT_EQ(qkv_rows(config_of(8, 2, 0, 1)), (Rows{{0, 24}}));
  EXPECT_EQ(qkv_rows(config_of(8, 2, 1, 2)), (Rows{{12, 12}}));
  EXPECT_EQ(qkv_rows(config_of(8, 2, 0, 4)), (Rows{{0, 4}, {8, 4, 2, 0}}));
  EXPECT_EQ(qkv_rows(config_of(8, 2, 1, 4)), (Rows{{4, 4}, {8, 4, 2, 1}}));
  EXPECT_EQ(qkv_rows(config_of(8, 2, 2, 4)), (Rows{{12, 4}, {20, 4, 2, 0}}));
  EXPECT_EQ(qkv_rows(config_of(8, 2, 7, 8)), (Rows{{18, 2}, {20, 4, 4, 3}}));
  EXPECT_EQ(qkv_rows(config_of(8, 1, 1, 2)), (Rows{{8, 8}, {16, 4, 2, 1}}));
}

// Every row is on as many ranks as it has holders, once for each holder's number.
TEST(QkvRows, AreOnAllTheirHolders) {
  for (const std::int64_t heads : {8, 24}) {
    for (const std::int64_t groups : {1, 2, 4, 8}) {
      for (const int size : {1, 2, 4, 8}) {
        SCOPED_TRACE(fmt::format("{} heads in {} groups on {} ranks", heads, groups, size));
        std::vector<std::vector<int>> holders(static_cast<std::size_t>((heads + 2 * groups) * 2));
        std::vector<int> expected(holders.size(), 0);
        for (int rank = 0; rank < size; ++rank) {
          const TransformerConfig config = config_of(heads, groups, rank, size);
          std::int64_t rows = 0;
          for (const RowRange& range : qkv_rows(config)) {
            rows += range.count;
            for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
              holders.at(static_cast<std::size_t>(row)).push_back(range.holder);
              expected.at(static_cast<std::size_t>(row)) = range.holders;
            }
          }
          EXPECT_EQ(rows, config.local_qkv_width());
        }
        for (std::size_t row = 0; row < holders.size(); ++row) {
          std::vector<int> numbers(static_cast<std::size_t>(expected[row]));
          for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
          EXPECT_EQ(holders[row], numbers) << "row " << row;
        }
      }
    }
  }
}

TEST(QkvRows, RefuseWhatCannotBeCut) {
  EXPECT_THROW(qkv_rows(config_of(12, 3, 0, 2)), InternalError);
  EXPECT_THROW(qkv_rows(config_of(6, 1, 0, 4)), InternalError);
}

}  // namespace
}  // namespace phalanx::nn
