#include "phalanx/hugging_face/tensor_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

// A vector's rows are its elements.
Shape shape_of(std::int64_t rows, std::int64_t columns) {
  return columns > 0 ? Shape{rows, columns} : Shape{rows};
}

}  // namespace

TensorRow plain(std::string ours, std::string theirs, Shape shape) {
  const std::int64_t rows = shape[0];
  return {.name = std::move(ours),
          .shape = shape,
          .parts = {{.name = std::move(theirs), .shape = shape, .blocks = {{.rows = rows}}}}};
}

TensorRow transposed(std::string ours, std::string theirs, Shape shape) {
  return {.name = std::move(ours),
          .shape = shape,
          .parts = {{.name = std::move(theirs),
                     .shape = {shape[1], shape[0]},
                     .transposed = true,
                     .blocks = {{.rows = shape[0]}}}}};
}

TensorRow stacked(std::string ours, std::span<const StackedPart> parts, std::int64_t columns) {
  TensorRow row{.name = std::move(ours), .shape = {}, .parts = {}};
  std::int64_t rows = 0;
  for (const StackedPart& part : parts) {
    row.parts.push_back({.name = part.name,
                         .shape = shape_of(part.rows, columns),
                         .blocks = {{.theirs = 0, .ours = rows, .rows = part.rows}}});
    rows += part.rows;
  }
  row.shape = shape_of(rows, columns);
  return row;
}

TensorRow grouped(std::string ours, std::span<const GroupedPart> parts, std::int64_t groups,
                  std::int64_t columns) {
  TensorRow row{.name = std::move(ours), .shape = {}, .parts = {}};
  std::int64_t of_group = 0;
  for (const GroupedPart& part : parts) of_group += part.rows;
  std::int64_t begin = 0;
  for (const GroupedPart& part : parts) {
    TensorPart made{.name = part.name,
                    .shape = shape_of(part.rows * groups, columns),
                    .transposed = false,
                    .blocks = {}};
    for (std::int64_t group = 0; group < groups; ++group) {
      made.blocks.push_back(
          {.theirs = group * part.rows, .ours = group * of_group + begin, .rows = part.rows});
    }
    row.parts.push_back(std::move(made));
    begin += part.rows;
  }
  row.shape = shape_of(of_group * groups, columns);
  return row;
}

std::vector<RowBlock> regrouped(std::int64_t kinds, std::int64_t groups, std::int64_t rows) {
  std::vector<RowBlock> blocks;
  for (std::int64_t kind = 0; kind < kinds; ++kind) {
    for (std::int64_t group = 0; group < groups; ++group) {
      blocks.push_back({.theirs = (kind * groups + group) * rows,
                        .ours = (group * kinds + kind) * rows,
                        .rows = rows});
    }
  }
  return blocks;
}

void check_table(const TensorTable& table) {
  std::set<std::string> ours;
  std::set<std::string> theirs;
  for (const TensorRow& row : table.rows) {
    PHALANX_CHECK(ours.insert(row.name).second, "{} comes twice", row.name);
    std::vector<RowBlock> of_ours;
    for (const TensorPart& part : row.parts) {
      PHALANX_CHECK(theirs.insert(part.name).second, "{} comes twice", part.name);
      PHALANX_CHECK(part.shape.rank() == row.shape.rank(), "{}: not of the rank of {}", part.name,
                    row.name);
      PHALANX_CHECK(!part.transposed || part.shape.rank() == 2, "{}: no matrix", part.name);
      const std::int64_t columns = part.shape.rank() == 1 ? 1 : part.shape[part.transposed ? 0 : 1];
      PHALANX_CHECK(row.shape.rank() == 1 || columns == row.shape[1], "{}: {} columns for {}",
                    part.name, columns, row.name);
      auto blocks = part.blocks;
      of_ours.insert(of_ours.end(), blocks.begin(), blocks.end());
      std::ranges::sort(blocks, {}, &RowBlock::theirs);
      std::int64_t next = 0;
      for (const RowBlock& block : blocks) {
        PHALANX_CHECK(block.theirs == next && block.rows > 0,
                      "{}: row {} is in no block, or in two", part.name, next);
        next += block.rows;
      }
      PHALANX_CHECK(next == part.shape[part.transposed ? 1 : 0], "{}: blocks end at row {}",
                    part.name, next);
    }
    std::ranges::sort(of_ours, {}, &RowBlock::ours);
    std::int64_t next = 0;
    for (const RowBlock& block : of_ours) {
      PHALANX_CHECK(block.ours == next, "{}: row {} is in no block, or in two", row.name, next);
      next += block.rows;
    }
    PHALANX_CHECK(next == row.shape[0], "{}: blocks end at row {}", row.name, next);
  }
}

}  // namespace phalanx::hugging_face
