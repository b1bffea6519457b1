#include "phalanx/ops/cpu/product_plan.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/panel_packing.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

// Groups in a block of depth: with 384 columns, 576 KiB of the second-level cache.
constexpr std::int64_t kDepthGroups = 384;
// The depth that is packed at once. With a longer depth, tiles add to C several times.
constexpr std::int64_t kSpanGroups = 3072;
constexpr std::int64_t kLongestSpanGroups = 4096;
constexpr std::int64_t kColumnBlock = 384;
// The most rows of a block.
constexpr std::int64_t kManyRows = 256;
// The most memory for packed operands: for the left one, and per thread for the right one.
constexpr std::int64_t kLeftBytes = std::int64_t{32} << 20;
constexpr std::int64_t kRightBytes = std::int64_t{5} << 20;
// The most sums that are kept outside of C.
constexpr std::int64_t kSpanSums = std::int64_t{1} << 25;
// Rows that are further apart share sets of the first-level cache and touch many pages.
constexpr std::int64_t kNearBytes = 1024;
// With fewer columns, packing the left operand costs more than it saves.
constexpr std::int64_t kFewColumns = 256;
// If B has this many times as many lines as A, the operands are swapped so that A is packed.
constexpr std::int64_t kSwapRatio = 8;

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

// A block of C and the right operand's block of depth stay in the second-level cache. With many
// blocks of depth, the right operand is read from memory again for every block of rows.
std::int64_t row_block_of(const PanelKernel& kernel, std::int64_t depth_blocks,
                          const Caches& caches) {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kFewDepthBlocks = 3, kRoomBytes = std::int64_t{3} << 19;
  const bool many = depth_blocks > kFewDepthBlocks && caches.second_level_bytes >= kRoomBytes;
  return (many ? kManyRows : kRows) / kernel.rows * kernel.rows;
}

// Whether tiles may read the left operand unpacked. Rows at large strides share sets of the
// first-level cache, and a tile's rows must not fill the ways of a set.
bool may_stay(const ProductShape::Operand& left, const PanelKernel& kernel, const Caches& caches,
              std::int64_t columns) {
  if (left.stride * size_of(left.dtype) <= kNearBytes) return true;
  return left.depth_inner &&
         (columns <= kFewColumns || caches.first_level_ways >= kernel.rows + kernel.rows / 2);
}

}  // namespace

std::int64_t depth_block_of(std::int64_t depth, const PanelKernel& kernel) {
  // Whole cache lines of floats and whole steps of every kernel.
  constexpr std::int64_t kGroups = 16;
  const std::int64_t groups = std::max<std::int64_t>(1, ceil_div(depth, kernel.group));
  const std::int64_t blocks = ceil_div(groups, kDepthGroups);
  return round_up(ceil_div(groups, blocks), kGroups) * kernel.group;
}

std::int64_t ProductPlan::groups(std::int64_t elements) const {
  return round_up(ceil_div(elements, kernel->group), kernel->depth_step);
}

std::int64_t ProductPlan::panel_begin(std::int64_t panel) const {
  const std::int64_t before = std::min(panel, wide_panels);
  return before * wide + (panel - before) * narrow;
}

std::int64_t ProductPlan::block_columns() const {
  constexpr std::int64_t kTransposedColumns = 4;  // at a time
  return round_up(std::min(panel_block * wide, padded_columns()), kTransposedColumns);
}

ProductPlan::ProductPlan(const ProductShape& shape, const PanelKernel& with, int threads,
                         const Caches& caches)
    : rows(shape.rows), columns(shape.columns), depth(shape.depth), kernel(&with) {
  PHALANX_CHECK(rows > 0 && columns > 0 && depth > 0, "a plan for a product of {} x {} over {}",
                rows, columns, depth);
  ProductShape::Operand left_operand = shape.a;
  ProductShape::Operand right_operand = shape.b;
  if (shape.a.depth_inner && shape.b.depth_inner && rows <= kFewColumns &&
      columns >= kSwapRatio * rows) {
    swapped = true;
    std::swap(rows, columns);
    std::swap(left_operand, right_operand);
  }
  depth_block = depth_block_of(depth, with);
  cut_columns();
  row_block = row_block_of(with, ceil_div(depth, depth_block), caches);
  panel_block = kColumnBlock / wide;
  place_operands(left_operand, right_operand, caches);
  choose_blocks(threads);
  choose_spans(shape.plain, threads);
  count_memory();
}

// Uses as many full panels as possible without a remainder of one vector, which is slow.
void ProductPlan::cut_columns() {
  const std::int64_t vectors = ceil_div(columns, kernel->width);
  wide = kernel->columns();
  wide_panels = vectors / kernel->widths;
  if (std::int64_t rest = vectors % kernel->widths; rest > 0) {
    if (rest == 1 && kernel->widths > 2 && wide_panels > 0) {
      --wide_panels;
      rest += kernel->widths;
    }
    narrow_panels = rest > kernel->widths ? 2 : 1;
    narrow = static_cast<int>(rest / narrow_panels) * kernel->width;
  }
}

void ProductPlan::place_operands(const ProductShape::Operand& left_operand,
                                 const ProductShape::Operand& right_operand, const Caches& caches) {
  const bool fits_left = left_operand.dtype == kernel->operand && rows % kernel->rows == 0;
  layout = left_operand.depth_inner || !kernel->left_columns ? Left::kRows : Left::kColumns;
  const bool left_is_kernels = left_operand.depth_inner
                                   ? depth % (kernel->group * kernel->depth_step) == 0 &&
                                         left_operand.stride % kernel->group == 0
                                   : kernel->left_columns && kernel->group == 1;
  if (fits_left && left_is_kernels && may_stay(left_operand, *kernel, caches, columns)) {
    left = Place::kAsItLies;
  } else if (left_operand.depth_inner && panels() <= panel_block) {
    left = Place::kTask;
  }
  if (!right_operand.depth_inner && right_operand.dtype == kernel->operand && kernel->group == 1 &&
      right_operand.stride * size_of(right_operand.dtype) <= kNearBytes &&
      columns % kernel->width == 0) {
    right = Place::kAsItLies;
  }
}

// Chooses the blocks with the least work for the busiest thread, and larger blocks among equals.
void ProductPlan::choose_blocks(int threads) {
  const std::int64_t most_rows = std::min(row_block, round_up(rows, kernel->rows));
  const std::int64_t most_panels = panel_block;
  double least = 0.0;
  for (std::int64_t block = most_rows; block >= kernel->rows; block -= kernel->rows) {
    for (std::int64_t width = most_panels; width >= 1; width /= 2) {
      const std::int64_t tasks = ceil_div(rows, block) * ceil_div(panels(), width);
      // The overhead of a task beside its tiles, in tiles.
      constexpr double kRowOverhead = 0.3, kPanelOverhead = 0.1;
      const std::int64_t slivers = block / kernel->rows;
      const double tiles = static_cast<double>(slivers * width);
      const double cost = static_cast<double>(ceil_div(tasks, threads)) *
                          (tiles + kRowOverhead * static_cast<double>(slivers) +
                           kPanelOverhead * static_cast<double>(width));
      if (least == 0.0 || cost < least * 0.99) {
        least = cost;
        row_block = block;
        panel_block = width;
      }
    }
  }
}

// Operands that are packed at once stay in the outer caches.
void ProductPlan::choose_spans(bool plain, int threads) {
  const std::int64_t longest =
      (depth <= kLongestSpanGroups * kernel->group ? kLongestSpanGroups : kSpanGroups) *
      kernel->group;
  depth_span = std::max<std::int64_t>(1, longest / depth_block) * depth_block;
  row_span = rows;
  if (left == Place::kTeam) {
    row_span = std::min(
        rows, std::max<std::int64_t>(1, kLeftBytes / kGroupBytes / groups_of_span() / row_block) *
                  row_block);
  }
  sums = plain && !swapped                  ? Sums::kInC
         : depth_span < depth               ? Sums::kSpan
         : depth_block >= depth && !swapped ? Sums::kTile
                                            : Sums::kBlock;
  if (sums == Sums::kSpan) {
    row_span = std::min(
        row_span, std::max<std::int64_t>(1, kSpanSums / padded_columns() / row_block) * row_block);
  }
  panel_span = panels();
  if (right == Place::kTeam) {
    const std::int64_t block_bytes = panel_block * wide * groups_of_span() * kGroupBytes;
    panel_span = std::min(
        panels(), std::max<std::int64_t>(1, kRightBytes * threads / block_bytes) * panel_block);
  }
}

std::int64_t ProductPlan::most_workspace_bytes(const ProductShape& most, const PanelKernel& with,
                                               int threads) {
  // Swapped operands exchange rows and columns.
  const std::int64_t lines = std::max(most.rows, most.columns) + with.columns();
  const std::int64_t depth_groups = ceil_div(most.depth, with.group);
  const std::int64_t block_groups = std::min(kDepthGroups, round_up(depth_groups, 16));
  const std::int64_t span_groups =
      round_up(std::min(kLongestSpanGroups, depth_groups + kDepthGroups), with.depth_step);
  const std::int64_t rows_of_block = std::min(kManyRows, lines);
  const std::int64_t columns_of_block = std::min(kColumnBlock, lines) + with.columns();
  const auto packed = [](std::int64_t of, std::int64_t groups) {
    return of * groups * kGroupBytes;
  };
  const std::int64_t all = packed(lines, span_groups);
  const std::int64_t f32 = size_of(DType::kF32);
  const std::int64_t block_sums =
      (rows_of_block + with.rows + kTransposedRows) * (columns_of_block + kTransposedRows) * f32;
  const std::int64_t left =
      std::min(all, std::max(kLeftBytes, packed(rows_of_block, span_groups))) +
      packed(with.rows, span_groups);
  const std::int64_t right =
      std::min(all, std::max(kRightBytes * threads, packed(columns_of_block, span_groups)));
  const bool has_spans = depth_groups > kSpanGroups;
  const std::int64_t sums =
      has_spans ? (std::min((most.rows + with.columns()) * (most.columns + with.columns()),
                            std::max(kSpanSums, rows_of_block * lines)) +
                   (with.rows + kTransposedRows) * lines) *
                      f32
                : 0;
  const std::int64_t of_thread = aligned(packed(rows_of_block + with.rows, block_groups)) +
                                 aligned(with.rows * with.columns() * f32) +
                                 2 * aligned(block_sums);
  return aligned(left) + aligned(right) + aligned(sums) + threads * of_thread;
}

std::int64_t ProductPlan::groups_of_span() const {
  return groups(std::min(depth_span, round_up(depth, depth_block)));
}

void ProductPlan::count_memory() {
  if (left == Place::kTeam) {
    left_bytes = aligned(round_up(row_span, kernel->rows) * groups_of_span() * kGroupBytes);
  }
  if (left == Place::kTask) {
    thread_left_bytes = aligned(row_block * groups(depth_block) * kGroupBytes);
  }
  if (right == Place::kTeam) {
    right_bytes =
        aligned(std::min(panel_span * wide, padded_columns()) * groups_of_span() * kGroupBytes);
  }
  const std::int64_t f32 = size_of(DType::kF32);
  if (sums == Sums::kSpan) {
    span_sums_bytes =
        aligned((round_up(row_span, kernel->rows) + kTransposedRows) * padded_columns() * f32);
  }
  // Border tiles use their own buffer.
  thread_sums_bytes = aligned(kernel->rows * wide * f32);
  if (sums == Sums::kBlock) {
    thread_sums_bytes += aligned(round_up(row_block, kTransposedRows) * block_columns() * f32);
  }
  if (swapped) {
    thread_transposed_bytes = aligned(round_up(row_block, kTransposedRows) * block_columns() * f32);
  }
}

}  // namespace phalanx::cpu
