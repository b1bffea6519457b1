#include "phalanx/ops/cpu/matrix_product.h"

#include <omp.h>

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_product.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/line_sums.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/panel_packing.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/product_plan.h"
#include "phalanx/ops/cpu/team_tasks.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

bool is_native(const CpuDevice& device, const MatrixProduct& product) {
  return device.products != ProductPrecision::kFp32 && product.a.dtype == DType::kBF16 &&
         product.b.dtype == DType::kBF16;
}

bool is_amx(const CpuDevice& device, const MatrixProduct& product) {
  return is_native(device, product) && device.products == ProductPrecision::kAmx;
}

const PanelKernel& kernel_of(const CpuDevice& device, const MatrixProduct& product) {
  return panel_kernel(is_native(device, product) ? device.products : ProductPrecision::kFp32,
                      device.processor.target);
}

LineSums row_sums_of(const MatrixProduct& p) {
  return {.from = {p.a.data, p.a.dtype, p.a.stride, false},
          .lines = p.m,
          .depth = p.k,
          .to = p.row_sums,
          .accumulate = p.accumulate_row_sums};
}

// C has no elements, or each is a sum over nothing.
bool is_empty(const MatrixProduct& p) { return p.m == 0 || p.n == 0 || p.k == 0; }

// Sums over nothing are zeros.
void finish_zeros(int threads, const MatrixProduct& p) {
  if (p.n == 0 || p.epilogue.accumulate) return;
  static constexpr std::array<float, 256> kZeros{};
  parallel_for(threads, p.m, [&](std::int64_t row) {
    const Blocks columns{p.n, std::ssize(kZeros)};
    for (std::int64_t i = 0; i < columns.count(); ++i) {
      finish(p.epilogue, {.row = row,
                          .column = columns.begin(i),
                          .rows = 1,
                          .columns = columns.end(i) - columns.begin(i),
                          .sums = kZeros.data()});
    }
  });
}

// Threads share three sets of tasks: packing left operands, packing right operands, products.
constexpr int kTaskSets = 3;

// One product on a team of threads, which all run the same loops.
class Multiplication {
 public:
  Multiplication(const MatrixProduct& product, const ProductPlan& plan, int threads,
                 std::byte* workspace);
  void run();

 private:
  // Buffers of one thread.
  struct Scratch {
    std::byte* left;
    float* tile;
    float* block;
    float* transposed;
  };

  // One panel of a task, for a block of depth.
  struct PanelWork {
    Range depths, rows, panels;
    std::int64_t column, width, columns;  // width includes the padding
  };

  void run_as_member();
  Scratch scratch_of(int thread) const;
  void start_span(std::int64_t depth_span, std::int64_t row_span, std::int64_t panel_span);
  void pack_left(const Range& rows, const Range& depths, std::byte* to) const;
  void pack_left_block(std::int64_t task);
  void pack_right_panel(std::int64_t task);
  void do_task(const Range& rows, const Range& panels, const Scratch& scratch);
  void do_depths(const Range& depths, const Range& rows, const Range& panels,
                 const Scratch& scratch);
  void do_panel(const PanelWork& work, const Scratch& scratch);
  void point_at_right(const PanelWork& work, TileOperands& tile) const;
  std::int64_t point_at_left(const PanelWork& work, const Scratch& scratch,
                             TileOperands& tile) const;
  bool point_at_sums(const PanelWork& work, std::int64_t row, std::int64_t rows,
                     const Scratch& scratch, TileOperands& tile) const;
  Epilogue epilogue_of(const PanelWork& work) const;
  void finish_block(const Range& rows, const Range& panels, const Scratch& scratch) const;

  std::int64_t padded_rows(const Range& rows) const { return round_up(rows.count(), kernel_.rows); }
  // Blocks of depth in the span.
  std::int64_t depth_blocks() const { return ceil_div(depths_.count(), plan_.depth_block); }
  // Bytes of `lines` lines of a span up to this depth.
  std::int64_t packed_bytes(std::int64_t lines, std::int64_t depths) const {
    return lines * plan_.groups(depths) * kGroupBytes;
  }

  const MatrixProduct& p_;
  const ProductPlan& plan_;
  const PanelKernel& kernel_;
  int threads_;
  Lines left_, right_;
  std::byte *left_pack_, *right_pack_;
  float *span_sums_, *row_sums_;
  std::byte* thread_memory_;
  // The position of the loops and the current tasks; the same for all threads.
  Range depths_, rows_, panels_;
  TeamTasks left_tasks_, right_tasks_, product_tasks_;
};

Multiplication::Multiplication(const MatrixProduct& product, const ProductPlan& plan, int threads,
                               std::byte* workspace)
    : p_(product),
      plan_(plan),
      kernel_(*plan.kernel),
      threads_(threads),
      left_tasks_(threads, workspace),
      right_tasks_(threads, workspace + TeamTasks::bytes(threads)),
      product_tasks_(threads, workspace + 2 * TeamTasks::bytes(threads)) {
  left_ = {p_.a.data, p_.a.dtype, p_.a.stride, !p_.a.transposed};
  right_ = {p_.b.data, p_.b.dtype, p_.b.stride, p_.b.transposed};
  if (plan.swapped) std::swap(left_, right_);
  left_pack_ = workspace + kTaskSets * TeamTasks::bytes(threads);
  right_pack_ = left_pack_ + plan.left_bytes;
  span_sums_ = reinterpret_cast<float*>(right_pack_ + plan.right_bytes);
  thread_memory_ = right_pack_ + plan.right_bytes + plan.span_sums_bytes;
  row_sums_ = reinterpret_cast<float*>(thread_memory_ + threads * plan.thread_bytes());
}

void Multiplication::run() {
  if (threads_ == 1 && omp_in_parallel() == 0) return run_as_member();
#pragma omp parallel num_threads(threads_)
  run_as_member();
}

// The loops of every thread. A product that one thread of a team computes has a team of one.
// OpenMP's constructs end when all threads have reached them.
void Multiplication::run_as_member() {
  const FlushToZero mode;
  const int thread = omp_get_thread_num();
  const Scratch scratch = scratch_of(thread);
  for (std::int64_t d = 0; d < ceil_div(p_.k, plan_.depth_span); ++d) {
    for (std::int64_t r = 0; r < ceil_div(plan_.rows, plan_.row_span); ++r) {
      for (std::int64_t c = 0; c < ceil_div(plan_.panels(), plan_.panel_span); ++c) {
#pragma omp single
        start_span(d, r, c);
        left_tasks_.run(thread, [&](std::int64_t task) { pack_left_block(task); });
        right_tasks_.run(thread, [&](std::int64_t task) { pack_right_panel(task); });
#pragma omp barrier
        const std::int64_t row_blocks = ceil_div(rows_.count(), plan_.row_block);
        product_tasks_.run(thread, [&](std::int64_t task) {
          do_task(piece(task % row_blocks, plan_.row_block, rows_),
                  piece(task / row_blocks, plan_.panel_block, panels_), scratch);
        });
#pragma omp barrier
      }
    }
  }
}

void Multiplication::start_span(std::int64_t depth_span, std::int64_t row_span,
                                std::int64_t panel_span) {
  depths_ = piece(depth_span, plan_.depth_span, {0, p_.k});
  rows_ = piece(row_span, plan_.row_span, {0, plan_.rows});
  panels_ = piece(panel_span, plan_.panel_span, {0, plan_.panels()});
  const std::int64_t row_blocks = ceil_div(rows_.count(), plan_.row_block);
  // The left operand and the sums of its lines serve all spans of panels.
  const bool left = panel_span == 0 && (plan_.left == ProductPlan::Place::kTeam || p_.sums_rows);
  const bool right = plan_.right == ProductPlan::Place::kTeam;
  left_tasks_.set(left ? row_blocks * depth_blocks() : 0);
  right_tasks_.set(right ? panels_.count() * depth_blocks() : 0);
  product_tasks_.set(row_blocks * ceil_div(panels_.count(), plan_.panel_block));
}

Multiplication::Scratch Multiplication::scratch_of(int thread) const {
  std::byte* left = thread_memory_ + thread * plan_.thread_bytes();
  auto* tile = reinterpret_cast<float*>(left + plan_.thread_left_bytes);
  auto* transposed =
      reinterpret_cast<float*>(left + plan_.thread_left_bytes + plan_.thread_sums_bytes);
  return {.left = left,
          .tile = tile,
          .block = tile + kernel_.rows * plan_.wide,
          .transposed = transposed};
}

void Multiplication::pack_left(const Range& rows, const Range& depths, std::byte* to) const {
  const Packing packing{.from = left_.from(rows.begin, depths.begin),
                        .lines = rows.count(),
                        .depth = depths.count(),
                        .operand = kernel_.operand,
                        .groups = plan_.groups(depths.count()),
                        .to = to};
  if (plan_.layout == Left::kRows) {
    pack_lines(packing, padded_rows(rows));
  } else {
    pack_panels(packing, kernel_.rows);
  }
}

// Packs a block of rows and depth, and sums its lines.
void Multiplication::pack_left_block(std::int64_t task) {
  const Range rows = piece(task / depth_blocks(), plan_.row_block, rows_);
  const std::int64_t block = task % depth_blocks();
  const Range depths = piece(block, plan_.depth_block, depths_);
  if (plan_.left == ProductPlan::Place::kTeam) {
    pack_left(rows, depths,
              left_pack_ + packed_bytes(padded_rows(rows_), block * plan_.depth_block) +
                  packed_bytes(rows.begin - rows_.begin, depths.count()));
  }
  if (p_.sums_rows) {
    float* partial = row_sums_ + depths.begin / plan_.depth_block * plan_.rows + rows.begin;
    add_up_block(left_.from(rows.begin, depths.begin), rows.count(), depths.count(), partial);
  }
}

// Packs a panel of a block of depth.
void Multiplication::pack_right_panel(std::int64_t task) {
  const std::int64_t panel = panels_.begin + task / depth_blocks();
  const std::int64_t block = task % depth_blocks();
  const Range depths = piece(block, plan_.depth_block, depths_);
  const std::int64_t span_begin = plan_.panel_begin(panels_.begin);
  const std::int64_t span_columns = plan_.panel_begin(panels_.end) - span_begin;
  const std::int64_t column = plan_.panel_begin(panel);
  const std::int64_t width = plan_.panel_begin(panel + 1) - column;
  pack_panels({.from = right_.from(column, depths.begin),
               .lines = std::min(width, plan_.columns - column),
               .depth = depths.count(),
               .operand = kernel_.operand,
               .groups = plan_.groups(depths.count()),
               .to = right_pack_ + packed_bytes(span_columns, block * plan_.depth_block) +
                     packed_bytes(column - span_begin, depths.count())},
              width);
}

void Multiplication::do_task(const Range& rows, const Range& panels, const Scratch& scratch) {
  for (std::int64_t block = 0; block < depth_blocks(); ++block) {
    do_depths(piece(block, plan_.depth_block, depths_), rows, panels, scratch);
  }
}

// Does one block of depth of a task.
void Multiplication::do_depths(const Range& depths, const Range& rows, const Range& panels,
                               const Scratch& scratch) {
  if (plan_.left == ProductPlan::Place::kTask) pack_left(rows, depths, scratch.left);
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const std::int64_t column = plan_.panel_begin(panel);
    const std::int64_t width = plan_.panel_begin(panel + 1) - column;
    do_panel({.depths = depths,
              .rows = rows,
              .panels = panels,
              .column = column,
              .width = width,
              .columns = std::min(width, plan_.columns - column)},
             scratch);
  }
  if (plan_.swapped && depths.end == p_.k) finish_block(rows, panels, scratch);
}

// Does one panel, sliver by sliver of rows.
void Multiplication::do_panel(const PanelWork& work, const Scratch& scratch) {
  TileOperands tile{.depth = plan_.groups(work.depths.count())};
  point_at_right(work, tile);
  const std::int64_t sliver_bytes = point_at_left(work, scratch, tile);
  const std::byte* first_sliver = tile.left;
  for (std::int64_t row = work.rows.begin; row < work.rows.end; row += kernel_.rows) {
    const bool more = row + kernel_.rows < work.rows.end;
    tile.next_left = more ? tile.left + sliver_bytes : first_sliver;
    const std::int64_t rows = std::min<std::int64_t>(kernel_.rows, work.rows.end - row);
    const bool finishes = point_at_sums(work, row, rows, scratch, tile);
    kernel_.run(plan_.layout, static_cast<int>(work.width) / kernel_.width, tile);
    if (finishes) {
      finish(epilogue_of(work), {.row = row,
                                 .column = work.column,
                                 .rows = rows,
                                 .columns = work.columns,
                                 .sums = tile.sums,
                                 .stride = tile.sums_stride});
    }
    tile.left += sliver_bytes;
  }
}

void Multiplication::point_at_right(const PanelWork& work, TileOperands& tile) const {
  if (plan_.right == ProductPlan::Place::kAsItLies) {
    tile.right = right_.at(work.column, work.depths.begin);
    tile.right_stride = right_.stride;
    return;
  }
  const std::int64_t span_begin = plan_.panel_begin(panels_.begin);
  const std::int64_t span_columns = plan_.panel_begin(panels_.end) - span_begin;
  tile.right = right_pack_ + packed_bytes(span_columns, work.depths.begin - depths_.begin) +
               packed_bytes(work.column - span_begin, work.depths.count());
  tile.right_stride = work.width;
}

// Points at the first sliver of the rows; returns the bytes to the next one.
std::int64_t Multiplication::point_at_left(const PanelWork& work, const Scratch& scratch,
                                           TileOperands& tile) const {
  if (plan_.left == ProductPlan::Place::kAsItLies) {
    tile.left = left_.at(work.rows.begin, work.depths.begin);
    tile.left_stride = left_.depth_inner ? left_.stride / kernel_.group : left_.stride;
    return left_.at(kernel_.rows, 0) - left_.at(0, 0);
  }
  const std::int64_t before = packed_bytes(padded_rows(rows_), work.depths.begin - depths_.begin) +
                              packed_bytes(work.rows.begin - rows_.begin, work.depths.count());
  tile.left = plan_.left == ProductPlan::Place::kTask ? scratch.left : left_pack_ + before;
  tile.left_stride = plan_.layout == Left::kRows ? tile.depth : kernel_.rows;
  return packed_bytes(kernel_.rows, work.depths.count());
}

// Points at the memory for a tile's sums. Returns whether they are copied to C afterwards.
bool Multiplication::point_at_sums(const PanelWork& work, std::int64_t row, std::int64_t rows,
                                   const Scratch& scratch, TileOperands& tile) const {
  using Sums = ProductPlan::Sums;
  const Epilogue& epilogue = p_.epilogue;
  const bool first = work.depths.begin == 0;
  const bool last = work.depths.end == p_.k;
  if (plan_.sums == Sums::kInC && rows == kernel_.rows && work.columns == work.width) {
    tile.sums = reinterpret_cast<float*>(epilogue.c.data) + row * epilogue.c.stride + work.column;
    tile.sums_stride = epilogue.c.stride;
    tile.add = epilogue.accumulate || !first;
    return false;
  }
  if (plan_.sums == Sums::kInC || plan_.sums == Sums::kTile) {
    tile.sums = scratch.tile;
    tile.sums_stride = work.width;
    tile.add = false;
    return true;
  }
  if (plan_.sums == Sums::kBlock) {
    tile.sums_stride = plan_.block_columns();
    tile.sums = scratch.block + (row - work.rows.begin) * tile.sums_stride + work.column -
                plan_.panel_begin(work.panels.begin);
  } else {
    tile.sums_stride = plan_.padded_columns();
    tile.sums = span_sums_ + (row - rows_.begin) * tile.sums_stride + work.column;
  }
  tile.add = !first;
  return last && !plan_.swapped;
}

// Border tiles of a plain C are added to C after every block of depth.
Epilogue Multiplication::epilogue_of(const PanelWork& work) const {
  Epilogue epilogue = p_.epilogue;
  if (plan_.sums == ProductPlan::Sums::kInC && work.depths.begin > 0) epilogue.accumulate = true;
  return epilogue;
}

// Transposes C^T, [columns of C][rows of C], before the epilogue.
void Multiplication::finish_block(const Range& rows, const Range& panels,
                                  const Scratch& scratch) const {
  const std::int64_t column = plan_.panel_begin(panels.begin);
  const std::int64_t columns = std::min(plan_.panel_begin(panels.end), plan_.columns) - column;
  const bool in_span = plan_.sums == ProductPlan::Sums::kSpan;
  const std::int64_t stride = in_span ? plan_.padded_columns() : plan_.block_columns();
  const float* sums =
      in_span ? span_sums_ + (rows.begin - rows_.begin) * stride + column : scratch.block;
  const std::int64_t transposed_stride = round_up(plan_.row_block, ProductPlan::kTransposedRows);
  transpose_sums(sums, stride, rows.count(), columns, scratch.transposed, transposed_stride);
  finish(p_.epilogue, {.row = column,
                       .column = rows.begin,
                       .rows = columns,
                       .columns = rows.count(),
                       .sums = scratch.transposed,
                       .stride = transposed_stride});
}

}  // namespace

ProductShape shape_of(const MatrixProduct& p) {
  return {.rows = p.m,
          .columns = p.n,
          .depth = p.k,
          .a = {p.a.dtype, p.a.stride, !p.a.transposed},
          .b = {p.b.dtype, p.b.stride, p.b.transposed},
          .plain = p.epilogue.is_plain(),
          .whole_elements = p.whole_elements};
}

std::int64_t row_sums_block_of(const CpuDevice& device, const MatrixProduct& product) {
  if (is_amx(device, product)) return kAmxRowSumsBlock;
  return depth_block_of(product.k, kernel_of(device, product));
}

std::int64_t workspace_bytes_of(const CpuDevice& device, const MatrixProduct& product) {
  if (is_empty(product)) {
    if (!product.sums_rows) return 0;
    return line_sums_bytes(row_sums_of(product), row_sums_block_of(device, product));
  }
  if (is_amx(device, product)) return amx_workspace_bytes(device, product);
  const PanelKernel& kernel = kernel_of(device, product);
  const ProductPlan plan(shape_of(product), kernel, device.threads, device.processor.caches);
  std::int64_t bytes =
      kTaskSets * TeamTasks::bytes(device.threads) + plan.workspace_bytes(device.threads);
  if (product.sums_rows) bytes += line_sums_bytes(row_sums_of(product), plan.depth_block);
  return bytes;
}

std::int64_t most_workspace_bytes_of(const CpuDevice& device, const MatrixProduct& most) {
  PHALANX_CHECK(!most.sums_rows, "how many bytes sums of rows need is known for a product alone");
  if (is_empty(most)) return 0;
  if (is_amx(device, most)) return most_amx_workspace_bytes(device, most);
  return kTaskSets * TeamTasks::bytes(device.threads) +
         ProductPlan::most_workspace_bytes(shape_of(most), kernel_of(device, most), device.threads);
}

void multiply(const CpuDevice& device, const MatrixProduct& product, std::byte* workspace) {
  PHALANX_CHECK(!product.epilogue.accumulate || product.epilogue.is_plain(),
                "products accumulate into f32, not {}", name_of(product.epilogue.c.dtype));
  if (is_empty(product)) {
    finish_zeros(device.threads, product);
    if (!product.sums_rows) return;
    add_up_lines(device.threads, row_sums_of(product), row_sums_block_of(device, product),
                 workspace);
    return;
  }
  if (is_amx(device, product)) return multiply_amx(device, product, workspace);
  const PanelKernel& kernel = kernel_of(device, product);
  const ProductPlan plan(shape_of(product), kernel, device.threads, device.processor.caches);
  Multiplication(product, plan, device.threads, workspace).run();
  if (!product.sums_rows) return;
  combine_line_sums(device.threads, row_sums_of(product), plan.depth_block,
                    workspace + kTaskSets * TeamTasks::bytes(device.threads) +
                        plan.workspace_bytes(device.threads));
}

}  // namespace phalanx::cpu
