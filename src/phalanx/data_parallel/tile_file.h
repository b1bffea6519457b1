#pragma once
// A shard's moments, main parameters, gradients or weights. Some of its tiles may be in a file;
// they are read and written through staging memory.

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

// A file with a record for each of its tiles.
class TileFile {
 public:
  // `is_here`: by tile, whether this file has it. The layout must outlive this.
  TileFile(Storage& storage, const std::string& name, DType dtype, const StateLayout& states,
           const std::vector<bool>& is_here);

  DType dtype() const { return dtype_; }
  std::int64_t bytes() const { return file_->layout().bytes(); }  // on disk
  bool has(int tile) const { return offsets_[static_cast<std::size_t>(tile)] >= 0; }
  Work read(Context& context, int tile, const Tensor& to) const;
  Work write(Context& context, int tile, const Tensor& from) const;

 private:
  DType dtype_;
  std::vector<std::int64_t> offsets_;  // by tile; -1: not here
  std::unique_ptr<StateFile> file_;
};

// Memory for tiles from files: slots that are used in turn.
class TileStaging {
 public:
  static constexpr int kSlots = 4;  // one is computed on, one read, two written

  // `elements`: of the largest tile. `bytes_per_element`: of all its tensors in files.
  TileStaging(std::int64_t elements, std::int64_t bytes_per_element, std::size_t tensors,
              Arena& arena);

  // The memory of one tile.
  class Slot {
   public:
    Tensor take(DType dtype, std::int64_t count);
    // Work that must be over before the slot is reused.
    void hold(const Work& work) { pending_.push_back(work); }

   private:
    friend class TileStaging;
    Tensor memory_;
    std::int64_t used_ = 0;
    std::vector<Work> pending_;
  };
  // Waits until the next slot is free.
  Slot& next(Context& context);
  // Reads a tile of a file, which stays until the next turn. A second call reads nothing.
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

// One number for each element of the shard, in tiles that lie in memory or in a file.
class StateColumn {
 public:
  StateColumn() = default;
  // `storage`: only if the layout has states in files.
  StateColumn(const std::string& name, DType dtype, const StateLayout& states, Arena& memory,
              Storage* storage);

  DType dtype() const { return memory_.dtype; }
  explicit operator bool() const { return memory_.defined(); }
  // All tiles in memory.
  const Tensor& memory() const { return memory_; }
  // InternalError if it is in a file.
  Tensor in_memory(const Segment& segment) const;
  Tensor in_memory(const StateLayout::Tile& tile) const;
  const TileFile* file() const { return file_.get(); }

 private:
  const StateLayout* states_ = nullptr;
  Tensor memory_;
  std::unique_ptr<TileFile> file_;
};

// What visit_tiles() does with a column: reads tiles in its file before the visit, writes them
// after it, or both. An unread tile is zeros.
struct TileAccess {
  const StateColumn* column = nullptr;
  const TileFile* file = nullptr;  // without a column; only its tiles have a tensor
  bool reads = true;
  bool writes = true;
};

// Calls body(tile, tensors) for each tile in order; tensors has the tile's elements by access, or
// an empty tensor if the access has none. The next tile is read during the call.
void visit_tiles(Context& context, const StateLayout& states, TileStaging* staging,
                 std::span<const TileAccess> accesses,
                 const std::function<void(const StateLayout::Tile&, Tensors)>& body);

// The elements of a segment; `tile` is the tensor of its tile.
Tensor part_of(const Tensor& tile, const StateLayout& states, const Segment& segment);

}  // namespace phalanx
