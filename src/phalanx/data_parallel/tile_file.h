#pragma once
// A shard's moments, main parameters, gradients or weights, some tiles of which may lie in a file,
// and the memory through which those tiles are read and written.

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

// A file with a record for each tile that lies in it.
class TileFile {
 public:
  // `is_here`: by tile, whether it lies in this file. The layout must outlive this.
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

// Memory for the tiles that come from files, as slots that are used in turn.
class TileStaging {
 public:
  static constexpr int kSlots = 4;  // one is computed on, one is read, and two are written

  // `elements`: of the largest tile. `bytes_per_element`: of all its tensors that lie in files.
  TileStaging(std::int64_t elements, std::int64_t bytes_per_element, std::size_t tensors,
              Arena& arena);

  // The memory of one tile.
  class Slot {
   public:
    Tensor take(DType dtype, std::int64_t count);
    // Work that must be over before the slot is used again.
    void hold(const Work& work) { pending_.push_back(work); }

   private:
    friend class TileStaging;
    Tensor memory_;
    std::int64_t used_ = 0;
    std::vector<Work> pending_;
  };
  // Waits until the next slot in turn is free.
  Slot& next(Context& context);
  // Reads a tile of a file; it stays until the next turn. Asking for it again reads nothing.
  Tensor read_once(Context& context, const TileFile& file, int tile, std::int64_t count);
  // All slots: the storage registers them once.
  std::span<std::byte> memory() const;

 private:
  Tensor memory_;
  std::array<Slot, kSlots> slots_;
  std::size_t turn_ = 0;
  const TileFile* kept_file_ = nullptr;
  int kept_tile_ = -1;
  Tensor kept_;
};

// One number for each element of the shard. Its tiles lie in memory or in a file, as the layout
// says.
class StateColumn {
 public:
  StateColumn() = default;
  // `storage`: only if the layout has states in files.
  StateColumn(const std::string& name, DType dtype, const StateLayout& states, Arena& memory,
              Storage* storage);

  DType dtype() const { return memory_.dtype; }
  explicit operator bool() const { return memory_.defined(); }
  // All tiles that lie in memory.
  const Tensor& memory() const { return memory_; }
  // InternalError if it lies in a file.
  Tensor in_memory(const Segment& segment) const;
  Tensor in_memory(const StateLayout::Tile& tile) const;
  const TileFile* file() const { return file_.get(); }

 private:
  const StateLayout* states_ = nullptr;
  Tensor memory_;
  std::unique_ptr<TileFile> file_;
};

// What visit_tiles() does with a column: tiles in its file are read before the visit, written after
// it, or both. A tile that is not read is zeros.
struct TileAccess {
  const StateColumn* column = nullptr;
  const TileFile* file = nullptr;  // without a column; only its tiles have a tensor
  bool reads = true;
  bool writes = true;
};

// Calls body(tile, tensors) for each tile in order, with the tile's elements by access; a tensor is
// empty if the access has nothing of the tile. The next tile is read while one is worked on.
void visit_tiles(
    Context& context, const StateLayout& states, TileStaging* staging,
    std::span<const TileAccess> accesses,
    const std::function<void(const StateLayout::Tile&, std::span<const Tensor>)>& body);

// The elements of a segment, where `tile` has those of its tile.
Tensor part_of(const Tensor& tile, const StateLayout& states, const Segment& segment);

}  // namespace phalanx
