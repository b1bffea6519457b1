#pragma once
// Where tiles read the operands of a matrix product: as they lie, or packed by the team or by the
// task that reads them (product_plan.h). Packs them (panel_packing.h), and finds their parts.

#include <cstddef>
#include <cstdint>

#include "phalanx/ops/cpu/panel_kernel.h"
#include "phalanx/ops/cpu/panel_packing.h"
#include "phalanx/ops/cpu/product_plan.h"
#include "phalanx/ops/cpu/range.h"

namespace phalanx::cpu {

// A part of a product: a span that a team works on, or a task's block of one depth block.
struct ProductPart {
  Range depths, rows, panels;
};

class ProductOperands {
 public:
  // Some rows of the left operand, as many as a tile takes; the stride in groups.
  struct Sliver {
    const std::byte* data;
    std::int64_t stride;
  };

  // `memory`: the plan's left_bytes and right_bytes, which the team shares.
  ProductOperands(const ProductPlan& plan, const Lines& left, const Lines& right,
                  std::byte* memory);

  const Lines& left() const { return left_; }

  // What the team packs is of this part. One thread calls it before all threads go on.
  void set_span(const ProductPart& span) { span_ = span; }
  // Of one block of depth, into the team's memory.
  void pack_left_for_team(const Range& rows, const Range& depths) const;
  void pack_right_for_team(std::int64_t panel, const Range& depths) const;

  // Packs what a task packs itself. `own`: the plan's thread_left_bytes and thread_right_bytes.
  void pack_own(const ProductPart& part, std::byte* own) const;

  // The operands of a tile: of the rows from `row` on, and of a panel. pack_own() has filled `own`.
  Sliver left_of(const ProductPart& part, const std::byte* own, std::int64_t row) const;
  void point_at_right(const ProductPart& part, const std::byte* own, std::int64_t panel,
                      TileOperands& tile) const;

 private:
  void pack_left(const Range& rows, const Range& depths, std::byte* to) const;
  void pack_right(const Range& panels, const Range& depths, std::byte* to) const;

  // Where something is within the packed form of `whole`.
  std::int64_t left_offset(const ProductPart& whole, std::int64_t row, const Range& depths) const;
  std::int64_t right_offset(const ProductPart& whole, std::int64_t panel,
                            const Range& depths) const;
  std::int64_t whole_slivers_end(const Range& rows) const;
  std::int64_t packed_bytes(std::int64_t lines, std::int64_t depths) const {
    return lines * plan_.groups(depths) * kGroupBytes;
  }

  const ProductPlan& plan_;
  const PanelKernel& kernel_;
  Lines left_, right_;
  std::byte *team_left_, *team_right_;
  ProductPart span_;
};

}  // namespace phalanx::cpu
