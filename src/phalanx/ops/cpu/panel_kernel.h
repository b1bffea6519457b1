#pragma once
// The innermost loops of matrix products: tiles of C that stay in registers while they are summed
// over a block of the depth. What lies around them - which operands are copied, in which order
// tiles are done, what happens to finished ones - is matrix_product.h's.
//
// Operands are groups of 32 bits: one float, or two bf16 that lie behind one another in depth. A
// tile multiplies `rows` rows of the left operand by up to `columns` columns of the right one, and
// sums every element of C in the order of the depth, whatever the tile and the instruction set.

#include <array>
#include <cstddef>
#include <cstdint>

#include "phalanx/base/dtype.h"
#include "phalanx/ops/cpu/device.h"

namespace phalanx::cpu {

// The layout of the left operand: along the depth within a row, or along the rows within a depth.
enum class Left { kRows, kColumns };

// One tile. Strides are in groups, those of sums in floats.
struct TileOperands {
  std::int64_t depth = 0;           // groups, a multiple of PanelKernel::depth_step
  const std::byte* left = nullptr;  // from row to row, or from depth to depth:
  std::int64_t left_stride = 0;
  const std::byte* right = nullptr;  // [depth][columns]
  std::int64_t right_stride = 0;
  float* sums = nullptr;  // [rows][columns]
  std::int64_t sums_stride = 0;
  bool add = false;                      // to what sums hold
  const std::byte* next_left = nullptr;  // fetched meanwhile: the left operand of the next tile
};
using TileFunction = void (*)(const TileOperands& tile);

struct PanelKernel {
  static constexpr int kMostWidths = 3;

  const char* name;
  DType operand;   // of both sides: f32, or bf16
  int group;       // elements of the depth in a group
  int depth_step;  // groups that depths are multiples of
  int rows;
  int width;          // columns of the narrowest tile, a vector
  int widths;         // tiles have 1 to `widths` times that
  bool left_columns;  // takes a left operand by columns too
  // Called on a thread before its first tile and after its last: they set a state of the processor.
  // Optional.
  void (*prepare)();
  void (*release)();
  // By layout of the left operand and by width.
  std::array<std::array<TileFunction, kMostWidths>, 2> tiles;

  int columns() const { return width * widths; }
  void run(Left left, int tile_widths, const TileOperands& tile) const {
    tiles[static_cast<std::size_t>(left)][static_cast<std::size_t>(tile_widths - 1)](tile);
  }
};

// While this object lives, its thread may run tiles of a kernel.
class KernelUse {
 public:
  explicit KernelUse(const PanelKernel& kernel) : release_(kernel.release) {
    if (kernel.prepare != nullptr) kernel.prepare();
  }
  ~KernelUse() {
    if (release_ != nullptr) release_();
  }
  KernelUse(const KernelUse&) = delete;
  KernelUse& operator=(const KernelUse&) = delete;

 private:
  void (*release_)();
};

// The kernel of a family of products on a target. Its tiles run on processors that have both; its
// sizes are there on every one.
const PanelKernel& panel_kernel(ProductPrecision family, Target target);

}  // namespace phalanx::cpu
