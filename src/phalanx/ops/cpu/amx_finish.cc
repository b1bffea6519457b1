#include <algorithm>

#include "phalanx/ops/cpu/amx_tiles.h"

namespace phalanx::cpu {
namespace {

// The tile is of C transposed: its columns are rows of C.
void finish_transposed(const PendingTile& tile, float* transposed) {
  transpose_sums(tile.sums, kTileSide, kTileSide, kTileSide, transposed, kTileSide);
  finish(*tile.finish.epilogue, {.row = tile.column,
                                 .column = tile.row,
                                 .rows = tile.columns,
                                 .columns = tile.rows,
                                 .sums = transposed,
                                 .stride = kTileSide});
}

}  // namespace

void finish_rows(PendingTile& pending, std::int64_t end, float* transposed) {
  if (pending.finish.kind == TileFinish::Kind::kTransposed) {
    if (pending.done == 0) finish_transposed(pending, transposed);
    pending.done = kTileSide;
    return;
  }
  const std::int64_t last = std::min(end, pending.rows);
  if (pending.done < last) {
    finish(*pending.finish.epilogue, {.row = pending.row + pending.done,
                                      .column = pending.column,
                                      .rows = last - pending.done,
                                      .columns = pending.columns,
                                      .sums = pending.sums + pending.done * kTileSide,
                                      .stride = kTileSide});
  }
  pending.done = end;
}

void finish_pending(TileState& state) {
  if (state.pending.sums == nullptr) return;
  finish_rows(state.pending, kTileSide, state.buffers + 2 * kTileSums);
  state.pending = {};
}

PendingTile pending_tile(const TileRun& run, std::int64_t i, const float* sums) {
  PendingTile tile{
      .sums = sums, .row = run.row, .column = run.column + i * kTileSide, .finish = run.finish};
  tile.rows = std::min(kTileSide, run.row_end - tile.row);
  tile.columns = std::min(kTileSide, run.column_end - tile.column);
  const bool is_whole = tile.rows == kTileSide && tile.columns == kTileSide;
  if (!is_whole && tile.finish.kind != TileFinish::Kind::kTransposed) {
    tile.finish.kind = TileFinish::Kind::kAny;
  }
  return tile;
}

}  // namespace phalanx::cpu
