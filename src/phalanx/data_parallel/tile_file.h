#pragma once
// One number of every element of a shard - a moment, a main parameter, a gradient, a weight - of
// which some tiles may lie in a file, and the memory that these pass through.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/data_parallel/state_layout.h"
#include "phalanx/offload/storage.h"
#include "phalanx/tensor/tensor.h"

namespace phalanx {

// A record for each tile that is here.
class TileFile {
 public:
  // `is_here` by tile. The layout must outlive this.
  TileFile(Storage& storage, const std::string& name, DType dtype, const StateLayout& states,
           const std::vector<bool>& is_here);

  DType dtype() const { return dtype_; }
  std::int64_t bytes() const { return file_->layout().bytes(); }  // of the disk
  bool has(int tile) const { return offsets_[static_cast<std::size_t>(tile)] >= 0; }
  Work read(Context& context, int tile, const Tensor& to) const;
  Work write(Context& context, int tile, const Tensor& from) const;

 private:
  DType dtype_;
  std::vector<std::int64_t> offsets_;  // by tile; -1: it is not here
  std::unique_ptr<StateFile> file_;
};

// Memory that tiles pass through, in turns.
class TileStaging {
 public:
  static constexpr int kSlots = 4;  // one is computed, one comes, and some go

  // Of tiles of so many elements, and bytes of each that are in files.
  TileStaging(std::int64_t elements, std::int64_t bytes_per_element, std::size_t tensors,
              Arena& arena);

  // The memory of one tile.
  class Slot {
   public:
    Tensor take(DType dtype, std::int64_t count);
    // What must be over before the slot is used again.
    void hold(const Work& work) { pending_.push_back(work); }

   private:
    friend class TileStaging;
    Tensor memory_;
    std::int64_t used_ = 0;
    std::vector<Work> pending_;
  };
  // The next in turn, when it is free.
  Slot& next(Context& context);
  // A tile of a file, which stays until the next turn: who asks for it again has it.
  Tensor keep(Context& context, const TileFile& file, int tile, std::int64_t count);
  // For the storage: memory that is used again and again.
  std::span<std::byte> memory() const;

 private:
  Tensor memory_;
  std::array<Slot, kSlots> slots_;
  std::size_t turn_ = 0;
  const TileFile* kept_file_ = nullptr;
  int kept_tile_ = -1;
  Tensor kept_;
};

// In memory where the layout has the states in memory, else in a file.
class StateColumn {
 public:
  StateColumn() = default;
  // `storage`: where the layout has states in files.
  StateColumn(const std::string& name, DType dtype, const StateLayout& states, Arena& memory,
              Storage* storage);

  DType dtype() const { return memory_.dtype; }
  explicit operator bool() const { return memory_.defined(); }
  // All that lies in memory.
  const Tensor& memory() const { return memory_; }
  // InternalError where it lies in a file.
  Tensor in_memory(const Segment& segment) const;
  Tensor in_memory(const StateLayout::Tile& tile) const;
  const TileFile* file() const { return file_.get(); }

 private:
  const StateLayout* states_ = nullptr;
  Tensor memory_;
  std::unique_ptr<TileFile> file_;
};

// What a visit of the tiles does with a column: tiles that lie in its file come, or go, or both.
// Those that do not come are zeros at first.
struct TileAccess {
  const StateColumn* column = nullptr;  // or
  const TileFile* file = nullptr;       // of what else lies elsewhere
  bool reads = true;
  bool writes = true;
};

// body(tile, tensors): of each access the tile's elements; an empty tensor where a file has them
// not. In the order of the tiles; the next one's come while one is worked on.
void visit_tiles(
    Context& context, const StateLayout& states, TileStaging* staging,
    std::span<const TileAccess> accesses,
    const std::function<void(const StateLayout::Tile&, std::span<const Tensor>)>& body);

// The elements of a segment in a tensor of its tile's.
Tensor part_of(const Tensor& tile, const StateLayout& states, const Segment& segment);

}  // namespace phalanx
