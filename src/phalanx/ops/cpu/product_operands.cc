#include "phalanx/ops/cpu/product_operands.h"

#include <algorithm>

#include "phalanx/base/numeric.h"

namespace phalanx::cpu {

using Place = ProductPlan::Place;

ProductOperands::ProductOperands(const ProductPlan& plan, const Lines& left, const Lines& right,
                                 std::byte* memory)
    : plan_(plan),
      kernel_(*plan.kernel),
      left_(left),
      right_(right),
      team_left_(memory),
      team_right_(memory + plan.left_bytes) {}

void ProductOperands::pack_left(const Range& rows, const Range& depths, std::byte* to) const {
  const Packing packing{.from = left_.from(rows.begin, depths.begin),
                        .lines = rows.count(),
                        .depth = depths.count(),
                        .operand = kernel_.operand,
                        .groups = plan_.groups(depths.count()),
                        .to = to};
  if (plan_.layout == Left::kRows) {
    pack_lines(packing, round_up(rows.count(), kernel_.rows));
  } else {
    pack_panels(packing, kernel_.rows);
  }
}

void ProductOperands::pack_right(const Range& panels, const Range& depths, std::byte* to) const {
  const std::int64_t narrow_begin = std::clamp(plan_.wide_panels, panels.begin, panels.end);
  for (const Range& same : {Range{panels.begin, narrow_begin}, Range{narrow_begin, panels.end}}) {
    if (same.count() == 0) continue;
    const std::int64_t column = plan_.panel_begin(same.begin);
    const std::int64_t end = plan_.panel_begin(same.end);
    pack_panels({.from = right_.from(column, depths.begin),
                 .lines = std::min(end, plan_.columns) - column,
                 .depth = depths.count(),
                 .operand = kernel_.operand,
                 .groups = plan_.groups(depths.count()),
                 .to = to + packed_bytes(column - plan_.panel_begin(panels.begin), depths.count())},
                (end - column) / same.count());
  }
}

// [block of depth][row][groups], or [block of depth][sliver][groups][row].
std::int64_t ProductOperands::left_offset(const ProductPart& whole, std::int64_t row,
                                          const Range& depths) const {
  return packed_bytes(round_up(whole.rows.count(), kernel_.rows),
                      depths.begin - whole.depths.begin) +
         packed_bytes(row - whole.rows.begin, depths.count());
}

// [block of depth][panel][groups][column].
std::int64_t ProductOperands::right_offset(const ProductPart& whole, std::int64_t panel,
                                           const Range& depths) const {
  const std::int64_t first = plan_.panel_begin(whole.panels.begin);
  return packed_bytes(plan_.panel_begin(whole.panels.end) - first,
                      depths.begin - whole.depths.begin) +
         packed_bytes(plan_.panel_begin(panel) - first, depths.count());
}

// The rows after it fill no sliver.
std::int64_t ProductOperands::whole_slivers_end(const Range& rows) const {
  return rows.begin + rows.count() / kernel_.rows * kernel_.rows;
}

void ProductOperands::pack_left_for_team(const Range& rows, const Range& depths) const {
  pack_left(rows, depths, team_left_ + left_offset(span_, rows.begin, depths));
}

void ProductOperands::pack_right_for_team(std::int64_t panel, const Range& depths) const {
  pack_right({panel, panel + 1}, depths, team_right_ + right_offset(span_, panel, depths));
}

void ProductOperands::pack_own(const ProductPart& part, std::byte* own) const {
  if (plan_.left == Place::kTask) pack_left(part.rows, part.depths, own);
  const Range rest{whole_slivers_end(part.rows), part.rows.end};
  if (plan_.left == Place::kAsItLies && rest.count() > 0) pack_left(rest, part.depths, own);
  if (plan_.right == Place::kTask) {
    pack_right(part.panels, part.depths, own + plan_.thread_left_bytes);
  }
}

ProductOperands::Sliver ProductOperands::left_of(const ProductPart& part, const std::byte* own,
                                                 std::int64_t row) const {
  const std::int64_t packed_stride =
      plan_.layout == Left::kRows ? plan_.groups(part.depths.count()) : kernel_.rows;
  switch (plan_.left) {
    case Place::kAsItLies:
      if (row >= whole_slivers_end(part.rows)) return {own, packed_stride};
      return {left_.at(row, part.depths.begin),
              left_.depth_inner ? left_.stride / kernel_.group : left_.stride};
    case Place::kTask:
      return {own + left_offset(part, row, part.depths), packed_stride};
    case Place::kTeam:
      break;
  }
  return {team_left_ + left_offset(span_, row, part.depths), packed_stride};
}

void ProductOperands::point_at_right(const ProductPart& part, const std::byte* own,
                                     std::int64_t panel, TileOperands& tile) const {
  const std::int64_t column = plan_.panel_begin(panel);
  tile.right_stride = plan_.panel_begin(panel + 1) - column;
  switch (plan_.right) {
    case Place::kAsItLies:
      tile.right = right_.at(column, part.depths.begin);
      tile.right_stride = right_.stride;
      break;
    case Place::kTask:
      tile.right = own + plan_.thread_left_bytes + right_offset(part, panel, part.depths);
      break;
    case Place::kTeam:
      tile.right = team_right_ + right_offset(span_, panel, part.depths);
  }
}

}  // namespace phalanx::cpu
