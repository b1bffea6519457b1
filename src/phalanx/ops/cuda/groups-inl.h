#pragma once
// Groups of rows (ops/grouped_linear.h): which group a row belongs to, and tiles of rows, each of
// one group. How many rows groups have is known on the device alone.

#include "phalanx/cuda/simt.h"

namespace phalanx::cuda {

struct RowTile {
  std::int32_t group;  // -1: none
  std::int32_t begin;
  std::int32_t rows;
};

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
  // Number `n` of the tiles of kSide rows that groups are cut into, each from its beginning. All
  // lanes of a warp ask for the same one: a lane looks at every 32nd group.
  template <int kSide>
  PHALANX_DEVICE RowTile tile(Thread& t, std::int64_t n) const {
    std::int64_t before = 0;  // tiles of the groups so far
    for (std::int64_t first = 0; first < count; first += 32) {
      const std::int64_t group = first + t.lane();
      const std::int64_t begin = group < count ? offset(group) : 0;
      const std::int64_t own_rows = group < count ? offset(group + 1) - begin : 0;
      const std::int64_t tiles = own_rows < 0 ? 0 : (own_rows + kSide - 1) / kSide;
      std::int64_t end = tiles;  // of this group's tiles, behind `before`
      for (int distance = 1; distance < 32; distance *= 2) {
        const std::int64_t other = t.shuffle(end, t.lane() - distance);
        if (t.lane() >= distance) end += other;
      }
      const std::int64_t at = n - before - (end - tiles);  // the tile of this group
      const std::uint32_t found = t.ballot(at >= 0 && at < tiles);
      if (found != 0) {
        int lane = 0;
        while ((found >> lane & 1U) == 0) ++lane;
        const std::int64_t row = t.shuffle(begin + at * kSide, lane);
        const std::int64_t left = t.shuffle(own_rows - at * kSide, lane);
        return {static_cast<std::int32_t>(first + lane), static_cast<std::int32_t>(row),
                static_cast<std::int32_t>(left < kSide ? left : kSide)};
      }
      before += t.shuffle(end, 31);
    }
    return {-1, 0, 0};
  }
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
