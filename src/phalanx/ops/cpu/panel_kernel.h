#pragma once
// The innermost loops of matrix products. A tile of C stays in registers while it is summed over a
// block of depth. matrix_product.h copies operands, orders tiles and handles finished ones.
//
// Operands are groups of 32 bits: one float, or two bf16 that are adjacent in depth. A tile
// multiplies `rows` rows of the left operand by up to `columns` columns of the right one. It sums
// every element of C in the order of depth, for every tile size and instruction set.

#include <array>
#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

// The layout of the left operand: depth is contiguous in a row, or rows are contiguous in a depth.
enum class Left { kRows, kColumns };

// One tile. Strides are in groups, those of sums in floats.
struct TileOperands {
  std::int64_t depth = 0;           // groups, a multiple of PanelKernel::depth_step
  const std::byte* left = nullptr;  // its stride goes from row to row or depth to depth
  std::int64_t left_stride = 0;
  const std::byte* right = nullptr;  // [depth][columns]
  std::int64_t right_stride = 0;
  float* sums = nullptr;  // [rows][columns]
  std::int64_t sums_stride = 0;
  bool add = false;                      // add to the present sums
  const std::byte* next_left = nullptr;  // left operand of the next tile, to prefetch
};
using TileFunction = void (*)(const TileOperands& tile);

struct PanelKernel {
  static constexpr int kMostWidths = 3;

  const char* name;
  DType operand;   // of both sides: f32, or bf16
  int group;       // elements of the depth in a group
  int depth_step;  // depths are multiples of this many groups
  int rows;
  int width;          // columns of the narrowest tile, a vector
  int widths;         // tiles have 1 to `widths` times that
  bool left_columns;  // also takes a left operand by columns
  // Indexed by layout of the left operand and by width.
  std::array<std::array<TileFunction, kMostWidths>, 2> tiles;

  int columns() const { return width * widths; }
  void run(Left left, int tile_widths, const TileOperands& tile) const {
    tiles[static_cast<std::size_t>(left)][static_cast<std::size_t>(tile_widths - 1)](tile);
  }
};

// The kernel of a family of products on a target; `amx2` has tiles of its own (amx_tiles.h). Its
// sizes may be read on every processor; its tiles run only on processors with the family and the
// target.
const PanelKernel& panel_kernel(ProductPrecision family, Target target);

}  // namespace phalanx::cpu
