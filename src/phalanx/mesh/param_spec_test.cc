#include "phalanx/mesh/param_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "phalanx/base/error.h"

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

constexpr Initialiser kNormal = {Initialiser::Kind::kNormal, 0.02};

void expect_equal(const ParamSpec& a, const ParamSpec& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.global_shape, b.global_shape);
  EXPECT_EQ(a.local_shape, b.local_shape);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.initialiser.kind, b.initialiser.kind);
  EXPECT_EQ(a.initialiser.value, b.initialiser.value);
  EXPECT_EQ(a.decays, b.decays);
  EXPECT_EQ(a.cut_over, b.cut_over);
  EXPECT_EQ(a.summed_over, b.summed_over);
  EXPECT_EQ(a.shared_by, b.shared_by);
  ASSERT_EQ(a.boxes.size(), b.boxes.size());
  for (std::size_t i = 0; i < a.boxes.size(); ++i) {
    EXPECT_EQ(a.boxes[i].global_row, b.boxes[i].global_row);
    EXPECT_EQ(a.boxes[i].global_column, b.boxes[i].global_column);
    EXPECT_EQ(a.boxes[i].local_row, b.boxes[i].local_row);
    EXPECT_EQ(a.boxes[i].local_column, b.boxes[i].local_column);
    EXPECT_EQ(a.boxes[i].rows, b.boxes[i].rows);
    EXPECT_EQ(a.boxes[i].columns, b.boxes[i].columns);
  }
}

TEST(ParamCut, OfOnePartIsTheWhole) {
  for (const Shape& shape : {Shape{6, 4}, Shape{6}, Shape{6, 2, 3}}) {
    for (const std::int64_t padded : {0, 6, 8}) {
      expect_equal(row_cut_parameter("w", shape, DType::kBF16, kNormal, 0, 1, padded),
                   whole_parameter("w", shape, DType::kBF16, kNormal, padded));
    }
  }
  const auto whole = whole_parameter("w", {6, 4}, DType::kBF16, kNormal);
  expect_equal(column_cut_parameter("w", {6, 4}, DType::kBF16, kNormal, 0, 1), whole);
  EXPECT_FALSE(whole.cut_over.has(Axis::kTensor));
  ASSERT_EQ(whole.boxes.size(), 1U);
  EXPECT_EQ(whole.boxes[0].rows, 6);
  EXPECT_EQ(whole.boxes[0].columns, 4);
}

TEST(ParamCut, RowsOfAMatrixAndElementsOfAVector) {
  const auto matrix = row_cut_parameter("w", {8, 3}, DType::kBF16, kNormal, 1, 4);
  EXPECT_EQ(matrix.global_shape, (Shape{8, 3}));
  EXPECT_EQ(matrix.local_shape, (Shape{2, 3}));
  EXPECT_TRUE(matrix.cut_over.has(Axis::kTensor));
  EXPECT_TRUE(matrix.decays);
  EXPECT_EQ(matrix.boxes.at(0).global_row, 2);
  EXPECT_EQ(matrix.boxes.at(0).global_column, 0);

  const auto vector = row_cut_parameter("b", {8}, DType::kBF16, {}, 1, 4);
  EXPECT_EQ(vector.local_shape, (Shape{2}));
  EXPECT_TRUE(vector.cut_over.has(Axis::kTensor));
  EXPECT_FALSE(vector.decays);
  EXPECT_EQ(vector.boxes.at(0).global_row, 0);
  EXPECT_EQ(vector.boxes.at(0).global_column, 2);
}

// 50,257 words padded to 50,688 in four parts of 12,672: the last one has 431 rows of padding.
TEST(ParamCut, PaddedVocabulary) {
  const std::int64_t padded = padded_vocabulary(50257, 128, 4);
  for (int rank = 0; rank < 4; ++rank) {
    const auto spec = row_cut_parameter("w", {50257, 2}, DType::kF32, kNormal, rank, 4, padded);
    EXPECT_EQ(spec.local_shape, (Shape{12672, 2}));
    EXPECT_EQ(spec.boxes.at(0).rows, rank < 3 ? 12672 : 12241);
    EXPECT_EQ(spec.boxes.at(0).local_row, 0);
  }
  // Padding alone.
  const auto spec = row_cut_parameter("w", {5, 2}, DType::kF32, kNormal, 3, 4, 8);
  EXPECT_EQ(spec.local_shape, (Shape{2, 2}));
  EXPECT_TRUE(spec.boxes.empty());
  EXPECT_EQ(true_count(spec), 0);
}

// A fused [gate; up] of 6 rows each: part 1 of 3 has rows 2, 3 and 8, 9.
TEST(ParamCut, RowRangesLieOneBehindTheOther) {
  const std::vector<RowRange> ranges = {{2, 2}, {8, 2}};
  const auto matrix = row_ranges_parameter("w", {12, 5}, DType::kBF16, kNormal, ranges, 3);
  EXPECT_EQ(matrix.local_shape, (Shape{4, 5}));
  EXPECT_TRUE(matrix.cut_over.has(Axis::kTensor));
  EXPECT_TRUE(matrix.decays);
  ASSERT_EQ(matrix.boxes.size(), 2U);
  EXPECT_EQ(matrix.boxes[1].global_row, 8);
  EXPECT_EQ(matrix.boxes[1].local_row, 2);
  EXPECT_EQ(matrix.boxes[1].rows, 2);
  EXPECT_EQ(matrix.boxes[1].columns, 5);

  const auto vector = row_ranges_parameter("b", {12}, DType::kBF16, {}, ranges, 3);
  EXPECT_EQ(vector.local_shape, (Shape{4}));
  EXPECT_FALSE(vector.decays);
  ASSERT_EQ(vector.boxes.size(), 2U);
  EXPECT_EQ(vector.boxes[1].global_column, 8);
  EXPECT_EQ(vector.boxes[1].local_column, 2);
  EXPECT_EQ(vector.boxes[1].rows, 1);
  EXPECT_EQ(vector.boxes[1].columns, 2);
}

TEST(ParamCut, NeighbouringRowRangesAreOneBox) {
  for (const Shape& shape : {Shape{12, 5}, Shape{12}}) {
    expect_equal(row_ranges_parameter("w", shape, DType::kF32, kNormal, {{0, 6}, {6, 6}}, 1),
                 whole_parameter("w", shape, DType::kF32, kNormal));
  }
}

// Of ranges that are neighbours but not of the same holders each is a box.
TEST(ParamCut, RowsThatOtherRanksHaveTooAreABoxAtTheEnd) {
  const std::vector<RowRange> ranges = {{.first = 2, .count = 4},
                                        {.first = 6, .count = 3, .holders = 2, .holder = 1}};
  for (const Shape& shape : {Shape{9, 5}, Shape{9}}) {
    const std::int64_t columns = shape.rank() == 2 ? 5 : 1;
    const auto spec = row_ranges_parameter("w", shape, DType::kF32, kNormal, ranges, 2);
    EXPECT_EQ(spec.local_shape[0], 7);
    ASSERT_EQ(spec.boxes.size(), 2U);
    EXPECT_EQ(spec.boxes[0].holders, 1);
    EXPECT_EQ(spec.boxes[1].holders, 2);
    EXPECT_EQ(spec.boxes[1].holder, 1);
    EXPECT_EQ(most_holders(spec), 2);
    EXPECT_EQ(true_count(spec), 7 * columns);
    EXPECT_EQ(common_count(spec), 3 * columns);
    EXPECT_EQ(counted_count(spec), 4 * columns);
    ParamSpec first = spec;
    first.boxes[1].holder = 0;
    EXPECT_EQ(common_count(first), 3 * columns);
    EXPECT_EQ(counted_count(first), 7 * columns);
  }
  const auto alone = whole_parameter("w", {9, 5}, DType::kF32, kNormal, 12);
  EXPECT_EQ(most_holders(alone), 1);
  EXPECT_EQ(common_count(alone), 0);
  EXPECT_EQ(counted_count(alone), 60);
  // In front of what this rank has alone.
  const auto wrong = row_ranges_parameter("w", {9, 5}, DType::kF32, kNormal,
                                          {{.first = 0, .count = 2, .holders = 2}, {4, 2}}, 2);
  EXPECT_THROW(common_count(wrong), InternalError);
}

// The boxes of all parts lie in their local tensors and have every global element once.
void expect_partition(const std::function<ParamSpec(int)>& part, int size) {
  const Shape shape = part(0).global_shape;
  const std::int64_t columns = matrix_columns(shape);
  std::vector<int> seen(static_cast<std::size_t>(shape.count()));
  for (int rank = 0; rank < size; ++rank) {
    const ParamSpec spec = part(rank);
    std::vector<int> local(static_cast<std::size_t>(spec.local_shape.count()));
    for (const ParamBox& box : spec.boxes) {
      ASSERT_GT(box.rows * box.columns, 0);
      ASSERT_LE(box.local_row + box.rows, matrix_rows(spec.local_shape));
      ASSERT_LE(box.local_column + box.columns, matrix_columns(spec.local_shape));
      for (std::int64_t i = 0; i < box.rows; ++i) {
        for (std::int64_t j = 0; j < box.columns; ++j) {
          ++seen.at(
              static_cast<std::size_t>((box.global_row + i) * columns + box.global_column + j));
          ++local.at(static_cast<std::size_t>(
              (box.local_row + i) * matrix_columns(spec.local_shape) + box.local_column + j));
        }
      }
    }
    EXPECT_TRUE(std::all_of(local.begin(), local.end(), [](int n) { return n <= 1; }));
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }))
      << shape.to_string() << " in " << size;
}

TEST(ParamCut, PartsAreDisjointAndCoverTheTensor) {
  for (const int size : {1, 2, 3, 4, 8}) {
    for (std::int64_t rows = 1; rows <= 24; ++rows) {
      const std::int64_t padded = padded_vocabulary(rows, 2, size);
      for (const Shape& shape : {Shape{rows}, Shape{rows, 5}, Shape{rows, 2, 3}}) {
        expect_partition(
            [&](int rank) {
              return row_cut_parameter("w", shape, DType::kF32, kNormal, rank, size, padded);
            },
            size);
      }
      if (rows % size != 0) continue;
      for (const Shape& shape : {Shape{rows}, Shape{rows, 5}}) {
        expect_partition(
            [&](int rank) {
              return row_cut_parameter("w", shape, DType::kF32, kNormal, rank, size);
            },
            size);
      }
      expect_partition(
          [&](int rank) {
            return column_cut_parameter("w", {5, rows}, DType::kF32, kNormal, rank, size);
          },
          size);
    }
  }
}

TEST(ParamCut, RefusesWhatCannotBeCut) {
  const auto rows = [](Shape shape, int rank, int size, std::int64_t padded = 0) {
    return row_cut_parameter("w", shape, DType::kF32, {}, rank, size, padded);
  };
  EXPECT_THROW(rows({7, 2}, 0, 2), InternalError);
  EXPECT_THROW(rows({7, 2}, 0, 2, 9), InternalError);
  EXPECT_THROW(rows({8, 2}, 0, 2, 6), InternalError);
  EXPECT_THROW(rows({8, 2}, 2, 2), InternalError);
  EXPECT_THROW(rows({8, 2}, -1, 2), InternalError);
  EXPECT_THROW(rows({8, 2}, 0, 0), InternalError);
  EXPECT_THROW(rows({}, 0, 1), InternalError);
  const auto columns = [](Shape shape, int size) {
    return column_cut_parameter("w", shape, DType::kF32, {}, 0, size);
  };
  EXPECT_THROW(columns({2, 7}, 2), InternalError);
  EXPECT_THROW(columns({8}, 2), InternalError);
  EXPECT_THROW(columns({2, 8, 2}, 2), InternalError);
}

}  // namespace
}  // namespace phalanx
