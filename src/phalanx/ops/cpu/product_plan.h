#pragma once
// How a matrix product is computed: a function of shapes, types, kernel, caches and threads alone.
//
// Bits do not depend on a plan. The depth is summed in order, in blocks that depend only on its
// length and the kernel's family, and one thread at a time works on an element of C.
//
// Loops, outermost first (after Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication, 2008): spans of depth, rows and columns, whose operands all threads pack
// together; tasks, a block of rows by a block of columns; blocks of depth; slivers of rows and
// panels of columns; a tile in registers.
//
// One operand's block stays in the second-level cache while the other one passes. Mostly that is
// the right one: a task packs some panels for all of its rows, sliver by sliver. Where the left
// operand is the larger one and has to be packed, a task packs a few rows of it for all panels.

#include <cstdint>

#include "phalanx/ops/cpu/device.h"
#include "phalanx/ops/cpu/panel_kernel.h"

namespace phalanx::cpu {

struct ProductShape {
  std::int64_t rows = 0, columns = 0,
               depth = 0;  // of C[rows, columns] = A[rows, depth] B[depth, columns]
  // The layout of an operand: the stride between lines or between depths, and the type.
  struct Operand {
    DType dtype = DType::kF32;
    std::int64_t stride = 0;
    bool depth_inner = false;
  };
  Operand a, b;
  bool plain = false;  // C is f32 and takes or adds the sums unchanged
  bool f32 = false;    // C is f32
  // Elements of the matrix of which C is a part; 0: C is all of it. A part has the whole's bits.
  std::int64_t whole_elements = 0;
};

struct ProductPlan {
  // The product has at least one row, column and depth.
  ProductPlan(const ProductShape& shape, const PanelKernel& kernel, int threads,
              const Caches& caches = {});

  enum class Place {
    kAsItLies,  // not packed: tiles read it in place, but for rows that fill no tile
    kTask,      // the task that reads it packs it, a block of depth at a time; not both operands
    kTeam,      // all threads pack it for all tasks
  };
  // Where sums are between two blocks of depth.
  enum class Sums {
    kInC,    // the last block finishes them there
    kTile,   // nowhere: there is one block; a buffer between a tile and C
    kBlock,  // buffer for a task
    kSpan,   // buffer for all rows of a span
  };

  // Transposed blocks are padded to whole vectors of rows on any target.
  static constexpr std::int64_t kTransposedRows = 16;

  // The left operand's lines are rows, the right one's columns. Swapped: A is the right operand,
  // and the result is C transposed. Used when A has few rows and B is too large to pack for them.
  bool swapped = false;
  std::int64_t rows = 0, columns = 0, depth = 0;

  Place left = Place::kTeam;
  Place right = Place::kTeam;
  // A block of the right operand stays in the second-level cache while rows pass it; else a block
  // of the left operand while panels do.
  bool right_stays = false;
  Left layout = Left::kRows;
  Sums sums = Sums::kBlock;

  std::int64_t depth_block = 0;  // elements; so are all depths
  std::int64_t row_block = 0, row_span = 0;
  std::int64_t panel_block = 0, panel_span = 0;  // panels
  std::int64_t depth_span = 0;

  // Bytes of the team, and of each thread.
  std::int64_t left_bytes = 0, right_bytes = 0, span_sums_bytes = 0;
  std::int64_t thread_left_bytes = 0, thread_right_bytes = 0;
  std::int64_t thread_sums_bytes = 0, thread_transposed_bytes = 0;
  std::int64_t thread_bytes() const {
    return thread_left_bytes + thread_right_bytes + thread_sums_bytes + thread_transposed_bytes;
  }
  // At least the bytes of every product of this kind with at most these rows and columns and this
  // depth: how many rows a product has may be known too late for a plan of memory.
  static std::int64_t most_workspace_bytes(const ProductShape& most, const PanelKernel& kernel,
                                           int threads, const Caches& caches = {});
  std::int64_t workspace_bytes(int threads) const {
    return left_bytes + right_bytes + span_sums_bytes + threads * thread_bytes();
  }

  // Columns are cut into panels: as many full ones as possible without a panel of one vector.
  std::int64_t panel_begin(std::int64_t panel) const;
  std::int64_t panels() const { return wide_panels + narrow_panels; }
  std::int64_t wide_panels = 0, narrow_panels = 0;
  int wide = 0, narrow = 0;  // columns
  std::int64_t padded_columns() const { return panel_begin(panels()); }
  std::int64_t block_columns() const;  // the largest

  std::int64_t groups(std::int64_t elements) const;  // of the depth, padded
  const PanelKernel* kernel;

 private:
  // Of a task, at most.
  struct Most {
    std::int64_t rows = 0, panels = 0;
  };

  void cut_columns();
  void place_operands(const ProductShape::Operand& left_operand,
                      const ProductShape::Operand& right_operand);
  Most largest_task(int threads, const Caches& caches) const;
  void choose_blocks(int threads, const Most& most);
  void choose_spans(int threads);
  void count_memory();
  std::int64_t groups_of_span() const;
  // Of a panel over so many groups, padded.
  std::int64_t panel_bytes(std::int64_t groups) const;
};

// The length of the blocks in which a depth is summed; positive even for depth 0.
std::int64_t depth_block_of(std::int64_t depth, const PanelKernel& kernel);

}  // namespace phalanx::cpu
