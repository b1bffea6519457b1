#pragma once
// Groups of rows (ops/grouped_linear.h): which group a row belongs to, and tiles of 64 rows, each
// of one group. How many rows groups have is known on the device alone.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

struct RowGroups {
  const std::int32_t* offsets;  // [count + 1]
  std::int64_t count;
  std::int64_t rows;  // of the tensors: no offset is believed beyond

  PHALANX_DEVICE std::int64_t offset(std::int64_t group) const {
    const std::int64_t at = offsets[group];
    return at < 0 ? 0 : at > rows ? rows : at;
  }
  // Of a row, or -1.
  PHALANX_DEVICE std::int64_t group_of(std::int64_t row) const {
    if (row < offset(0) || row >= offset(count)) return -1;
    std::int64_t low = 0;
    std::int64_t high = count;
    while (low + 1 < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (offset(middle) <= row) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

struct RowTile {
  std::int32_t group;  // -1: none
  std::int32_t begin;
  std::int32_t rows;
};

struct RowTilesKernel {
  static constexpr int kThreads = 256;
  static constexpr std::int64_t kRows = 64;
  struct Params {
    RowTile* tiles;
    std::int64_t most;  // tiles
    RowGroups groups;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }
  PHALANX_DEVICE static std::int64_t rows_of(const Params& p, std::int64_t group) {
    const std::int64_t rows = p.groups.offset(group + 1) - p.groups.offset(group);
    return rows < 0 ? 0 : rows;
  }
  PHALANX_DEVICE static std::int64_t tiles_of(const Params& p, std::int64_t group) {
    return (rows_of(p, group) + kRows - 1) / kRows;
  }
  // One block: a thread has every 256th group, and every 256th tile that stays empty.
  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    std::int64_t tile = 0;
    std::int64_t before = 0;
    for (std::int64_t group = t.index(); group < p.groups.count; group += kThreads) {
      for (; before < group; ++before) tile += tiles_of(p, before);
      const std::int64_t rows = rows_of(p, group);
      for (std::int64_t i = 0; i < tiles_of(p, group) && tile + i < p.most; ++i) {
        const std::int64_t left = rows - i * kRows;
        p.tiles[tile + i] = {static_cast<std::int32_t>(group),
                             static_cast<std::int32_t>(p.groups.offset(group) + i * kRows),
                             static_cast<std::int32_t>(left < kRows ? left : kRows)};
      }
    }
    for (; before < p.groups.count; ++before) tile += tiles_of(p, before);
    for (std::int64_t i = tile + t.index(); i < p.most; i += kThreads) p.tiles[i] = {-1, 0, 0};
  }
};

}  // namespace phalanx::cuda
