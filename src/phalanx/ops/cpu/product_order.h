#pragma once
// The order of a product's spans, tasks and tiles (product_plan.h says what they are).

#include <algorithm>
#include <cstdint>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/product_operands.h"
#include "phalanx/ops/cpu/product_plan.h"
#include "phalanx/ops/cpu/range.h"

namespace phalanx::cpu {

// visit(span).
template <typename Visit>
void for_each_span(const ProductPlan& plan, const Visit& visit) {
  for (std::int64_t d = 0; d < ceil_div(plan.depth, plan.depth_span); ++d) {
    for (std::int64_t r = 0; r < ceil_div(plan.rows, plan.row_span); ++r) {
      for (std::int64_t c = 0; c < ceil_div(plan.panels(), plan.panel_span); ++c) {
        visit(ProductPart{.depths = piece(d, plan.depth_span, {0, plan.depth}),
                          .rows = piece(r, plan.row_span, {0, plan.rows}),
                          .panels = piece(c, plan.panel_span, {0, plan.panels()})});
      }
    }
  }
}

// Blocks of depth in a span.
inline std::int64_t depth_blocks(const ProductPlan& plan, const ProductPart& span) {
  return ceil_div(span.depths.count(), plan.depth_block);
}
inline std::int64_t panel_blocks(const ProductPlan& plan, const ProductPart& span) {
  return ceil_div(span.panels.count(), plan.panel_block);
}
inline std::int64_t product_tasks(const ProductPlan& plan, const ProductPart& span) {
  return ceil_div(span.rows.count(), plan.row_block) * panel_blocks(plan, span);
}

// A task's part over one block of depth. Tasks of the same rows follow each other.
inline ProductPart part_of_task(const ProductPlan& plan, const ProductPart& span, std::int64_t task,
                                std::int64_t depth_block) {
  const std::int64_t blocks = panel_blocks(plan, span);
  return {.depths = piece(depth_block, plan.depth_block, span.depths),
          .rows = piece(task / blocks, plan.row_block, span.rows),
          .panels = piece(task % blocks, plan.panel_block, span.panels)};
}

// visit(panel, row, row of the tile after this one), and done(rows) after the last tile of some
// rows.
template <typename Visit, typename Done>
void for_each_tile(const ProductPlan& plan, const ProductPart& part, const Visit& visit,
                   const Done& done) {
  const Range rows = part.rows, panels = part.panels;
  const std::int64_t step = plan.kernel->rows;
  const auto row_after = [&](std::int64_t row) {
    return row + step < rows.end ? row + step : rows.begin;
  };
  if (plan.right_stays) {
    for (std::int64_t row = rows.begin; row < rows.end; row += step) {
      for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
        visit(panel, row, panel + 1 < panels.end ? row : row_after(row));
      }
      done(Range{row, std::min(row + step, rows.end)});
    }
  } else {
    for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
      for (std::int64_t row = rows.begin; row < rows.end; row += step) {
        visit(panel, row, row_after(row));
      }
    }
    done(rows);
  }
}

}  // namespace phalanx::cpu
