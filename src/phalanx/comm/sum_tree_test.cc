#include "phalanx/comm/sum_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/comm/reduce.h"
#include "phalanx/comm/sum_test_support.h"

namespace phalanx {
namespace {

using transports::rounded;
using transports::tree_sums;
using transports::values_of;

// The order of additions, spelled out.
std::string spelled(const SumTree& tree, int level, int node) {
  if (level == 0) return std::to_string(node);
  std::string text = "(";
  for (int i = 0; i < tree.terms(level, node); ++i) {
    text += (i == 0 ? "" : "+") + spelled(tree, level - 1, tree.first(node) + i);
  }
  return text + ")";
}
std::string spelled(int values, int block) {
  const SumTree tree(values, block);
  return spelled(tree, tree.levels(), 0);
}

TEST(SumTreeTest, AddsBlocksAndThenBlocksOfBlocks) {
  EXPECT_EQ(spelled(1, 8), "0");
  EXPECT_EQ(spelled(8, 8), "(0+1+2+3+4+5+6+7)");
  EXPECT_EQ(spelled(8, 3), "((0+1+2)+(3+4+5)+(6+7))");
  EXPECT_EQ(spelled(5, 2), "(((0+1)+(2+3))+((4)))");
  EXPECT_EQ(spelled(10, 3), "(((0+1+2)+(3+4+5)+(6+7+8))+((9)))");
  EXPECT_EQ(SumTree(65536, 2).levels(), 16);
  EXPECT_EQ(SumTree(65536, 8).levels(), 6);
  EXPECT_EQ(SumTree(4, 2147483647).levels(), 1);
  EXPECT_EQ(SumTree(64, 8).nodes(1), 8);
}

TEST(SumTreeTest, NeedsValuesAndBlocksOfTwo) {
  EXPECT_THROW(SumTree(0, 8), InternalError);
  EXPECT_THROW(SumTree(4, 1), InternalError);
}

// Values of one type in memory, a row for each rank.
template <typename T>
struct Rows {
  explicit Rows(const std::vector<std::vector<double>>& values) {
    for (const auto& row : values) {
      std::vector<T>& stored = rows.emplace_back();
      for (const double value : row) {
        if constexpr (std::is_same_v<T, bfloat16>) {
          stored.push_back(to_bfloat16(static_cast<float>(value)));
        } else if constexpr (std::is_same_v<T, float16>) {
          stored.push_back(to_float16(static_cast<float>(value)));
        } else {
          stored.push_back(static_cast<T>(value));
        }
      }
    }
    for (const auto& row : rows) {
      sources.push_back(reinterpret_cast<const std::byte*>(row.data()));
    }
  }
  std::vector<std::vector<T>> rows;
  std::vector<const std::byte*> sources;
};

template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return static_cast<double>(to_float(value));
  } else {
    return static_cast<double>(value);
  }
}

template <typename To>
std::vector<double> reduced(const Terms& terms, const std::vector<const std::byte*>& sources,
                            std::size_t count) {
  std::vector<To> sum(count);
  std::byte* const destination = reinterpret_cast<std::byte*>(sum.data());
  reduce(terms, sources, std::span(&destination, 1), 0, static_cast<std::int64_t>(count));
  std::vector<double> values;
  for (const To value : sum) values.push_back(as_double(value));
  return values;
}

std::vector<std::vector<double>> inputs_of(int ranks, DType dtype, std::int64_t count) {
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(values_of(rank, dtype, count));
  return inputs;
}

template <typename T>
void expect_the_tree(int ranks, int block) {
  constexpr DType kType = kDTypeOf<T>;
  const auto inputs = inputs_of(ranks, kType, 20);
  const Rows<T> rows(inputs);
  EXPECT_EQ(reduced<T>({.from = kType, .to = kType, .block = block}, rows.sources, 20),
            tree_sums(inputs, block, kType))
      << name_of(kType) << ", " << ranks << " ranks in blocks of " << block;
}

TEST(ReduceTest, AddsInTheTree) {
  for (const int block : {2, 3, 8, 100}) {
    for (int ranks = 1; ranks <= 70; ++ranks) expect_the_tree<float>(ranks, block);
    for (const int ranks : {9, 33, 64}) {
      expect_the_tree<double>(ranks, block);
      expect_the_tree<bfloat16>(ranks, block);
      expect_the_tree<float16>(ranks, block);
      expect_the_tree<std::int64_t>(ranks, block);
      expect_the_tree<std::int32_t>(ranks, block);
      expect_the_tree<std::uint8_t>(ranks, block);
    }
  }
}

// More elements than are added at a time, by several threads, and where a source is.
TEST(ReduceTest, CutsElementsAnywhere) {
  constexpr std::int64_t kCount = 35001;
  const auto inputs = inputs_of(11, DType::kF32, kCount);
  const auto expected = tree_sums(inputs, 4, DType::kF32);
  for (const int threads : {1, 3}) {
    Rows<float> rows(inputs);
    reduce_by_team(threads, {.block = 4}, rows.sources,
                   reinterpret_cast<std::byte*>(rows.rows[5].data()), kCount);
    EXPECT_EQ(std::vector<double>(rows.rows[5].begin(), rows.rows[5].end()), expected);
  }
}

// The sum of a block in fp32, added elsewhere with others, is what the whole tree has there.
TEST(ReduceTest, BlocksCanBeAddedApart) {
  constexpr int kRanks = 19, kBlock = 4;
  const auto inputs = inputs_of(kRanks, DType::kBF16, 100);
  const Rows<bfloat16> rows(inputs);
  std::vector<std::vector<float>> sums;
  std::vector<const std::byte*> blocks;
  for (int first = 0; first < kRanks; first += kBlock) {
    sums.emplace_back(100);
  }
  for (std::size_t block = 0; block < sums.size(); ++block) {
    const std::size_t first = block * kBlock;
    std::byte* const sum = reinterpret_cast<std::byte*>(sums[block].data());
    reduce({.from = DType::kBF16, .to = DType::kF32, .block = kBlock},
           std::span(rows.sources).subspan(first, std::min<std::size_t>(kBlock, kRanks - first)),
           std::span(&sum, 1), 0, 100);
    blocks.push_back(sum);
  }
  EXPECT_EQ(
      reduced<bfloat16>({.from = DType::kF32, .to = DType::kBF16, .block = kBlock}, blocks, 100),
      tree_sums(inputs, kBlock, DType::kBF16));
}

TEST(ReduceTest, OnlySumsOfTheSameDataAreCombined) {
  const float value = 1;
  const auto* const source = reinterpret_cast<const std::byte*>(&value);
  EXPECT_THROW(reduced<double>({.from = DType::kF32, .to = DType::kF64}, {source}, 1),
               InternalError);
}

// Against sums in double, over many elements and seeds: a value goes through fewer additions.
TEST(ReduceTest, ErrsNoMoreThanFromLeftToRight) {
  constexpr int kRanks = 96;
  constexpr std::int64_t kCount = 1000;
  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(seed == 3 ? 1.0F : 0.0F, 1.0F);
    std::vector<std::vector<double>> inputs(kRanks);
    for (auto& input : inputs) {
      for (std::int64_t i = 0; i < kCount; ++i) {
        input.push_back(static_cast<double>(normal(random)));
      }
    }
    const Rows<float> rows(inputs);
    const auto rms_error = [&](int block) {
      const auto sums = reduced<float>({.block = block}, rows.sources, kCount);
      double squares = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        double exact = 0;
        for (const auto& input : inputs) exact += input[i];
        squares += (sums[i] - exact) * (sums[i] - exact);
      }
      return std::sqrt(squares / kCount);
    };
    const double left_to_right = rms_error(kRanks);
    EXPECT_GT(left_to_right, 0);
    for (const int block : {2, 4, 8}) EXPECT_LT(rms_error(block), 0.8 * left_to_right) << block;
  }
}

}  // namespace
}  // namespace phalanx
