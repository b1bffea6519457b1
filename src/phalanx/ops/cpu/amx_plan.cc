#include "phalanx/ops/cpu/amx_plan.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_packing.h"
#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// The part of the second-level cache that a set of panels may fill.
constexpr std::int64_t kRightBytes = 3 * kMiB / 4;
// The most that a task packs of the left operand: it stays in that cache if it meets one set.
constexpr std::int64_t kLeftBytes = kMiB / 2, kPassingLeftBytes = 2 * kMiB;
// The most that is packed of the right operand where the left one is packed, too.
constexpr std::int64_t kPassingBytes = 16 * kMiB;
// Above this, C is fetched before it is added to.
constexpr std::int64_t kNearBytes = kMiB;
// The most rows of a task that does not pack them.
constexpr std::int64_t kMostRows = 2048;
// The most sums between blocks of depth.
constexpr std::int64_t kSumsBytes = 64 * kMiB;
// The depth of a block.
constexpr std::int64_t kShort = 512, kLong = 1024;
// Rows that are a multiple of this apart share sets of the first-level cache.
constexpr std::int64_t kFarBytes = 4096;
// If B has this many times as many columns as A has rows, and these are few, the operands are
// swapped: B is read as it lies, and A is packed.
constexpr std::int64_t kSwapRatio = 8, kFewRows = 256;

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kArenaAlignment); }

std::int64_t steps_of(std::int64_t depth) { return ceil_div(depth, kStepDepth); }

}  // namespace

std::int64_t AmxPlan::strips() const { return ceil_div(rows, kTileSide); }
std::int64_t AmxPlan::panels() const { return ceil_div(columns, kTileSide); }
std::int64_t AmxPlan::depth_blocks() const { return ceil_div(depth, depth_block); }

AmxPlan::AmxPlan(const ProductShape& shape, int threads)
    : rows(shape.rows), columns(shape.columns), depth(shape.depth) {
  PHALANX_CHECK(rows > 0 && columns > 0 && depth > 0, "a plan for a product of {} x {} over {}",
                rows, columns, depth);
  swapped = shape.a.depth_inner && shape.b.depth_inner && rows <= kFewRows &&
            columns >= kSwapRatio * rows;
  if (swapped) std::swap(rows, columns);
  packs_left = !shape.a.depth_inner;
  const std::int64_t stride = (swapped ? shape.b : shape.a).stride * size_of(DType::kBF16);
  copies_rows = !packs_left && stride % kFarBytes == 0;
  in_c = shape.plain && !swapped;
  fetches_c = in_c && shape.rows * shape.columns * size_of(DType::kF32) > kNearBytes;
  choose_depth_block(shape);
  choose_blocks(threads);
  choose_spans(threads);
  count_memory();
}

std::int64_t AmxPlan::most_workspace_bytes(const ProductShape& most, int threads) {
  const bool packs_left = !most.a.depth_inner;
  const bool can_swap = most.a.depth_inner && most.b.depth_inner;
  const auto tiles = [](std::int64_t lines) { return ceil_div(lines, kTileSide) + 1; };
  // Swapped operands exchange rows and columns.
  const std::int64_t strips = tiles(can_swap ? std::max(most.rows, most.columns) : most.rows);
  const std::int64_t panels = tiles(can_swap ? std::max(most.rows, most.columns) : most.columns);
  const std::int64_t strip_bytes =
      packed_panel_bytes(std::min(kLong / kStepDepth, steps_of(most.depth)));
  // A task that does not pack rows has a set of panels at most.
  const std::int64_t most_panels =
      packs_left ? panels : std::min(panels, 3 + kRightBytes / packed_panel_bytes(1));
  const std::int64_t right =
      packs_left ? panels * strip_bytes
                 : std::min(panels * strip_bytes,
                            threads * (std::max(kRightBytes, 2 * strip_bytes) + strip_bytes));
  std::int64_t sums = 0;
  if (!(most.plain && !can_swap) && steps_of(most.depth) * kStepDepth > kShort) {
    const std::int64_t block_tiles = std::min(strips, kMostRows / kTileSide) * most_panels;
    sums = std::min(tiles(most.rows) * tiles(most.columns) * kTileSums * size_of(DType::kF32),
                    std::max(kSumsBytes, block_tiles * kTileSums * size_of(DType::kF32)));
  }
  const std::int64_t left = packs_left ? std::max(strip_bytes, kPassingLeftBytes) : strip_bytes;
  return aligned(right) + aligned(sums) +
         threads * (aligned(kTileBufferBytes) + aligned(left) +
                    aligned(most_panels * kTileSide * size_of(DType::kF32)));
}

void AmxPlan::choose_depth_block(const ProductShape& shape) {
  constexpr std::int64_t kLongFrom = 3072, kLargeC = 32 * kMiB;
  const std::int64_t whole = steps_of(depth) * kStepDepth;
  if (packs_left) {
    const std::int64_t elements = std::max(shape.whole_elements, shape.rows * shape.columns);
    const bool is_large = elements * size_of(DType::kF32) > kLargeC;
    depth_block = std::min(whole, is_large ? kLong : kShort);
  } else {
    depth_block = whole <= kLong ? whole : depth < kLongFrom ? kShort : kLong;
  }
}

// Chooses the blocks with the least work for the busiest thread, and larger blocks among equals.
void AmxPlan::choose_blocks(int threads) {
  const std::int64_t strip_bytes = packed_panel_bytes(depth_block / kStepDepth);
  // Even, so that directions alternate from the last tile of a strip to the first of the next.
  panel_set = std::max<std::int64_t>(2, kRightBytes / strip_bytes / 2 * 2);
  const std::int64_t left_bytes = panels() <= panel_set ? kLeftBytes : kPassingLeftBytes;
  const std::int64_t most_strips =
      packs_left ? std::max<std::int64_t>(1, left_bytes / strip_bytes) : kMostRows / kTileSide;
  const std::int64_t most_panels = packs_left ? panels() : panel_set;
  double least = 0.0;
  const auto consider = [&](std::int64_t block_strips, std::int64_t block_panels) {
    // The overhead of a task beside its tiles, in tiles.
    const double strip_overhead = packs_left ? 1.0 : 0.3;
    constexpr double kPanelOverhead = 0.5;
    const std::int64_t tasks = ceil_div(strips(), block_strips) * ceil_div(panels(), block_panels);
    const double cost = static_cast<double>(ceil_div(tasks, threads)) *
                        (static_cast<double>(block_strips * block_panels) +
                         strip_overhead * static_cast<double>(block_strips) +
                         kPanelOverhead * static_cast<double>(block_panels));
    if (least != 0.0 && cost >= 0.99 * least) return;
    least = cost;
    row_block = block_strips * kTileSide;
    panel_block = block_panels;
  };
  // Cuts into equal blocks.
  const std::int64_t few_sets = ceil_div(panels(), most_panels);
  const std::int64_t few_blocks = ceil_div(strips(), most_strips);
  const auto cuts = [threads](std::int64_t fewest, std::int64_t most) {
    return std::min(most, fewest + 4 * static_cast<std::int64_t>(threads));
  };
  for (std::int64_t sets = few_sets; sets <= cuts(few_sets, panels()); ++sets) {
    const std::int64_t width = round_up(ceil_div(panels(), sets), 2);
    for (std::int64_t blocks = few_blocks; blocks <= cuts(few_blocks, strips()); ++blocks) {
      consider(ceil_div(strips(), blocks), width);
    }
  }
}

void AmxPlan::choose_spans(int threads) {
  const std::int64_t panel_bytes = packed_panel_bytes(depth_block / kStepDepth);
  const std::int64_t row_blocks = ceil_div(rows, row_block);
  // Threads have their own sets of panels, or share some and have their own rows.
  const std::int64_t sets =
      packs_left ? std::max<std::int64_t>(1, kPassingBytes / panel_bytes / panel_block)
                 : ceil_div(static_cast<std::int64_t>(threads), row_blocks);
  panel_span = std::min(panels(), sets * panel_block);
  row_span = rows;
  if (in_c || depth_blocks() == 1) return;
  // Sums of a span wait in a buffer for the next block of depth.
  const auto blocks_within = [](std::int64_t block_sums) {
    return std::max<std::int64_t>(1, kSumsBytes / size_of(DType::kF32) / block_sums);
  };
  panel_span =
      std::min(panel_span, blocks_within(row_block * panel_block * kTileSide) * panel_block);
  row_span = std::min(rows, blocks_within(row_block * panel_span * kTileSide) * row_block);
}

void AmxPlan::count_memory() {
  const std::int64_t strip_bytes = packed_panel_bytes(depth_block / kStepDepth);
  right_bytes = aligned(panel_span * strip_bytes);
  if (!in_c && depth_blocks() > 1) {
    sums_bytes = ceil_div(row_span, kTileSide) * panel_span * kTileSums * size_of(DType::kF32);
  }
  thread_left_bytes = aligned((packs_left ? row_block / kTileSide : 1) * strip_bytes);
  thread_bias_bytes = aligned(panel_block * kTileSide * size_of(DType::kF32));
  thread_bytes = aligned(kTileBufferBytes) + thread_left_bytes + thread_bias_bytes;
}

}  // namespace phalanx::cpu
