#include "phalanx/mesh/box_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int64_t> numbers_of(const ParamBox& box) {
  return {box.global_row,   box.global_column, box.local_row,
          box.local_column, box.rows,          box.columns};
}

TEST(BoxRange, IsTheRestOfARowWholeRowsAndTheBeginningOfOne) {
  // Columns 3, 4 and 5 of six; the local part is [4, 3].
  const ParamSpec spec = column_cut_parameter("w", {4, 6}, DType::kF32, {}, 1, 2);
  const auto boxes = boxes_of_range(spec, 2, 8);
  ASSERT_EQ(boxes.size(), 3U);
  EXPECT_THAT(numbers_of(boxes[0]), ElementsAre(0, 5, 0, 2, 1, 1));
  EXPECT_THAT(numbers_of(boxes[1]), ElementsAre(1, 3, 1, 0, 2, 3));
  EXPECT_THAT(numbers_of(boxes[2]), ElementsAre(3, 3, 3, 0, 1, 1));
  const auto whole_rows = boxes_of_range(spec, 3, 6);
  ASSERT_EQ(whole_rows.size(), 1U);
  EXPECT_THAT(numbers_of(whole_rows[0]), ElementsAre(1, 3, 1, 0, 2, 3));
  const auto amid = boxes_of_range(spec, 4, 1);
  ASSERT_EQ(amid.size(), 1U);
  EXPECT_THAT(numbers_of(amid[0]), ElementsAre(1, 4, 1, 1, 1, 1));
  EXPECT_THAT(boxes_of_range(spec, 5, 0), IsEmpty());
  EXPECT_THAT(boxes_of_range(whole_parameter("w", {0, 3}, DType::kF32, {}), 0, 0), IsEmpty());
  EXPECT_THROW(boxes_of_range(spec, 5, 8), InternalError);
  EXPECT_THROW(boxes_of_range(spec, -1, 2), InternalError);
}

TEST(BoxRange, OfPaddingHasNoBoxes) {
  // Rows 4 to 7 of 8, of which 6 exist.
  const ParamSpec spec = row_cut_parameter("w", {6, 2}, DType::kF32, {}, 1, 2, 8);
  EXPECT_THAT(boxes_of_range(spec, 4, 4), IsEmpty());
  const auto boxes = boxes_of_range(spec, 3, 3);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_THAT(numbers_of(boxes[0]), ElementsAre(5, 1, 1, 1, 1, 1));
}

// However a local part is cut, every element that exists is in one box, where it belongs.
TEST(BoxRange, OfEveryCutHaveTheElementsOfTheWhole) {
  for (const ParamSpec& spec :
       {whole_parameter("w", {5, 7}, DType::kF32, {}), whole_parameter("w", {23}, DType::kF32, {}),
        row_cut_parameter("w", {6, 4}, DType::kF32, {}, 1, 2, 8),
        column_cut_parameter("w", {5, 8}, DType::kF32, {}, 1, 2)}) {
    const std::int64_t columns = matrix_columns(spec.local_shape);
    const std::int64_t global_columns = matrix_columns(spec.global_shape);
    const auto places = [&](const std::vector<ParamBox>& boxes) {
      std::vector<std::int64_t> global(static_cast<std::size_t>(spec.local_shape.count()), -1);
      for (const ParamBox& box : boxes) {
        for (std::int64_t r = 0; r < box.rows; ++r) {
          for (std::int64_t c = 0; c < box.columns; ++c) {
            auto& place = global.at(
                static_cast<std::size_t>((box.local_row + r) * columns + box.local_column + c));
            EXPECT_EQ(place, -1);
            place = (box.global_row + r) * global_columns + box.global_column + c;
          }
        }
      }
      return global;
    };
    const std::vector<std::int64_t> whole = places(spec.boxes);
    for (std::int64_t step = 1; step <= spec.local_shape.count(); ++step) {
      std::vector<ParamBox> boxes;
      for (std::int64_t begin = 0; begin < spec.local_shape.count(); begin += step) {
        const std::int64_t count = std::min(step, spec.local_shape.count() - begin);
        const auto part = boxes_of_range(spec, begin, count);
        EXPECT_LE(part.size(), 3 * spec.boxes.size());
        boxes.insert(boxes.end(), part.begin(), part.end());
      }
      EXPECT_EQ(places(boxes), whole) << "in ranges of " << step;
    }
  }
}

}  // namespace
}  // namespace phalanx
