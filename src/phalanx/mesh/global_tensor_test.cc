#include "phalanx/mesh/global_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx {
namespace {

using namespace testing_support;
using testing::ElementsAre;

std::vector<float> global_values(const GlobalTensor& tensor) {
  std::string bytes;
  visit_global_bytes(tensor, [&](std::span<const std::byte> piece) {
    EXPECT_LE(piece.size(), std::size_t{1} << 20);
    bytes += as_text(piece);
  });
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(GlobalTensor, PaddingIsLeftOut) {
  Arena arena("test", 1 << 12);
  const auto spec = whole_parameter("w", {3, 2}, DType::kF32, {}, 4);
  const auto tensor = global_tensor(spec, filled(arena, {4, 2}, 0), "optimizer.exp_avg.");
  EXPECT_EQ(tensor.name, "optimizer.exp_avg.w");
  check_boxes(tensor, Coverage::kWhole);
  EXPECT_THAT(global_values(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  // A state may be a range of a flat buffer.
  EXPECT_THAT(global_values(global_tensor(spec, filled(arena, {8}, 10))),
              ElementsAre(10, 11, 12, 13, 14, 15));
  EXPECT_THROW(global_tensor(spec, filled(arena, {9}, 0)), InternalError);
}

TEST(GlobalTensor, BoxesPermuteRowsAndColumns) {
  Arena arena("test", 1 << 12);
  GlobalTensor rows{.name = "rows",
                    .global_shape = {3, 2},
                    .local = filled(arena, {4, 2}, 0),
                    .boxes = {{.global_row = 2, .local_row = 0, .rows = 1, .columns = 2},
                              {.global_row = 0, .local_row = 2, .rows = 2, .columns = 2}}};
  EXPECT_THAT(global_values(rows), ElementsAre(4, 5, 6, 7, 0, 1));
  // Columns 1 and 2 of the local rows are columns 0 and 1 of the global ones.
  GlobalTensor columns{.name = "columns",
                       .global_shape = {2, 3},
                       .local = filled(arena, {2, 3}, 0),
                       .boxes = {{.local_column = 1, .rows = 2, .columns = 2},
                                 {.global_column = 2, .rows = 2, .columns = 1}}};
  check_boxes(columns, Coverage::kWhole);
  EXPECT_THAT(global_values(columns), ElementsAre(1, 2, 0, 4, 5, 3));
  // A narrow tensor at the left of a wide local one.
  GlobalTensor narrow{.name = "narrow",
                      .global_shape = {2, 2},
                      .local = filled(arena, {2, 3}, 0),
                      .boxes = {{.rows = 2, .columns = 2}}};
  check_boxes(narrow, Coverage::kWhole);
  EXPECT_THAT(global_values(narrow), ElementsAre(0, 1, 3, 4));
  GlobalTensor vector{.name = "vector",
                      .global_shape = {3},
                      .local = filled(arena, {3}, 0),
                      .boxes = {{.global_column = 1, .rows = 1, .columns = 2},
                                {.local_column = 2, .rows = 1, .columns = 1}}};
  check_boxes(vector, Coverage::kWhole);
  EXPECT_THAT(global_values(vector), ElementsAre(2, 0, 1));
}

// Long and short runs, so that pieces come from the tensor and from the scratch buffer in turn.
TEST(GlobalTensor, LargeTensorsComeInPieces) {
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kColumns = 1000;
  Arena arena("test", 4 * kRows * kColumns + 4096);
  const Tensor local = filled(arena, {kRows, kColumns}, 0);
  const GlobalTensor tensor{
      .name = "w",
      .global_shape = {kRows, kColumns},
      .local = local,
      // The first 600 rows as a whole, the rest cut in two at column 999.
      .boxes = {{.rows = 600, .columns = kColumns},
                {.global_row = 600, .local_row = 600, .rows = 100, .columns = 999},
                {.global_row = 600,
                 .global_column = 999,
                 .local_row = 600,
                 .local_column = 999,
                 .rows = 100,
                 .columns = 1}}};
  check_boxes(tensor, Coverage::kWhole);
  const auto values = global_values(tensor);
  const auto expected = local.span<float>();
  ASSERT_EQ(values.size(), expected.size());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), expected.begin()));
}

TEST(GlobalTensor, FillLeavesTheRestAlone) {
  Arena arena("test", 1 << 12);
  const std::vector<float> global = {0, 1, 2, 3, 4, 5};
  GlobalTensor tensor{.name = "w",
                      .global_shape = {2, 3},
                      .local = filled(arena, {3, 3}, 100),
                      .boxes = {{.global_column = 1, .local_row = 1, .rows = 2, .columns = 2}}};
  check_boxes(tensor, Coverage::kPartial);
  fill_from_box(tensor, whole_box(tensor.global_shape), DType::kF32,
                std::as_bytes(std::span(global)));
  EXPECT_THAT(tensor.local.span<float>(), ElementsAre(100, 101, 102, 1, 2, 105, 4, 5, 108));
  EXPECT_THROW(check_boxes(tensor, Coverage::kWhole), InternalError);
}

TEST(GlobalTensor, FillConverts) {
  Arena arena("test", 1 << 12);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> global = {1.0F, 1.00390625F, -65504.0F, nan};  // 1 + 2^-8: half way
  const auto bytes = std::as_bytes(std::span(global));
  const auto bf16 = whole_tensor("w", arena.allocate(DType::kBF16, {4}));
  fill_from_box(bf16, whole_box(bf16.global_shape), DType::kF32, bytes);
  EXPECT_EQ(bf16.local.span<bfloat16>()[0].bits, 0x3f80);
  EXPECT_EQ(bf16.local.span<bfloat16>()[1].bits, 0x3f80);  // to even
  EXPECT_TRUE(std::isnan(to_float(bf16.local.span<bfloat16>()[3])));
  const auto f16 = whole_tensor("w", arena.allocate(DType::kF16, {4}));
  fill_from_box(f16, whole_box(f16.global_shape), DType::kF32, bytes);
  EXPECT_EQ(f16.local.span<float16>()[2].bits, 0xfbff);
  const auto f64 = whole_tensor("w", arena.allocate(DType::kF64, {4}));
  fill_from_box(f64, whole_box(f64.global_shape), DType::kF32, bytes);
  EXPECT_EQ(f64.local.span<double>()[1], 1.00390625);
  const auto back = whole_tensor("w", arena.allocate(DType::kF32, {4}));
  fill_from_box(back, whole_box(back.global_shape), DType::kF16,
                std::as_bytes(std::span<const float16>(f16.local.span<float16>())));
  EXPECT_EQ(back.local.span<float>()[2], -65504.0F);
  const auto integers = whole_tensor("w", arena.allocate(DType::kI32, {4}));
  EXPECT_THROW(fill_from_box(integers, whole_box(integers.global_shape), DType::kF32, bytes),
               InternalError);
}

TEST(GlobalTensor, WrongBoxesAreFound) {
  Arena arena("test", 1 << 12);
  GlobalTensor tensor = whole_tensor("w", filled(arena, {2, 2}, 0));
  const auto with = [&](std::vector<ParamBox> boxes) {
    tensor.boxes = std::move(boxes);
    return tensor;
  };
  const ParamBox top{.rows = 1, .columns = 2};
  const ParamBox bottom{.global_row = 1, .local_row = 1, .rows = 1, .columns = 2};
  EXPECT_NO_THROW(check_boxes(with({bottom, top}), Coverage::kWhole));
  EXPECT_THROW(check_boxes(with({top}), Coverage::kWhole), InternalError);
  EXPECT_NO_THROW(check_boxes(with({top}), Coverage::kPartial));
  EXPECT_THROW(check_boxes(with({top, top}), Coverage::kWhole), InternalError);
  EXPECT_THROW(check_boxes(with({{.global_row = 1, .rows = 2, .columns = 2}}), Coverage::kPartial),
               InternalError);
  EXPECT_THROW(
      check_boxes(with({{.local_column = 1, .rows = 1, .columns = 2}}), Coverage::kPartial),
      InternalError);
  EXPECT_THROW(check_boxes(with({{.global_row = -1, .rows = 1, .columns = 2}}), Coverage::kPartial),
               InternalError);
}

TEST(GlobalTensor, EmptyTensors) {
  Arena arena("test", 1 << 12);
  const auto tensor = whole_tensor("w", arena.allocate(DType::kF32, {0, 3}));
  check_boxes(tensor, Coverage::kWhole);
  EXPECT_TRUE(global_values(tensor).empty());
  fill_from_box(tensor, whole_box(tensor.global_shape), DType::kF32, {});
}

}  // namespace
}  // namespace phalanx
