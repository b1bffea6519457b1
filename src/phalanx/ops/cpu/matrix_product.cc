#include "phalanx/ops/cpu/matrix_product.h"

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_product.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/line_sums.h"
#include "phalanx/ops/cpu/operands.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/product_operands.h"
#include "phalanx/ops/cpu/product_order.h"
#include "phalanx/ops/cpu/product_plan.h"
#include "phalanx/ops/cpu/range.h"
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

// Rows of the left operand that are packed at a time.
constexpr std::int64_t kPackedRows = 64;

Lines left_lines(const MatrixProduct& p) {
  return {p.a.data, p.a.dtype, p.a.stride, !p.a.transposed};
}
Lines right_lines(const MatrixProduct& p) {
  return {p.b.data, p.b.dtype, p.b.stride, p.b.transposed};
}

// One product on a team of threads.
class Multiplication {
 public:
  Multiplication(const MatrixProduct& product, const ProductPlan& plan, int threads,
                 std::byte* workspace);
  void run();

 private:
  using Place = ProductPlan::Place;
  using Sums = ProductPlan::Sums;

  // Buffers of one thread.
  struct Scratch {
    std::byte* operands;
    float* tile;
    float* block;
    float* transposed;
  };
  // A tile of C in a task's part.
  struct Tile {
    const ProductPart& part;
    const Scratch& scratch;
    std::int64_t row, rows;
    std::int64_t column, columns, width;  // width includes the padding
  };

  Scratch scratch_of(int thread) const;
  void pack_span() const;
  void do_left_task(std::int64_t task) const;
  void do_right_task(std::int64_t task) const;
  void do_task(std::int64_t task, const Scratch& scratch) const;
  void do_tile(const ProductPart& part, const Scratch& scratch, std::int64_t panel,
               std::int64_t row, std::int64_t next_row) const;
  void sum_left(const Range& rows, const Range& depths) const;
  bool point_at_sums(const Tile& at, TileOperands& tile) const;
  void copy_from_c(const Tile& at, float* sums) const;
  void finish_tile(const Tile& at, const TileOperands& tile) const;
  void finish_in_c(const Range& rows, const Range& panels) const;
  void finish_part(const ProductPart& part, const Scratch& scratch) const;

  std::int64_t rows_of_left_task() const { return kPackedRows / kernel_.rows * kernel_.rows; }
  // A block of depth in the span.
  Range depth_block(std::int64_t index) const {
    return piece(index, plan_.depth_block, span_.depths);
  }
  float* in_c(std::int64_t row, std::int64_t column) const {
    return reinterpret_cast<float*>(p_.epilogue.c.data) + row * p_.epilogue.c.stride + column;
  }

  const MatrixProduct& p_;
  const ProductPlan& plan_;
  const PanelKernel& kernel_;
  int threads_;
  ProductOperands operands_;
  float *span_sums_, *row_sums_;
  std::byte* thread_memory_;
  ProductPart span_;  // the current one
};

Multiplication::Multiplication(const MatrixProduct& product, const ProductPlan& plan, int threads,
                               std::byte* workspace)
    : p_(product),
      plan_(plan),
      kernel_(*plan.kernel),
      threads_(threads),
      operands_(plan, plan.swapped ? right_lines(product) : left_lines(product),
                plan.swapped ? left_lines(product) : right_lines(product), workspace) {
  std::byte* sums = workspace + plan.left_bytes + plan.right_bytes;
  span_sums_ = reinterpret_cast<float*>(sums);
  thread_memory_ = sums + plan.span_sums_bytes;
  row_sums_ = reinterpret_cast<float*>(thread_memory_ + threads * plan.thread_bytes());
}

void Multiplication::run() {
  for_each_span(plan_, [&](const ProductPart& span) {
    span_ = span;
    operands_.set_span(span);
    pack_span();
    // A thread begins with neighbouring tasks, whose operands it has mostly packed itself.
    Team::mine().run(threads_, product_tasks(plan_, span), Dealing::kNeighbours,
                     [&](Team::Member& member) {
                       const FlushToZero mode;
                       const Scratch scratch = scratch_of(member.slot());
                       while (member.next()) do_task(member.part(), scratch);
                     });
  });
}

// What the team packs for all tasks of the span.
void Multiplication::pack_span() const {
  const std::int64_t blocks = depth_blocks(plan_, span_);
  // The left operand and the sums of its lines serve all spans of panels.
  const bool left = plan_.left == Place::kTeam || (p_.sums_rows && plan_.left != Place::kTask);
  if (left && span_.panels.begin == 0) {
    parallel_for(threads_, ceil_div(span_.rows.count(), rows_of_left_task()) * blocks,
                 [&](std::int64_t task) { do_left_task(task); });
  }
  if (plan_.right == Place::kTeam) {
    parallel_for(threads_, span_.panels.count() * blocks,
                 [&](std::int64_t task) { do_right_task(task); });
  }
}

Multiplication::Scratch Multiplication::scratch_of(int thread) const {
  std::byte* operands = thread_memory_ + thread * plan_.thread_bytes();
  std::byte* sums = operands + plan_.thread_left_bytes + plan_.thread_right_bytes;
  auto* tile = reinterpret_cast<float*>(sums);
  return {.operands = operands,
          .tile = tile,
          .block = tile + kernel_.rows * plan_.wide,
          .transposed = reinterpret_cast<float*>(sums + plan_.thread_sums_bytes)};
}

// Sums the lines of a block of rows and depth.
void Multiplication::sum_left(const Range& rows, const Range& depths) const {
  float* partial = row_sums_ + depths.begin / plan_.depth_block * plan_.rows + rows.begin;
  add_up_block(operands_.left().from(rows.begin, depths.begin), rows.count(), depths.count(),
               partial);
}

void Multiplication::do_left_task(std::int64_t task) const {
  const std::int64_t blocks = depth_blocks(plan_, span_);
  const Range rows = piece(task / blocks, rows_of_left_task(), span_.rows);
  const Range depths = depth_block(task % blocks);
  if (plan_.left == Place::kTeam) operands_.pack_left_for_team(rows, depths);
  if (p_.sums_rows) sum_left(rows, depths);
}

void Multiplication::do_right_task(std::int64_t task) const {
  const std::int64_t blocks = depth_blocks(plan_, span_);
  operands_.pack_right_for_team(span_.panels.begin + task / blocks, depth_block(task % blocks));
}

void Multiplication::do_task(std::int64_t task, const Scratch& scratch) const {
  for (std::int64_t block = 0; block < depth_blocks(plan_, span_); ++block) {
    const ProductPart part = part_of_task(plan_, span_, task, block);
    operands_.pack_own(part, scratch.operands);
    if (p_.sums_rows && plan_.left == Place::kTask && part.panels.begin == 0) {
      sum_left(part.rows, part.depths);
    }
    const bool finishes_in_c =
        plan_.sums == Sums::kInC && !p_.epilogue.is_plain() && part.depths.end == p_.k;
    for_each_tile(
        plan_, part,
        [&](std::int64_t panel, std::int64_t row, std::int64_t next_row) {
          do_tile(part, scratch, panel, row, next_row);
        },
        [&](const Range& rows) {
          if (finishes_in_c) finish_in_c(rows, part.panels);
        });
    if (plan_.swapped && part.depths.end == p_.k) finish_part(part, scratch);
  }
}

// `next_row`: of the tile after this one.
void Multiplication::do_tile(const ProductPart& part, const Scratch& scratch, std::int64_t panel,
                             std::int64_t row, std::int64_t next_row) const {
  const std::int64_t column = plan_.panel_begin(panel);
  const std::int64_t width = plan_.panel_begin(panel + 1) - column;
  const Tile at{.part = part,
                .scratch = scratch,
                .row = row,
                .rows = std::min<std::int64_t>(kernel_.rows, part.rows.end - row),
                .column = column,
                .columns = std::min(width, plan_.columns - column),
                .width = width};
  const ProductOperands::Sliver left = operands_.left_of(part, scratch.operands, row);
  TileOperands tile{.depth = plan_.groups(part.depths.count()),
                    .left = left.data,
                    .left_stride = left.stride,
                    .next_left = operands_.left_of(part, scratch.operands, next_row).data};
  operands_.point_at_right(part, scratch.operands, panel, tile);
  const bool finishes = point_at_sums(at, tile);
  kernel_.run(plan_.layout, static_cast<int>(width) / kernel_.width, tile);
  if (finishes) finish_tile(at, tile);
}

// Points at the memory for a tile's sums. Returns whether they are taken from there afterwards.
bool Multiplication::point_at_sums(const Tile& at, TileOperands& tile) const {
  tile.add = at.part.depths.begin > 0;
  switch (plan_.sums) {
    case Sums::kInC:
      tile.add |= p_.epilogue.accumulate;
      if (at.rows == kernel_.rows && at.columns == at.width) {
        tile.sums = in_c(at.row, at.column);
        tile.sums_stride = p_.epilogue.c.stride;
        return false;
      }
      [[fallthrough]];
    case Sums::kTile:
      tile.sums = at.scratch.tile;
      tile.sums_stride = at.width;
      if (tile.add) copy_from_c(at, tile.sums);
      return true;
    case Sums::kBlock:
      tile.sums_stride = plan_.block_columns();
      tile.sums = at.scratch.block + (at.row - at.part.rows.begin) * tile.sums_stride + at.column -
                  plan_.panel_begin(at.part.panels.begin);
      break;
    case Sums::kSpan:
      tile.sums_stride = plan_.padded_columns();
      tile.sums = span_sums_ + (at.row - span_.rows.begin) * tile.sums_stride + at.column;
  }
  return at.part.depths.end == p_.k && !plan_.swapped;
}

// The sums so far of a tile that is not whole.
void Multiplication::copy_from_c(const Tile& at, float* sums) const {
  std::fill_n(sums, kernel_.rows * at.width, 0.0F);
  for (std::int64_t r = 0; r < at.rows; ++r) {
    std::copy_n(in_c(at.row + r, at.column), at.columns, sums + r * at.width);
  }
}

void Multiplication::finish_tile(const Tile& at, const TileOperands& tile) const {
  // Sums that stay in C have what was there; finish_in_c() does the rest.
  const Epilogue in_c{.c = p_.epilogue.c};
  finish(plan_.sums == Sums::kInC ? in_c : p_.epilogue, {.row = at.row,
                                                         .column = at.column,
                                                         .rows = at.rows,
                                                         .columns = at.columns,
                                                         .sums = tile.sums,
                                                         .stride = tile.sums_stride});
}

// Many columns at once: an epilogue's loops are too short in a tile.
void Multiplication::finish_in_c(const Range& rows, const Range& panels) const {
  const std::int64_t column = plan_.panel_begin(panels.begin);
  const std::int64_t end = std::min(plan_.panel_begin(panels.end), plan_.columns);
  finish(p_.epilogue, {.row = rows.begin,
                       .column = column,
                       .rows = rows.count(),
                       .columns = end - column,
                       .sums = in_c(rows.begin, column),
                       .stride = p_.epilogue.c.stride});
}

// Transposes C^T, [columns of C][rows of C], before the epilogue.
void Multiplication::finish_part(const ProductPart& part, const Scratch& scratch) const {
  const std::int64_t column = plan_.panel_begin(part.panels.begin);
  const std::int64_t columns = std::min(plan_.panel_begin(part.panels.end), plan_.columns) - column;
  const bool in_span = plan_.sums == Sums::kSpan;
  const std::int64_t stride = in_span ? plan_.padded_columns() : plan_.block_columns();
  const float* sums =
      in_span ? span_sums_ + (part.rows.begin - span_.rows.begin) * stride + column : scratch.block;
  const std::int64_t transposed_stride = round_up(plan_.row_block, ProductPlan::kTransposedRows);
  transpose_sums(sums, stride, part.rows.count(), columns, scratch.transposed, transposed_stride);
  finish(p_.epilogue, {.row = column,
                       .column = part.rows.begin,
                       .rows = columns,
                       .columns = part.rows.count(),
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
          .f32 = p.epilogue.c.dtype == DType::kF32,
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
  std::int64_t bytes = plan.workspace_bytes(device.threads);
  if (product.sums_rows) bytes += line_sums_bytes(row_sums_of(product), plan.depth_block);
  return bytes;
}

std::int64_t most_workspace_bytes_of(const CpuDevice& device, const MatrixProduct& most) {
  PHALANX_CHECK(!most.sums_rows, "how many bytes sums of rows need is known for a product alone");
  if (is_empty(most)) return 0;
  if (is_amx(device, most)) return most_amx_workspace_bytes(device, most);
  return ProductPlan::most_workspace_bytes(shape_of(most), kernel_of(device, most), device.threads,
                                           device.processor.caches);
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
  PHALANX_CHECK(product.epilogue.kind == Epilogue::Kind::kStore ||
                    product.epilogue.c.data != product.epilogue.other.data,
                "sums of a product are kept where its other matrix is");
  if (is_amx(device, product)) {
    return multiply_amx(device, product, tile_kernel(device.processor.target), workspace);
  }
  const PanelKernel& kernel = kernel_of(device, product);
  const ProductPlan plan(shape_of(product), kernel, device.threads, device.processor.caches);
  Multiplication(product, plan, device.threads, workspace).run();
  if (!product.sums_rows) return;
  combine_line_sums(device.threads, row_sums_of(product), plan.depth_block,
                    workspace + plan.workspace_bytes(device.threads));
}

}  // namespace phalanx::cpu
