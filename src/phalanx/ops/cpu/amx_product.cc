#include "phalanx/ops/cpu/amx_product.h"

#include <algorithm>

#include "phalanx/base/dtype.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_packing.h"
#include "phalanx/ops/cpu/amx_plan.h"
#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/ops/cpu/flush_to_zero.h"
#include "phalanx/ops/cpu/line_sums.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/ops/cpu/range.h"

namespace phalanx::cpu {
namespace {

AmxPlan plan_of(const CpuDevice& device, const MatrixProduct& p) {
  return AmxPlan(shape_of(p), device.threads);
}

LineSums row_sums_of(const MatrixProduct& p) {
  return {.from = {p.a.data, p.a.dtype, p.a.stride, false},
          .lines = p.m,
          .depth = p.k,
          .to = p.row_sums,
          .accumulate = p.accumulate_row_sums};
}

class AmxMultiplication {
 public:
  AmxMultiplication(const CpuDevice& device, const MatrixProduct& product, const AmxPlan& plan,
                    const TileKernel& kernel, std::byte* workspace);
  void run();

 private:
  // Buffers of one thread.
  struct Scratch {
    std::byte* left;
    float* bias;
    TileState tiles;
  };
  // A task: some strips by some panels, for a block of depth.
  struct Work {
    Range rows, panels, depths;
    std::int64_t steps;
    TileFinish finish;
  };

  void run_block();
  Scratch scratch_of(int thread) const;
  void pack_right(std::int64_t task) const;
  void do_task(std::int64_t task, Scratch& scratch) const;
  void pack_left(const Work& work, Scratch& scratch) const;
  void pass_strips(const Work& work, Scratch& scratch) const;
  void point_at_left(const Work& work, std::int64_t row, const Scratch& scratch,
                     TileRun& run) const;
  void point_at_sums(const Work& work, TileRun& run) const;
  void add_up_rows(const Work& work) const;
  TileFinish finish_of(const Range& panels, const Range& depths, Scratch& scratch) const;
  bool fetches_c(TileFinish::Kind kind) const;
  std::int64_t steps() const { return ceil_div(depths_.count(), kStepDepth); }

  const MatrixProduct& p_;
  const AmxPlan& plan_;
  const TileKernel& kernel_;
  Target target_;
  int threads_;
  Lines left_, right_;
  Epilogue first_epilogue_, next_epilogue_;  // of the first block of depth, and of the next ones
  std::byte* right_pack_;
  float *sums_, *row_sums_;
  std::byte* thread_memory_;
  Range rows_, panels_, depths_;  // the current block
};

AmxMultiplication::AmxMultiplication(const CpuDevice& device, const MatrixProduct& product,
                                     const AmxPlan& plan, const TileKernel& kernel,
                                     std::byte* workspace)
    : p_(product),
      plan_(plan),
      kernel_(kernel),
      target_(device.processor.target),
      threads_(device.threads),
      first_epilogue_(product.epilogue),
      next_epilogue_(product.epilogue),
      right_pack_(workspace) {
  left_ = {p_.a.data, p_.a.dtype, p_.a.stride, !p_.a.transposed};
  right_ = {p_.b.data, p_.b.dtype, p_.b.stride, p_.b.transposed};
  if (plan.swapped) std::swap(left_, right_);
  next_epilogue_.accumulate = first_epilogue_.accumulate || plan.in_c;
  sums_ = reinterpret_cast<float*>(right_pack_ + plan.right_bytes);
  thread_memory_ = right_pack_ + plan.right_bytes + plan.sums_bytes;
  row_sums_ = reinterpret_cast<float*>(thread_memory_ + threads_ * plan.thread_bytes);
}

void AmxMultiplication::run() {
  for (std::int64_t r = 0; r < ceil_div(plan_.rows, plan_.row_span); ++r) {
    for (std::int64_t c = 0; c < ceil_div(plan_.panels(), plan_.panel_span); ++c) {
      for (std::int64_t d = 0; d < plan_.depth_blocks(); ++d) {
        rows_ = piece(r, plan_.row_span, {0, plan_.rows});
        panels_ = piece(c, plan_.panel_span, {0, plan_.panels()});
        depths_ = piece(d, plan_.depth_block, {0, plan_.depth});
        run_block();
      }
    }
  }
}

AmxMultiplication::Scratch AmxMultiplication::scratch_of(int thread) const {
  std::byte* const tiles = thread_memory_ + thread * plan_.thread_bytes;
  std::byte* const left = tiles + kTileBufferBytes;
  return {.left = left,
          .bias = reinterpret_cast<float*>(left + plan_.thread_left_bytes),
          .tiles = {.buffers = reinterpret_cast<float*>(tiles)}};
}

// Panels that a task packs: 128 bytes of a line of the depth.
constexpr std::int64_t kPackedPanels = 2;

void AmxMultiplication::run_block() {
  parallel_for(threads_, ceil_div(panels_.count(), kPackedPanels),
               [&](std::int64_t task) { pack_right(task); });
  const std::int64_t tasks =
      ceil_div(rows_.count(), plan_.row_block) * ceil_div(panels_.count(), plan_.panel_block);
  // A thread begins with neighbouring tasks, whose operands it has mostly packed itself.
  Team::mine().run(threads_, tasks, Dealing::kNeighbours, [&](Team::Member& member) {
    const FlushToZero mode;
    kernel_.prepare();
    Scratch scratch = scratch_of(member.slot());
    while (member.next()) do_task(member.part(), scratch);
    kernel_.release();
  });
}

void AmxMultiplication::pack_right(std::int64_t task) const {
  const Range panels = piece(task, kPackedPanels, panels_);
  const std::int64_t column = panels.begin * kTileSide;
  pack_tile_panels(
      target_, {.from = right_.from(column, depths_.begin),
                .lines = std::min(panels.count() * kTileSide, plan_.columns - column),
                .depth = depths_.count(),
                .steps = steps(),
                .to = right_pack_ + (panels.begin - panels_.begin) * packed_panel_bytes(steps())});
}

void AmxMultiplication::do_task(std::int64_t task, Scratch& scratch) const {
  const std::int64_t row_blocks = ceil_div(rows_.count(), plan_.row_block);
  const Range panels = piece(task / row_blocks, plan_.panel_block, panels_);
  const Work work{.rows = piece(task % row_blocks, plan_.row_block, rows_),
                  .panels = panels,
                  .depths = depths_,
                  .steps = steps(),
                  .finish = finish_of(panels, depths_, scratch)};
  if (plan_.packs_left) pack_left(work, scratch);
  for (std::int64_t i = 0; i < ceil_div(panels.count(), plan_.panel_set); ++i) {
    Work set = work;
    set.panels = piece(i, plan_.panel_set, panels);
    pass_strips(set, scratch);
  }
  finish_pending(scratch.tiles);
}

TileFinish AmxMultiplication::finish_of(const Range& panels, const Range& depths,
                                        Scratch& scratch) const {
  using Kind = TileFinish::Kind;
  const Epilogue& e = depths.begin == 0 ? first_epilogue_ : next_epilogue_;
  TileFinish finish{.kind = Kind::kAny, .epilogue = &e};
  if (plan_.swapped) {
    finish.kind = Kind::kTransposed;
  } else if (e.is_plain()) {
    finish.kind = e.accumulate ? Kind::kAdd : Kind::kStore;
  } else if (e.kind == Epilogue::Kind::kStore && e.c.dtype == DType::kBF16 &&
             e.bias_factors == nullptr) {
    finish.kind = Kind::kBf16;
    if (e.has_bias) {
      const std::int64_t begin = panels.begin * kTileSide;
      const std::int64_t end = std::min(panels.end * kTileSide, plan_.columns);
      for (std::int64_t i = begin; i < end; ++i) {
        scratch.bias[i - begin] = e.bias_dtype == DType::kF32
                                      ? reinterpret_cast<const float*>(e.bias)[i]
                                      : to_float(reinterpret_cast<const bfloat16*>(e.bias)[i]);
      }
      finish.bias = scratch.bias - begin;
    }
  } else if (e.kind != Epilogue::Kind::kStore && e.c.dtype == DType::kBF16 &&
             e.activation == ops::ActivationKind::kGeluTanh) {
    finish.kind = e.kind == Epilogue::Kind::kActivation ? Kind::kGelu : Kind::kGeluGradient;
  }
  return finish;
}

// Rows of a bf16 C are fetched for writing, those of an f32 C for adding.
bool AmxMultiplication::fetches_c(TileFinish::Kind kind) const {
  using Kind = TileFinish::Kind;
  if (kind == Kind::kAdd) return plan_.fetches_c;
  return kind == Kind::kBf16 || kind == Kind::kGelu || kind == Kind::kGeluGradient;
}

// Strips of the left operand meet the panels of a set, which stay in the second-level cache.
void AmxMultiplication::pass_strips(const Work& work, Scratch& scratch) const {
  const std::int64_t panel = work.panels.begin;
  for (std::int64_t row = work.rows.begin; row < work.rows.end; row += kTileSide) {
    TileRun run{.steps = work.steps,
                .count = work.panels.count(),
                .backwards = (plan_.swapped ? row / kTileSide : panel) % 2 != 0,
                .alternates = !plan_.swapped,
                .right = right_pack_ + (panel - panels_.begin) * packed_panel_bytes(work.steps),
                .row = row,
                .column = panel * kTileSide,
                .row_end = plan_.rows,
                .column_end = plan_.columns,
                .finish = work.finish,
                .fetches_c = fetches_c(work.finish.kind)};
    point_at_left(work, row, scratch, run);
    point_at_sums(work, run);
    kernel_.run(run, scratch.tiles);
  }
}

void AmxMultiplication::point_at_left(const Work& work, std::int64_t row, const Scratch& scratch,
                                      TileRun& run) const {
  if (plan_.packs_left) {
    run.left = scratch.left + (row - work.rows.begin) / kTileSide * packed_panel_bytes(work.steps);
    run.left_stride = kRegisterBytes / kRegisterRows;
    run.left_half = kRegisterBytes;
    run.left_step = 2 * kRegisterBytes;
    return;
  }
  const std::int64_t rows = std::min(kTileSide, work.rows.end - row);
  const std::int64_t depth = work.depths.count();
  const Lines from = left_.from(row, work.depths.begin);
  const std::int64_t size = size_of(DType::kBF16);
  run.left = from.data;
  run.left_stride = from.stride * size;
  if (plan_.copies_rows || rows < kTileSide || depth % kStepDepth != 0) {
    copy_tile_rows(
        {.from = from, .lines = rows, .depth = depth, .steps = work.steps, .to = scratch.left});
    run.left = scratch.left;
    run.left_stride = work.steps * kStepDepth * size;
  }
  if (run.left == from.data && row + kTileSide < work.rows.end) {
    run.next_left = left_.at(row + kTileSide, work.depths.begin);
    run.next_rows = std::min(kTileSide, work.rows.end - row - kTileSide);
  }
  run.left_half = kRegisterRows * run.left_stride;
  run.left_step = kStepDepth * size;
}

void AmxMultiplication::point_at_sums(const Work& work, TileRun& run) const {
  if (plan_.sums_bytes == 0) return;
  const std::int64_t strip = (run.row - rows_.begin) / kTileSide;
  float* const sums =
      sums_ + (strip * plan_.panel_span + work.panels.begin - panels_.begin) * kTileSums;
  if (work.depths.begin > 0) run.before = sums;
  if (work.depths.end < plan_.depth) run.after = sums;
}

void AmxMultiplication::pack_left(const Work& work, Scratch& scratch) const {
  pack_tile_strips(target_, {.from = left_.from(work.rows.begin, work.depths.begin),
                             .lines = work.rows.count(),
                             .depth = work.depths.count(),
                             .steps = work.steps,
                             .to = scratch.left});
  if (p_.sums_rows && work.panels.begin == 0) add_up_rows(work);
}

void AmxMultiplication::add_up_rows(const Work& work) const {
  for (std::int64_t i = work.depths.begin; i < work.depths.end; i += kAmxRowSumsBlock) {
    const std::int64_t depth = std::min(kAmxRowSumsBlock, work.depths.end - i);
    add_up_block(left_.from(work.rows.begin, i), work.rows.count(), depth,
                 row_sums_ + i / kAmxRowSumsBlock * plan_.rows + work.rows.begin);
  }
}

}  // namespace

std::int64_t amx_workspace_bytes(const CpuDevice& device, const MatrixProduct& product) {
  const AmxPlan plan = plan_of(device, product);
  std::int64_t bytes = plan.workspace_bytes(device.threads);
  if (product.sums_rows) bytes += line_sums_bytes(row_sums_of(product), kAmxRowSumsBlock);
  return bytes;
}

std::int64_t most_amx_workspace_bytes(const CpuDevice& device, const MatrixProduct& most) {
  return AmxPlan::most_workspace_bytes(shape_of(most), device.threads);
}

void multiply_amx(const CpuDevice& device, const MatrixProduct& product, const TileKernel& kernel,
                  std::byte* workspace) {
  const AmxPlan plan = plan_of(device, product);
  AmxMultiplication(device, product, plan, kernel, workspace).run();
  if (!product.sums_rows) return;
  combine_line_sums(device.threads, row_sums_of(product), kAmxRowSumsBlock,
                    workspace + plan.workspace_bytes(device.threads));
}

}  // namespace phalanx::cpu
