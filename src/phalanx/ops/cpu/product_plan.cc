#include "phalanx/ops/cpu/product_plan.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/panel_packing.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

// The most groups in a block of depth. With longer blocks C is read and written less often; blocks
// of bf16 keep the length that their bits had from the beginning.
constexpr std::int64_t kDepthGroups = 1024, kPairedDepthGroups = 384;
std::int64_t most_depth_groups(const PanelKernel& kernel) {
  return kernel.group == 1 ? kDepthGroups : kPairedDepthGroups;
}
// Blocks are whole cache lines of floats and whole steps of every kernel.
constexpr std::int64_t kDepthStep = 16;
// The depth that is packed at once. With a longer depth, tiles add to C several times.
constexpr std::int64_t kSpanGroups = 3072;
constexpr std::int64_t kLongestSpanGroups = 4096;
// The most rows of a task that passes a packed block of the right operand. They stay in the last
// level's cache while other tasks pass them, too.
constexpr std::int64_t kPassingRows = 1024;
// The most rows of a task with a block of the left operand in the second-level cache, and the most
// columns if that block is not packed.
constexpr std::int64_t kRows = 64, kColumns = 384;
// The most memory for packed operands: for the left one, and per thread for the right one.
constexpr std::int64_t kLeftBytes = std::int64_t{32} << 20;
constexpr std::int64_t kRightBytes = std::int64_t{5} << 20;
// The most sums that are kept outside of C.
constexpr std::int64_t kSpanSums = std::int64_t{1} << 25;
// Columns that are further apart share sets of the first-level cache and touch many pages.
constexpr std::int64_t kNearBytes = 1024;
// With at most so many rows packing B takes long beside the product: if B has this many times as
// many lines as A and could stay, the operands are swapped so that A is packed.
constexpr std::int64_t kFewRows = 512, kSwapRatio = 2;
// If A has this many times as many lines as B and both are packed, tasks pack A.
constexpr std::int64_t kLargerRatio = 2;

// What the right operand's block takes of the second-level cache. Virtual machines report caches
// that are larger than a core's.
std::int64_t right_block_bytes(const Caches& caches) {
  constexpr std::int64_t kLargest = std::int64_t{2} << 20;
  return std::min(caches.second_level_bytes, kLargest) / 12 * 7;
}

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

bool is_near(const ProductShape::Operand& operand) {
  return operand.stride * size_of(operand.dtype) <= kNearBytes;
}

}  // namespace

std::int64_t depth_block_of(std::int64_t depth, const PanelKernel& kernel) {
  const std::int64_t groups = std::max<std::int64_t>(1, ceil_div(depth, kernel.group));
  const std::int64_t blocks = ceil_div(groups, most_depth_groups(kernel));
  return round_up(ceil_div(groups, blocks), kDepthStep) * kernel.group;
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
  if (shape.a.depth_inner && shape.b.depth_inner && shape.b.dtype == with.operand &&
      rows <= kFewRows && columns >= kSwapRatio * rows) {
    swapped = true;
    std::swap(rows, columns);
    std::swap(left_operand, right_operand);
  }
  depth_block = depth_block_of(depth, with);
  const std::int64_t longest =
      (depth <= kLongestSpanGroups * with.group ? kLongestSpanGroups : kSpanGroups) * with.group;
  depth_span = std::max<std::int64_t>(1, longest / depth_block) * depth_block;
  sums = shape.f32 && !swapped              ? Sums::kInC
         : depth_span < depth               ? Sums::kSpan
         : depth_block >= depth && !swapped ? Sums::kTile
                                            : Sums::kBlock;
  cut_columns();
  place_operands(left_operand, right_operand);
  if (left == Place::kTask && right == Place::kTeam && sums == Sums::kInC) {
    // All panels are packed at once if they can, so that tasks pack their rows once.
    const std::int64_t groups_at_once = kRightBytes * threads / (padded_columns() * kGroupBytes);
    depth_span = std::clamp<std::int64_t>(groups_at_once * with.group / depth_block, 1,
                                          depth_span / depth_block) *
                 depth_block;
  }
  choose_blocks(threads, largest_task(threads, caches));
  choose_spans(threads);
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
                                 const ProductShape::Operand& right_operand) {
  layout = left_operand.depth_inner || !kernel->left_columns ? Left::kRows : Left::kColumns;
  const bool left_is_kernels =
      left_operand.depth_inner
          ? depth % (kernel->group * kernel->depth_step) == 0 &&
                left_operand.stride % kernel->group == 0
          : kernel->left_columns && kernel->group == 1 && is_near(left_operand);
  const bool right_is_kernels = !right_operand.depth_inner && kernel->group == 1 &&
                                is_near(right_operand) && columns % kernel->width == 0;
  const bool left_in_place = left_operand.dtype == kernel->operand && left_is_kernels;
  const bool right_in_place = right_operand.dtype == kernel->operand && right_is_kernels;
  const bool left_is_larger = right_in_place || rows > kLargerRatio * columns;
  if (left_in_place) {
    left = Place::kAsItLies;
  } else if (!swapped && left_is_larger) {
    left = Place::kTask;
  }
  if (right_in_place) {
    right = Place::kAsItLies;
  } else if (!swapped && left != Place::kTask) {
    right = Place::kTask;
  }
  right_stays = right != Place::kTeam && left != Place::kTask;
}

std::int64_t ProductPlan::panel_bytes(std::int64_t of_groups) const {
  return wide * of_groups * kGroupBytes;
}

ProductPlan::Most ProductPlan::largest_task(int threads, const Caches& caches) const {
  const auto panels_in = [&](std::int64_t bytes, std::int64_t groups_of_panel) {
    return std::max<std::int64_t>(1, bytes / panel_bytes(groups_of_panel));
  };
  Most most{kRows, kColumns / wide};
  if (right_stays) {
    most = {kPassingRows, panels_in(right_block_bytes(caches), groups(depth_block))};
    if (sums == Sums::kSpan) most.rows = std::clamp(kSpanSums / padded_columns(), kRows, most.rows);
  } else if (left == Place::kTask) {
    // As many as are packed at once: the block is packed again for the others.
    most.panels =
        right == Place::kTeam ? panels_in(kRightBytes * threads, groups_of_span()) : panels();
  }
  return {std::min(most.rows / kernel->rows * kernel->rows, round_up(rows, kernel->rows)),
          std::min(most.panels, panels())};
}

// Chooses the blocks with the least work for the busiest thread, and larger blocks among equals.
void ProductPlan::choose_blocks(int threads, const Most& most) {
  // What a task takes beside its tiles, in tiles.
  constexpr double kOfSliver = 0.3, kOfPanel = 0.1, kOfPackedPanel = 2.0;
  // How much of a task a thread waits for the others at the end: tasks are not quite equal, nor are
  // cores.
  constexpr double kLastTask = 0.5;
  const double of_panel = right == Place::kTask ? kOfPackedPanel : kOfPanel;
  double least = 0.0;
  for (std::int64_t block = most.rows; block >= kernel->rows; block -= kernel->rows) {
    const std::int64_t whole_slivers = block / kernel->rows;
    const auto slivers = static_cast<double>(whole_slivers);
    for (std::int64_t cuts = ceil_div(panels(), most.panels); cuts <= panels();) {
      const std::int64_t width = ceil_div(panels(), cuts);
      const std::int64_t tasks = ceil_div(rows, block) * ceil_div(panels(), width);
      const double tasks_of_thread =
          static_cast<double>(ceil_div(tasks, threads)) + (threads > 1 ? kLastTask : 0.0);
      const double cost =
          tasks_of_thread * (slivers * static_cast<double>(width) + kOfSliver * slivers +
                             of_panel * static_cast<double>(width));
      if (least == 0.0 || cost < least * 0.99) {
        least = cost;
        row_block = block;
        panel_block = width;
      }
      // The fewest cuts that make it narrower.
      cuts = width > 1 ? ceil_div(panels(), width - 1) : panels() + 1;
    }
  }
}

// Operands that are packed at once stay in the outer caches.
void ProductPlan::choose_spans(int threads) {
  row_span = rows;
  const auto most_rows = [&](std::int64_t rows_in_memory) {
    return std::max<std::int64_t>(1, rows_in_memory / row_block) * row_block;
  };
  if (left == Place::kTeam) {
    row_span = std::min(rows, most_rows(kLeftBytes / kGroupBytes / groups_of_span()));
  }
  if (sums == Sums::kSpan) row_span = std::min(row_span, most_rows(kSpanSums / padded_columns()));
  panel_span = panels();
  if (right == Place::kTeam) {
    const std::int64_t blocks =
        kRightBytes * threads / (panel_block * panel_bytes(groups_of_span()));
    panel_span = std::min(panels(), std::max<std::int64_t>(1, blocks) * panel_block);
  }
}

std::int64_t ProductPlan::most_workspace_bytes(const ProductShape& most, const PanelKernel& with,
                                               int threads, const Caches& caches) {
  // Swapped operands exchange rows and columns.
  const std::int64_t lines = std::max(most.rows, most.columns) + with.columns();
  const std::int64_t depth_groups = ceil_div(most.depth, with.group);
  const std::int64_t block_groups =
      std::min(most_depth_groups(with), round_up(depth_groups, kDepthStep));
  const std::int64_t span_groups =
      round_up(std::min(kLongestSpanGroups, depth_groups + block_groups), with.depth_step);
  const auto packed = [&](std::int64_t of, std::int64_t groups) {
    return std::min(of, lines) * groups * kGroupBytes;
  };
  const auto buffer = [&](std::int64_t rows, std::int64_t columns) {
    return aligned((std::min(rows, lines) + kTransposedRows) *
                   (std::min(columns, lines) + kTransposedRows) * size_of(DType::kF32));
  };
  const std::int64_t left =
      std::min(packed(lines, span_groups), kLeftBytes) + packed(with.rows, span_groups);
  const std::int64_t right =
      std::min(packed(lines, span_groups),
               std::max(kRightBytes * threads, packed(kColumns + with.columns(), span_groups)));
  const std::int64_t span_rows = std::max(kRows + with.rows, kSpanSums / lines);
  const std::int64_t sums = depth_groups > kSpanGroups ? buffer(span_rows, lines) : 0;
  // Blocks of depth are balanced: where there are several, they have half of the most groups.
  const bool has_blocks = depth_groups > most_depth_groups(with);
  const std::int64_t passed_columns =
      right_block_bytes(caches) / kGroupBytes / (most_depth_groups(with) / 2) + with.columns();
  const std::int64_t of_thread =
      aligned(packed(kRows + with.rows, block_groups)) +
      aligned(std::min(packed(lines, block_groups),
                       std::max(right_block_bytes(caches), packed(with.columns(), block_groups)))) +
      aligned(with.rows * with.columns() * size_of(DType::kF32)) +
      2 * buffer(kRows + with.rows, kColumns + with.columns()) +
      (has_blocks ? buffer(kPassingRows + with.rows, passed_columns) : 0);
  return aligned(left) + aligned(right) + sums + threads * of_thread;
}

std::int64_t ProductPlan::groups_of_span() const {
  return groups(std::min(depth_span, round_up(depth, depth_block)));
}

void ProductPlan::count_memory() {
  if (left == Place::kTeam) {
    left_bytes = aligned(round_up(row_span, kernel->rows) * groups_of_span() * kGroupBytes);
  }
  const std::int64_t block_groups = groups(depth_block);
  if (left == Place::kTask) thread_left_bytes = aligned(row_block * block_groups * kGroupBytes);
  // The rows that fill no tile.
  if (left == Place::kAsItLies && rows % kernel->rows != 0) {
    thread_left_bytes = aligned(kernel->rows * block_groups * kGroupBytes);
  }
  if (right == Place::kTask) thread_right_bytes = aligned(panel_block * panel_bytes(block_groups));
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
