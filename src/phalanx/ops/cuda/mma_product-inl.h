#pragma once
// A product of 16-bit types on tensor cores: a block of 4 warps computes a tile of the result, in
// fp32, walking over the depth in steps of 32. While a step is computed, the next three come to
// shared memory. A number of the result is the sum of its 16 products at a time, in the order of
// the depth, whatever the tile and its place in it.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

// Two neighbours of a fragment.
template <typename T>
PHALANX_DEVICE std::uint32_t pack_two(float low, float high) {
  if constexpr (std::is_same_v<T, bf16>) {
    return pack_bf16(low, high);
  } else {
    return round_to<T>(low).bits | (static_cast<std::uint32_t>(round_to<T>(high).bits) << 16);
  }
}

// A matrix of lines (rows of the result, or its columns) by depth.
template <typename T>
struct MmaFactor {
  const T* data;        // aligned to 16 bytes
  std::int64_t stride;  // elements from a row in memory to the next, whole chunks of 16 bytes
  std::int64_t lines;   // that exist; whole chunks where lines are neighbours in memory
};

// kLines lines by one step of the depth in shared memory, in chunks of 16 bytes which lie so that
// ldmatrix meets no bank twice. kAlong: a row in memory is a line, else it is a place of the depth
// and has the lines as neighbours.
template <typename T, int kLines, bool kAlong>
struct MmaFactorTile {
  static constexpr int kThreads = 128;
  static constexpr int kDepth = 32;
  static constexpr int kNumbers = kLines * kDepth;
  static constexpr int kWidth = kAlong ? kDepth : kLines;  // of a row in memory
  static constexpr int kRows = kAlong ? kLines : kDepth;
  static constexpr int kChunks = kWidth / 8;

  PHALANX_DEVICE static int place(int row, int chunk) {
    return row * kWidth + (chunk ^ (kAlong ? row / 2 % 4 : row % 8)) * 8;
  }
  // The step that begins at `d` of a depth of `depth`; what is behind the end is 0.
  PHALANX_DEVICE static void fetch(Thread& t, const MmaFactor<T>& factor, std::int64_t d,
                                   std::int64_t depth, T* to) {
    // A thread's rows are a multiple of 8 apart: one place tells all.
    constexpr int kStep = kThreads / kChunks;
    static_assert(kStep % 8 == 0 && kRows % kStep == 0);
    const int chunk = t.index() % kChunks;
    int row = t.index() / kChunks;
    T* const target = to + place(row, chunk);
    const std::int64_t rows = kAlong ? factor.lines : depth - d;
    const std::int64_t width = kAlong ? depth - d : factor.lines;
    const T* from =
        factor.data + (kAlong ? d : d * factor.stride) + row * factor.stride + chunk * 8;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const bool valid = row < rows && chunk * 8 < width;
      t.cp_async16(target + i * kStep * kWidth, valid ? from : factor.data, valid);
      row += kStep;
      from += kStep * factor.stride;
    }
  }
  // 16 lines from `line` on by 16 of the depth from 16 k on. The left factor of mma has its lines'
  // halves in registers side by side, the right one those of the depth.
  template <bool kLeft>
  PHALANX_DEVICE static void load(Thread& t, const T* tile, int line, int k,
                                  std::uint32_t (&parts)[4]) {
    const int matrix = t.lane() / 8;
    const int of_line = kLeft ? matrix % 2 : matrix / 2;
    const int of_depth = kLeft ? matrix / 2 : matrix % 2;
    if constexpr (kAlong) {
      t.ldmatrix_x4(parts, tile + place(line + 8 * of_line + t.lane() % 8, 2 * k + of_depth));
    } else {
      t.ldmatrix_x4_trans(parts,
                          tile + place(16 * k + 8 * of_depth + t.lane() % 8, line / 8 + of_line));
    }
  }
};

// kRows by kColumns numbers of a result.
template <typename T, int kRows, int kColumns, bool kLeftAlong, bool kRightAlong>
struct MmaProduct {
  using Left = MmaFactorTile<T, kRows, kLeftAlong>;
  using Right = MmaFactorTile<T, kColumns, kRightAlong>;
  static constexpr int kThreads = Left::kThreads;
  static constexpr int kDepth = Left::kDepth;
  static constexpr int kStages = 4;
  static constexpr int kStageNumbers = Left::kNumbers + Right::kNumbers;
  static constexpr int kNumbers = kStages * kStageNumbers;  // in shared memory
  // Two warps share the rows, two the columns; a warp has blocks of 16 by 8.
  static constexpr int kRowBlocks = kRows / 32;
  static constexpr int kColumnBlocks = kColumns / 16;
  static_assert(kRows % 32 == 0 && kColumns % 32 == 0 && kRows * kColumns <= kNumbers);

  // What a step needs, in registers.
  struct Fragments {
    std::uint32_t left[kRowBlocks][4];
    std::uint32_t right[kColumnBlocks / 2][4];

    PHALANX_DEVICE void load(Thread& t, const T* stage, int k) {
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        Left::template load<true>(t, stage, first_row(t) + 16 * i, k, left[i]);
      }
#pragma unroll
      for (int j = 0; j < kColumnBlocks / 2; ++j) {
        Right::template load<false>(t, stage + Left::kNumbers, first_column(t) + 16 * j, k,
                                    right[j]);
      }
    }
  };
  using Sums = float[kRowBlocks][kColumnBlocks][4];

  PHALANX_DEVICE static int first_row(const Thread& t) { return t.warp() / 2 * (kRows / 2); }
  PHALANX_DEVICE static int first_column(const Thread& t) { return t.warp() % 2 * (kColumns / 2); }
  // Where numbers 2 half and 2 half + 1 of a block are in the tile.
  PHALANX_DEVICE static int row(const Thread& t, int i, int half) {
    return first_row(t) + 16 * i + t.lane() / 4 + 8 * half;
  }
  PHALANX_DEVICE static int column(const Thread& t, int j) {
    return first_column(t) + 8 * j + 2 * (t.lane() % 4);
  }

  PHALANX_DEVICE static void multiply(Thread& t, const Fragments& parts, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRowBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnBlocks / 2; ++j) {
        t.template mma<T>(sums[i][2 * j], parts.left[i], parts.right[j][0], parts.right[j][1]);
        t.template mma<T>(sums[i][2 * j + 1], parts.left[i], parts.right[j][2], parts.right[j][3]);
      }
    }
  }

  // sums += left right^T over a depth above 0. When it returns, nobody reads `memory` any more.
  PHALANX_DEVICE static void run(Thread& t, const MmaFactor<T>& left, const MmaFactor<T>& right,
                                 std::int64_t depth, T* memory, Sums& sums) {
    const auto steps = static_cast<int>((depth + kDepth - 1) / kDepth);
    const auto stage = [&](int step) { return memory + step % kStages * kStageNumbers; };
    const auto fetch = [&](int step) {
      if (step < steps) {
        const std::int64_t d = std::int64_t{step} * kDepth;
        Left::fetch(t, left, d, depth, stage(step));
        Right::fetch(t, right, d, depth, stage(step) + Left::kNumbers);
      }
      t.cp_commit();
    };
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) fetch(step);
    t.template cp_wait<kStages - 2>();
    t.sync();
    Fragments first;
    Fragments second;
    first.load(t, stage(0), 0);
    for (int step = 0; step < steps; ++step) {
      second.load(t, stage(step), 1);
      // Into the memory of the step before, which all have read.
      fetch(step + kStages - 1);
      multiply(t, first, sums);
      t.template cp_wait<kStages - 2>();
      t.sync();
      if (step + 1 < steps) first.load(t, stage(step + 1), 0);
      multiply(t, second, sums);
    }
  }
};

}  // namespace phalanx::cuda
