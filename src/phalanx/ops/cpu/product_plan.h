#pragma once
// How a matrix product is done: a function of shapes, types, kernel, caches and number of threads
// alone.
//
// Bits do not depend on a plan: the depth is summed in order, in blocks that depend only on its
// length and the kernel's family, and one thread at a time works on an element of C.
//
// From outside to inside (after Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication, 2008): spans of depth, of rows and of columns, whose operands are packed by all
// threads together; tasks, a block of rows by a block of columns; blocks of depth; panels of
// columns; slivers of rows; a tile in registers.

#include <cstdint>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/panel_kernel.h"

namespace phalanx::cpu {

struct ProductShape {
  std::int64_t rows = 0, columns = 0,
               depth = 0;  // of C[rows, columns] = A[rows, depth] B[depth, columns]
  // How the operands lie: elements from line to line or from depth to depth, and their types.
  struct Operand {
    DType dtype = DType::kF32;
    std::int64_t stride = 0;
    bool depth_inner = false;
  };
  Operand a, b;
  bool plain = false;  // C is f32 and takes sums as they are, or adds them
};

struct ProductPlan {
  // For a product with at least one row, column and depth.
  ProductPlan(const ProductShape& shape, const PanelKernel& kernel, int threads,
              const Caches& caches = {});

  enum class Place {
    kAsItLies,  // not packed: tiles read it in place
    kTask,      // packed by the task that reads it (only the left operand)
    kTeam,      // packed by all threads for all of them
  };
  enum class Sums {
    kInC,
    kTile,   // of one block of depth: on their way from a tile to C
    kBlock,  // of a task
    kSpan,   // of all rows of a span, beside C
  };

  // Blocks that are turned have whole vectors of rows, of any target.
  static constexpr std::int64_t kTurned = 16;

  // The left operand's lines are rows, the right one's columns. Swapped: A is the right one, and
  // what comes out is C transposed - where A has few rows, and B too many to be packed for them.
  bool swapped = false;
  std::int64_t rows = 0, columns = 0, depth = 0;

  Place left = Place::kTeam;
  Place right = Place::kTeam;
  Left layout = Left::kRows;
  Sums sums = Sums::kBlock;

  std::int64_t depth_block = 0;  // elements; so are all depths
  std::int64_t row_block = 0, row_span = 0;
  std::int64_t panel_block = 0, panel_span = 0;  // panels
  std::int64_t depth_span = 0;

  // Bytes: of the team, and of each thread.
  std::int64_t left_bytes = 0, right_bytes = 0, span_sums_bytes = 0;
  std::int64_t thread_left_bytes = 0, thread_sums_bytes = 0, thread_turned_bytes = 0;
  std::int64_t thread_bytes() const {
    return thread_left_bytes + thread_sums_bytes + thread_turned_bytes;
  }
  std::int64_t workspace_bytes(int threads) const {
    return left_bytes + right_bytes + span_sums_bytes + threads * thread_bytes();
  }

  // Columns are cut into panels: of full width as many as leave none of a single vector beside
  // them.
  std::int64_t panel_begin(std::int64_t panel) const;
  std::int64_t panels() const { return wide_panels + narrow_panels; }
  std::int64_t wide_panels = 0, narrow_panels = 0;
  int wide = 0, narrow = 0;  // columns
  std::int64_t padded_columns() const { return panel_begin(panels()); }
  std::int64_t block_columns() const;  // at most

  std::int64_t groups(std::int64_t elements) const;  // of the depth, with padding
  const PanelKernel* kernel;

 private:
  void cut_columns();
  void place_operands(const ProductShape::Operand& left_operand,
                      const ProductShape::Operand& right_operand, const Caches& caches);
  void choose_blocks(int threads);
  void choose_spans(bool plain, int threads);
  void count_memory();
  std::int64_t groups_of_span() const;
};

// The length of the blocks in which a depth is summed, more than 0 for no depth either.
std::int64_t depth_block_of(std::int64_t depth, const PanelKernel& kernel);

}  // namespace phalanx::cpu
