#pragma once
// How a product of family `amx2` is computed: a function of shape, layouts and threads alone. Bits
// depend on shape and layouts, not on threads.
//
// C is cut into tiles of 32 x 32 (amx_tiles.h). A strip is 32 rows, a panel 32 columns. The depth
// is summed in blocks; tiles of even panels of C take every block forwards, the others backwards,
// so that a tile starts with what the one before has left in the first-level cache. So the bits of
// a row of C do not depend on the other rows.
//
// Loops, outermost first: spans of rows and of panels; blocks of depth, whose right operand all
// threads pack together; tasks, some strips by some panels; sets of panels; strips; tiles. A set
// stays in the second-level cache while the strips pass.

#include <cstdint>

#include "phalanx/ops/cpu/product_plan.h"

namespace phalanx::cpu {

struct AmxPlan {
  // The product has at least one row, column and depth; both operands are bf16.
  AmxPlan(const ProductShape& shape, int threads);

  // A is the right operand, and tiles are of C transposed: then B is read as it lies.
  bool swapped = false;
  std::int64_t rows = 0, columns = 0, depth = 0;

  // Tasks pack the strips of the left operand, whose depth is not contiguous. Otherwise strips are
  // read as they lie, or are copied one at a time where `copies_rows` says so.
  bool packs_left = false;
  bool copies_rows = false;
  bool in_c = false;       // blocks of depth are added in C; otherwise in a buffer
  bool fetches_c = false;  // an f32 C that is added to comes from beyond the second-level cache

  std::int64_t depth_block = 0;                                 // elements, whole steps
  std::int64_t row_block = 0, row_span = 0;                     // rows, whole strips
  std::int64_t panel_set = 0, panel_block = 0, panel_span = 0;  // panels

  std::int64_t strips() const;
  std::int64_t panels() const;
  std::int64_t depth_blocks() const;

  // Bytes of the team, and of each thread.
  std::int64_t right_bytes = 0, sums_bytes = 0;
  std::int64_t thread_left_bytes = 0, thread_bias_bytes = 0, thread_bytes = 0;
  // As ProductPlan's.
  static std::int64_t most_workspace_bytes(const ProductShape& most, int threads);
  std::int64_t workspace_bytes(int threads) const {
    return right_bytes + sums_bytes + threads * thread_bytes;
  }

 private:
  void choose_depth_block(const ProductShape& shape);
  void choose_blocks(int threads);
  void choose_spans(int threads);
  void count_memory();
};

}  // namespace phalanx::cpu
