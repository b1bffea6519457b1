#pragma once
// The states that a save writes, as they were when it began, while training changes them. A writer
// reads the tiles one after the other from where they lie. An update that comes before the writer
// copies its tile into the snapshot's memory first, or, where that is full, waits until the tile is
// written. Tiles in files are lent to the writer when an update brings them into memory. Tiles in
// memory that only a device reads are always copied, by the rank's thread, in a queue that runs
// beside the step.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/checkpoint/part_writer.h"
#include "phalanx/data_parallel/tile_fence.h"
#include "phalanx/mesh/global_tensor.h"
#include "phalanx/rank/saved_tiles.h"
#include "phalanx/saving/snapshot_ring.h"
#include "phalanx/tensor/arena.h"

namespace phalanx {

// The save was given up while its writer was at work.
class SaveGivenUp : public std::exception {
 public:
  const char* what() const noexcept override { return "the save was given up"; }
};

class TileSnapshot final : public TileFence {
 public:
  // What the rank's thread does while it waits for the writer.
  struct Waiting {
    // Without a byte for so long; ten times as long before the writer has begun.
    std::chrono::milliseconds stalled_after = std::chrono::minutes(1);
    // Called when a wait becomes long; what it returns lives until the wait ends.
    std::function<std::shared_ptr<void>()> is_long = nullptr;
    StepTimers* timers = nullptr;
  };
  // `memory`: u8 on the host, for copies; empty: there is none. Tiles of a device need some: where
  // it is too small for one, the snapshot takes its own, for two of them. The rank, whose tiles
  // these are, must outlive the calls of its thread, and those of the writer's until give_up() has
  // returned.
  TileSnapshot(Rank& rank, std::span<const SavedTile> tiles, const Tensor& memory, Waiting waiting);

  // --- the rank's thread
  void before_update(Context& context, int tile, const TileElements& elements) override;
  // Lends the tiles in files that no update has brought, each until it is written; copies the tiles
  // of a device.
  void lend_rest(Rank& rank);
  // Whether an update does not read all of the tiles in files: they must be lent before it comes.
  bool must_be_lent() const;
  // Returns when the writer has read what it is reading; it reads nothing more. What waits, or
  // comes later, goes on.
  void give_up();
  bool is_given_up() const;
  // Whether an update has given up because the writer stalls.
  bool has_stalled() const;
  // After so long without a byte it does.
  std::chrono::milliseconds patience() const;
  // Since when the writer has written nothing, if it has something to write; else now.
  std::chrono::steady_clock::time_point still_since() const;
  // --- the writer's thread
  void begin_writing();
  // Writes all tiles in their order. `sign` is called after some of the bytes, and from time to
  // time while the writer waits for a tile. SaveGivenUp; OutputError.
  void stream(PartWriter& writer, const std::function<void()>& sign);

  // Any thread: the bytes that were handed to the file so far.
  std::int64_t written() const { return written_.load(std::memory_order_relaxed); }

 private:
  enum class State : std::uint8_t {
    kInPlace,  // in memory, or where the writer cannot read: partly in a file, or on a device
    kLent,     // all of it is in memory until it is written
    kCopied,   // in the snapshot's memory
    kWritten
  };
  struct Range {
    SavedRange saved;
    GlobalTensor part;  // how it lies in the global tensor
    const std::byte* source = nullptr;
  };
  struct Tile {
    int number = 0;
    std::vector<Range> ranges;
    std::int64_t bytes = 0;  // of a copy
    bool in_file = false;
    bool on_device = false;
    State state = State::kInPlace;

    // The writer cannot read it where it is.
    bool must_come() const { return in_file || on_device; }
  };
  // How far a tile is written.
  struct Position {
    std::size_t range = 0;
    std::size_t box = 0;
    std::int64_t row = 0;   // of the box
    std::int64_t byte = 0;  // of the rows that follow each other in memory
  };
  using Lock = std::unique_lock<std::mutex>;

  bool needs_nothing(const Tile& tile) const {
    return is_given_up_ || tile.state == State::kCopied || tile.state == State::kWritten;
  }
  static std::vector<Tile> tiles_of(const StateLayout& states,
                                    std::span<const SavedTile> saved_tiles);
  // What copies go to: `given`, or memory of its own.
  Tensor memory_for_copies(const Tensor& given);
  Tensor elements_of(const Range& range, const TileElements& elements) const;
  void lend(Tile& tile, const TileElements& elements);
  // Copies the tile to an offset of the snapshot's memory; where its ranges are then.
  std::vector<const std::byte*> copy(Context& context, const Tile& tile, std::int64_t offset,
                                     const TileElements& elements) const;
  // Until the writer's present read of the tile ends, which is one of memory.
  void wait_for_reader(Lock& lock, const Tile& tile);
  // Until the tile needs nothing more or has become `place` in the snapshot's memory; gives up
  // where the writer stalls.
  std::optional<std::int64_t> wait_for_writer(Lock& lock, const Tile& tile);
  static std::int64_t read_some(const Tile& tile, Position& at, std::span<std::byte> to);

  const StateLayout& states_;
  const bool has_mains_;
  const Waiting waiting_;
  std::vector<Tile> tiles_;
  std::vector<int> index_;  // by SavedTile::tile: in tiles_, or -1
  std::optional<Arena> own_memory_;
  const Tensor memory_;
  std::atomic<std::int64_t> written_{0};
  std::atomic<std::chrono::steady_clock::time_point> moved_{};  // when the last bytes were
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_all_written_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SnapshotRing ring_;
  const Tile* read_ = nullptr;  // by the writer, now
  bool is_given_up_ = false;
  bool has_stalled_ = false;
};

}  // namespace phalanx
