// Tiles of family `amx2` by AMX's instructions.

#include "phalanx/ops/cpu/amx_tiles.h"

#include "phalanx/ops/cpu/amx_finisher.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace phalanx::cpu {

#if defined(__x86_64__)
namespace {

// The configuration of the tile registers.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// A constant, because GCC 12 does not know what the instruction reads and drops stores before it.
constexpr TileConfig kConfig;

__attribute__((target("amx-tile"))) void prepare() { _tile_loadconfig(&kConfig); }
// Other code configures tiles differently, and a thread without tiles is switched faster.
__attribute__((target("amx-tile"))) void release() { _tile_release(); }

// Packed operands must be in memory, because GCC 12 does not know what tile loads read either.
inline void finish_stores() { asm volatile("" ::: "memory"); }

constexpr std::int64_t kLine = 64;  // bytes; also a row of a packed register
constexpr std::int64_t kSumsStride = kTileSide * 4;

// The rows of C that a whole tile will write.
class RowsOfC {
 public:
  RowsOfC(const TileRun& run, std::int64_t i) {
    if (!run.fetches_c || run.after != nullptr) return;
    const EpilogueRows& c = run.finish.epilogue->c;
    const std::int64_t size = c.dtype == DType::kF32 ? 4 : 2;
    at_ = c.data + (run.row * c.stride + run.column + i * kTileSide) * size;
    stride_ = c.stride * size;
    second_line_ = size == 4 ? kLine : 0;
    rows_ = run.row_end - run.row < kTileSide ? run.row_end - run.row : kTileSide;
  }
  void fetch(std::int64_t count) {
    for (; count > 0 && rows_ > 0; --count, --rows_, at_ += stride_) {
      __builtin_prefetch(at_, 1, 3);
      if (second_line_ != 0) __builtin_prefetch(at_ + second_line_, 1, 3);
    }
  }

 private:
  const std::byte* at_ = nullptr;
  std::int64_t stride_ = 0, second_line_ = 0, rows_ = 0;
};

// The lines of the next strip's rows, some between any two steps of a run.
class NextStrip {
 public:
  explicit NextStrip(const TileRun& run)
      : row_(run.next_left),
        stride_(run.left_stride),
        rows_(run.next_left == nullptr ? 0 : run.next_rows) {
    lines_of_row_ = (run.steps * kStepDepth * 2 + kLine - 1) / kLine;
    lines_a_step_ = (rows_ * lines_of_row_ + run.steps * run.count - 1) / (run.steps * run.count);
  }
  void fetch() {
    if (rows_ == 0) return;
    for (std::int64_t i = 0; i < lines_a_step_; ++i) {
      __builtin_prefetch(row_ + line_ * kLine, 0, 2);
      if (++line_ < lines_of_row_) continue;
      line_ = 0;
      row_ += stride_;
      if (--rows_ == 0) return;
    }
  }

 private:
  const std::byte* row_;
  std::int64_t stride_, rows_;
  std::int64_t line_ = 0, lines_of_row_ = 0, lines_a_step_ = 0;
};

// The operands of a step.
struct Place {
  const std::byte *left, *right;
  std::int64_t left_step, right_step;

  // The first step of tile `i`.
  Place(const TileRun& run, std::int64_t i)
      : left(run.left),
        right(run.right + i * packed_panel_bytes(run.steps)),
        left_step(run.left_step),
        right_step(kRegisterBytes) {
    if (!goes_backwards(run, i)) return;
    left += (run.steps - 1) * left_step;
    right += (run.steps - 1) * right_step;
    left_step = -left_step;
    right_step = -right_step;
  }
  void next() {
    left += left_step;
    right += right_step;
  }
};

// The steps of a tile. Registers 0-3 hold the sums, 4 and 5 the left operand, 6 and 7 the right
// one; register numbers must be literals. The right operand comes from the second-level cache and
// bypasses the first. Operands are loaded a step ahead: those of the next tile are loaded before
// the sums of this one are stored, because loads wait for stores whose addresses share the low 12
// bits.
template <Rows kRows>
PHALANX_AMX void sum_tile(const TileRun& run, std::int64_t i, TileState& state,
                          NextStrip& next_strip) {
  const std::int64_t left_half = run.left_half, right_half = run.steps * kRegisterBytes;
  Place place(run, i);
  const Place next_tile(run, i + 1 < run.count ? i + 1 : i);
  Finisher<kRows> finisher(state, run.steps);
  RowsOfC rows_of_c(run, i);
  const std::int64_t fetched_rows = (kTileSide + run.steps - 1) / run.steps;
  for (std::int64_t step = 0; step < run.steps; ++step) {
    place.next();
    if (step + 1 == run.steps) place = next_tile;
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    _tile_stream_loadd(6, place.right, kLine);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(4, place.left, run.left_stride);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(5, place.left + left_half, run.left_stride);
    _tile_stream_loadd(7, place.right + right_half, kLine);
    next_strip.fetch();
    rows_of_c.fetch(fetched_rows);
    finisher.after(step);
  }
}

PHALANX_AMX void sum_tile(const TileRun& run, std::int64_t i, TileState& state,
                          NextStrip& next_strip) {
  switch (rows_of(state.pending)) {
    case Rows::kNone:
      return sum_tile<Rows::kNone>(run, i, state, next_strip);
    case Rows::kBf16:
      return sum_tile<Rows::kBf16>(run, i, state, next_strip);
    case Rows::kBf16WithBias:
      return sum_tile<Rows::kBf16WithBias>(run, i, state, next_strip);
    case Rows::kStore:
      return sum_tile<Rows::kStore>(run, i, state, next_strip);
    case Rows::kAdd:
      return sum_tile<Rows::kAdd>(run, i, state, next_strip);
    case Rows::kGelu:
      return sum_tile<Rows::kGelu>(run, i, state, next_strip);
    case Rows::kGeluGradient:
      return sum_tile<Rows::kGeluGradient>(run, i, state, next_strip);
    case Rows::kAny:
      return sum_tile<Rows::kAny>(run, i, state, next_strip);
  }
}

PHALANX_AMX void load_first_step(const TileRun& run) {
  const Place place(run, 0);
  _tile_stream_loadd(6, place.right, kLine);
  _tile_loadd(4, place.left, run.left_stride);
  _tile_loadd(5, place.left + run.left_half, run.left_stride);
  _tile_stream_loadd(7, place.right + run.steps * kRegisterBytes, kLine);
}

PHALANX_AMX void load_sums(const float* sums) {
  _tile_loadd(0, sums, kSumsStride);
  _tile_loadd(1, sums + kRegisterRows, kSumsStride);
  _tile_loadd(2, sums + kTileSums / 2, kSumsStride);
  _tile_loadd(3, sums + kTileSums / 2 + kRegisterRows, kSumsStride);
}

PHALANX_AMX void run_tiles(const TileRun& run, TileState& state) {
  finish_stores();
  load_first_step(run);
  NextStrip next_strip(run);
  for (std::int64_t i = 0; i < run.count; ++i) {
    if (run.before != nullptr) {
      load_sums(run.before + i * kTileSums);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    sum_tile(run, i, state, next_strip);
    float* const sums =
        run.after != nullptr ? run.after + i * kTileSums : state.buffers + state.next * kTileSums;
    _tile_stored(0, sums, kSumsStride);
    _tile_stored(2, sums + kTileSums / 2, kSumsStride);
    _tile_stored(1, sums + kRegisterRows, kSumsStride);
    _tile_stored(3, sums + kTileSums / 2 + kRegisterRows, kSumsStride);
    state.pending = {};
    if (run.after == nullptr) {
      state.pending = pending_tile(run, i, sums);
      state.next ^= 1;
    }
  }
  finish_stores();
}

constexpr TileKernel kInstructions{.prepare = prepare, .release = release, .run = run_tiles};

}  // namespace

const TileKernel& tile_kernel(Target target) {
  return target >= Target::kAmx ? kInstructions : tile_kernel_twin();
}

#else

const TileKernel& tile_kernel(Target /*target*/) { return tile_kernel_twin(); }

#endif

}  // namespace phalanx::cpu
