#pragma once
// The innermost loops of the products of family `amx2`: tiles of C, 32 x 32, in four AMX registers.
// amx_product.h orders the tiles and copies their operands.
//
// The order of sums is that of the instruction: a step takes 32 elements of depth. For every
// element of C, one chain of fused multiply-adds sums the 16 even elements from zero, another the
// 16 odd ones; their sum is added to C. A tile takes its steps forwards or backwards. Every
// operation rounds to nearest even and treats subnormal operands and results as zeros.
//
// There are two programs for the same bits: AMX's instructions, and a twin in plain C++ for
// processors without them, on which tests of this family run.

#include <cstddef>
#include <cstdint>

#include "phalanx/ops/cpu/product_epilogue.h"
#include "phalanx/ops/cpu/target.h"

namespace phalanx::cpu {

inline constexpr std::int64_t kTileSide = 32;         // rows and columns of a tile
inline constexpr std::int64_t kTileSums = 32 * 32;    // floats
inline constexpr std::int64_t kStepDepth = 32;        // elements of depth in a step
inline constexpr std::int64_t kRegisterBytes = 1024;  // 16 rows of 64 bytes
inline constexpr std::int64_t kRegisterRows = 16;
// Bytes of 32 packed lines: a strip or a panel.
constexpr std::int64_t packed_panel_bytes(std::int64_t steps) { return 2 * steps * kRegisterBytes; }

// How the sums of a tile come to C. The kinds but the last two need a whole tile.
struct TileFinish {
  enum class Kind {
    kBf16,          // c = bf16 of sum (+ bias)
    kStore,         // c = sum, f32
    kAdd,           // c += sum, f32
    kGelu,          // the epilogue's activation, of bf16: GeLU by tanh
    kGeluGradient,  // and its gradient
    kAny,           // what the epilogue says, rows at a time
    kTransposed,    // the tile is of C transposed; the epilogue sees C
  };
  Kind kind = Kind::kAny;
  const Epilogue* epilogue = nullptr;
  const float* bias = nullptr;  // for kBf16: [columns of C], or null
};

// A tile whose sums are complete, but not yet in C.
struct PendingTile {
  const float* sums = nullptr;  // [32][32]; null: none is pending
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t done = 0;  // rows
  TileFinish finish = {};
};

// What a thread keeps between runs of tiles: a tile is finished between the steps of the next.
struct TileState {
  float* buffers = nullptr;  // of two tiles, and of one more for transposing
  int next = 0;
  PendingTile pending = {};
};
inline constexpr std::int64_t kTileBufferBytes = 3 * kTileSums * 4;

// A strip of the left operand by some panels of the right one: neighbouring tiles of C.
struct TileRun {
  std::int64_t steps = 0;
  std::int64_t count = 0;  // tiles
  bool backwards = false;  // the direction of the first tile
  bool alternates = true;  // whether neighbours have opposite ones
  // The left operand: two registers of 16 rows by 32 depths in a step. Strides are in bytes.
  const std::byte* left = nullptr;
  std::int64_t left_stride = 0;  // from row to row
  std::int64_t left_half = 0;    // from the first register to the second
  std::int64_t left_step = 0;
  // The right operand, packed: [panel][half][step][16 pairs of depth][16 columns].
  const std::byte* right = nullptr;
  // Sums of earlier blocks of depth, and where those of this block go: [tile][32][32]. Null for
  // none.
  const float* before = nullptr;
  float* after = nullptr;
  // The first tile in C (kTransposed: in C transposed), and the ends of C.
  std::int64_t row = 0, column = 0;
  std::int64_t row_end = 0, column_end = 0;
  TileFinish finish = {};
  bool fetches_c = false;  // C is fetched into the first-level cache while a tile is summed
  // Rows of the next strip, `left_stride` apart, to fetch into the second-level cache; null for
  // none.
  const std::byte* next_left = nullptr;
  std::int64_t next_rows = 0;
};

inline bool goes_backwards(const TileRun& run, std::int64_t tile) {
  return run.backwards != (run.alternates && tile % 2 != 0);
}

struct TileKernel {
  // Called on a thread before its first run and after its last.
  void (*prepare)();
  void (*release)();
  void (*run)(const TileRun& run, TileState& state);
};

// AMX's instructions if the target has them, else the twin.
const TileKernel& tile_kernel(Target target);
// For tests.
const TileKernel& tile_kernel_twin();

// ---- for the two programs

// Brings rows [pending.done, end) to C by the epilogue; whole tiles where `kind` says so.
void finish_rows(PendingTile& pending, std::int64_t end, float* transposed);
// All that is left.
void finish_pending(TileState& state);
// The place of tile `i` of a run.
PendingTile pending_tile(const TileRun& run, std::int64_t i, const float* sums);

}  // namespace phalanx::cpu
