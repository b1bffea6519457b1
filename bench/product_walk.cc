#include "product_walk.h"

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/panel_kernel.h"
#include "phalanx/ops/cpu/product_operands.h"
#include "phalanx/ops/cpu/product_order.h"
#include "phalanx/ops/cpu/product_plan.h"

namespace phalanx::bench {
namespace {

using cpu::MatrixProduct;
using cpu::ProductPart;
using cpu::ProductPlan;
using cpu::Range;
using Place = ProductPlan::Place;

ProductPlan plan_of(const cpu::CpuDevice& device, const MatrixProduct& product) {
  const auto& kernel = cpu::panel_kernel(cpu::ProductPrecision::kFp32, device.processor.target);
  return {cpu::shape_of(product), kernel, 1, device.processor.caches};
}

cpu::Lines lines_of(const cpu::Matrix& matrix, bool depth_inner) {
  return {matrix.data, matrix.dtype, matrix.stride, depth_inner};
}

class Walk {
 public:
  Walk(const MatrixProduct& product, const ProductPlan& plan, const LeftOut& left_out,
       std::byte* workspace)
      : p_(product),
        plan_(plan),
        kernel_(*plan.kernel),
        left_out_(left_out),
        operands_(plan, lines_of(product.a, !product.a.transposed),
                  lines_of(product.b, product.b.transposed), workspace),
        own_(workspace + plan.left_bytes + plan.right_bytes),
        border_(reinterpret_cast<float*>(own_ + plan.thread_left_bytes + plan.thread_right_bytes)) {
    PHALANX_CHECK(plan.depth_block <= kMostDepth && kernel_.columns() <= kMostColumns &&
                      kernel_.rows * kMostColumns <= kMostTile,
                  "tiles of {} x {} over {} are larger than a walk's buffers", kernel_.rows,
                  kernel_.columns(), plan.depth_block);
    near_left_.fill(0.5F);
    near_right_.fill(0.25F);
  }

  void run() {
    for_each_span(plan_, [&](const ProductPart& span) {
      operands_.set_span(span);
      pack_for_team(span);
      for (std::int64_t task = 0; task < product_tasks(plan_, span); ++task) do_task(span, task);
    });
  }

 private:
  // Of the first-level cache: a line of a block of depth, a row of a tile, tiles.
  static constexpr std::int64_t kMostDepth = 2048, kMostColumns = 64, kMostTile = 8 * kMostColumns;

  void pack_for_team(const ProductPart& span) const {
    const auto for_depths = [&](const auto& pack) {
      for (std::int64_t block = 0; block < depth_blocks(plan_, span); ++block) {
        pack(piece(block, plan_.depth_block, span.depths));
      }
    };
    constexpr std::int64_t kPackedRows = 64;  // at a time
    const std::int64_t step = kPackedRows / kernel_.rows * kernel_.rows;
    if (plan_.left == Place::kTeam && span.panels.begin == 0 && !left_out_.left_packing) {
      for (std::int64_t i = 0; i * step < span.rows.count(); ++i) {
        const Range rows = piece(i, step, span.rows);
        for_depths([&](const Range& depths) { operands_.pack_left_for_team(rows, depths); });
      }
    }
    if (plan_.right == Place::kTeam && !left_out_.right_packing) {
      for (std::int64_t panel = span.panels.begin; panel < span.panels.end; ++panel) {
        for_depths([&](const Range& depths) { operands_.pack_right_for_team(panel, depths); });
      }
    }
  }

  void do_task(const ProductPart& span, std::int64_t task) {
    // A task packs one operand, and of a left one that is read as it lies the last rows at most.
    const bool packs = !(plan_.left == Place::kTask && left_out_.left_packing) &&
                       !(plan_.right == Place::kTask && left_out_.right_packing);
    for (std::int64_t block = 0; block < depth_blocks(plan_, span); ++block) {
      const ProductPart part = part_of_task(plan_, span, task, block);
      if (packs) operands_.pack_own(part, own_);
      const bool finishes =
          part.depths.end == p_.k && !p_.epilogue.is_plain() && !left_out_.finishing;
      for_each_tile(
          plan_, part,
          [&](std::int64_t panel, std::int64_t row, std::int64_t next_row) {
            do_tile(part, panel, row, next_row);
          },
          [&](const Range& rows) {
            if (finishes) finish_rows(rows, part.panels);
          });
    }
  }

  void do_tile(const ProductPart& part, std::int64_t panel, std::int64_t row,
               std::int64_t next_row) {
    const std::int64_t column = plan_.panel_begin(panel);
    const std::int64_t width = plan_.panel_begin(panel + 1) - column;
    cpu::FinishedSums at{.row = row,
                         .column = column,
                         .rows = std::min<std::int64_t>(kernel_.rows, part.rows.end - row),
                         .columns = std::min(width, plan_.columns - column)};
    cpu::TileOperands tile{.depth = plan_.groups(part.depths.count())};
    point_at_operands(part, panel, row, next_row, tile);
    const bool is_whole = at.rows == kernel_.rows && at.columns == width;
    tile.add = (p_.epilogue.accumulate || part.depths.begin > 0) && !left_out_.c;
    if (left_out_.c) {
      tile.sums = near_sums_.data();
      tile.sums_stride = kMostColumns;
    } else if (is_whole) {
      tile.sums = in_c(row, column);
      tile.sums_stride = p_.epilogue.c.stride;
    } else {
      tile.sums = border_;
      tile.sums_stride = width;
      if (tile.add) copy_border(at, width);
    }
    kernel_.run(plan_.layout, static_cast<int>(width) / kernel_.width, tile);
    at.sums = tile.sums;
    at.stride = tile.sums_stride;
    if (at.sums == border_) finish({.c = p_.epilogue.c}, at);
  }

  void point_at_operands(const ProductPart& part, std::int64_t panel, std::int64_t row,
                         std::int64_t next_row, cpu::TileOperands& tile) const {
    if (left_out_.operands) {
      tile.left = tile.next_left = reinterpret_cast<const std::byte*>(near_left_.data());
      tile.right = reinterpret_cast<const std::byte*>(near_right_.data());
      return;
    }
    const cpu::ProductOperands::Sliver left = operands_.left_of(part, own_, row);
    tile.left = left.data;
    tile.left_stride = left.stride;
    tile.next_left = operands_.left_of(part, own_, next_row).data;
    operands_.point_at_right(part, own_, panel, tile);
  }

  void finish_rows(const Range& rows, const Range& panels) {
    if (left_out_.c) return finish_near(rows, panels);
    const std::int64_t column = plan_.panel_begin(panels.begin);
    const std::int64_t end = std::min(plan_.panel_begin(panels.end), plan_.columns);
    finish(p_.epilogue, {.row = rows.begin,
                         .column = column,
                         .rows = rows.count(),
                         .columns = end - column,
                         .sums = in_c(rows.begin, column),
                         .stride = p_.epilogue.c.stride});
  }

  // Tile by tile, from and to buffers.
  void finish_near(const Range& rows, const Range& panels) {
    cpu::Epilogue epilogue = p_.epilogue;
    epilogue.c = {.data = reinterpret_cast<std::byte*>(near_c_.data()), .stride = kMostColumns};
    for (std::int64_t row = rows.begin; row < rows.end; row += kernel_.rows) {
      for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
        const std::int64_t column = plan_.panel_begin(panel);
        const std::int64_t end = std::min(plan_.panel_begin(panel + 1), plan_.columns);
        if (epilogue.has_bias) {
          epilogue.bias = p_.epilogue.bias + column * size_of(epilogue.bias_dtype);
        }
        finish(epilogue, {.rows = std::min<std::int64_t>(kernel_.rows, rows.end - row),
                          .columns = end - column,
                          .sums = near_sums_.data(),
                          .stride = kMostColumns});
      }
    }
  }

  void copy_border(const cpu::FinishedSums& at, std::int64_t width) const {
    std::fill_n(border_, kernel_.rows * width, 0.0F);
    for (std::int64_t r = 0; r < at.rows; ++r) {
      std::copy_n(in_c(at.row + r, at.column), at.columns, border_ + r * width);
    }
  }

  float* in_c(std::int64_t row, std::int64_t column) const {
    return reinterpret_cast<float*>(p_.epilogue.c.data) + row * p_.epilogue.c.stride + column;
  }

  const MatrixProduct& p_;
  const ProductPlan& plan_;
  const cpu::PanelKernel& kernel_;
  LeftOut left_out_;
  cpu::ProductOperands operands_;
  std::byte* own_;
  float* border_;  // a tile that is not whole
  alignas(64) std::array<float, kMostDepth> near_left_;
  alignas(64) std::array<float, kMostColumns> near_right_;
  alignas(64) std::array<float, kMostTile> near_sums_, near_c_;
};

}  // namespace

ProductParts parts_of(const cpu::CpuDevice& device, const MatrixProduct& product) {
  const ProductPlan plan = plan_of(device, product);
  return {.left_packing = plan.left != Place::kAsItLies,
          .right_packing = plan.right != Place::kAsItLies,
          .finishing = !product.epilogue.is_plain()};
}

std::int64_t walk_workspace_bytes(const cpu::CpuDevice& device, const MatrixProduct& product) {
  return plan_of(device, product).workspace_bytes(1);
}

void walk(const cpu::CpuDevice& device, const MatrixProduct& product, const LeftOut& left_out,
          std::byte* workspace) {
  const ProductPlan plan = plan_of(device, product);
  PHALANX_CHECK(plan.sums == ProductPlan::Sums::kInC && !product.sums_rows,
                "a walk of a product whose sums are not in C alone");
  const cpu::FlushToZero mode;
  Walk(product, plan, left_out, workspace).run();
}

}  // namespace phalanx::bench
