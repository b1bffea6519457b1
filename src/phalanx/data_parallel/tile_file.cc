#include "phalanx/data_parallel/tile_file.h"

#include <deque>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

TileFile::TileFile(Storage& storage, const std::string& name, DType dtype,
                   const StateLayout& states, const std::vector<bool>& is_here)
    : dtype_(dtype) {
  FileLayout layout(storage.block_bytes());
  for (std::size_t t = 0; t < states.tiles().size(); ++t) {
    const std::int64_t bytes = states.tiles()[t].local.count * size_of(dtype);
    offsets_.push_back(is_here[t] ? layout.add(bytes) : -1);
  }
  file_ = storage.create_file(name, layout);
}

Work TileFile::read(Context& context, int tile, const Tensor& to) const {
  return file_->read(context, offsets_[static_cast<std::size_t>(tile)], to);
}

Work TileFile::write(Context& context, int tile, const Tensor& from) const {
  return file_->write(context, offsets_[static_cast<std::size_t>(tile)], from);
}

TileStaging::TileStaging(std::int64_t elements, std::int64_t bytes_per_element, std::size_t tensors,
                         Arena& arena) {
  const std::int64_t bytes = round_up(elements * bytes_per_element, kStorageAlignment) +
                             static_cast<std::int64_t>(tensors) * kStorageAlignment;
  memory_ = allocate_staging(arena, DType::kU8, {kSlots * bytes});
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].memory_ = memory_.slice(0, static_cast<std::int64_t>(i) * bytes, bytes);
  }
}

Tensor TileStaging::Slot::take(DType dtype, std::int64_t count) {
  const std::int64_t bytes = round_up(count * size_of(dtype), kStorageAlignment);
  PHALANX_CHECK(used_ + bytes <= memory_.count(), "a tile of {} more bytes behind {} of {}", bytes,
                used_, memory_.count());
  Tensor tensor = dense_tensor(*memory_.arena, memory_.offset + used_, dtype, {count});
  used_ += bytes;
  return tensor;
}

Tensor TileStaging::read_once(Context& context, const TileFile& file, int tile,
                              std::int64_t count) {
  if (kept_file_ == &file && kept_tile_ == tile) return kept_;
  kept_ = next(context).take(file.dtype(), count);
  file.read(context, tile, kept_).wait(context.queue);
  kept_file_ = &file;
  kept_tile_ = tile;
  return kept_;
}

TileStaging::Slot& TileStaging::next(Context& context) {
  kept_file_ = nullptr;
  Slot& slot = slots_[turn_];
  turn_ = (turn_ + 1) % slots_.size();
  for (const Work& work : slot.pending_) work.wait(context.queue);
  slot.pending_.clear();
  slot.used_ = 0;
  return slot;
}

std::span<std::byte> TileStaging::memory() const {
  return {memory_.data(),
          static_cast<std::size_t>(memory_.data() == nullptr ? 0 : memory_.count())};
}

StateColumn::StateColumn(const std::string& name, DType dtype, const StateLayout& states,
                         Arena& memory, Storage* storage)
    : states_(&states), memory_(memory.allocate(dtype, {states.memory_elements()})) {
  if (states.memory_elements() == states.shard_elements()) return;
  PHALANX_CHECK(storage != nullptr, "{}: states in files that nobody opened", name);
  std::vector<bool> is_here;
  for (const StateLayout::Tile& tile : states.tiles()) is_here.push_back(tile.states_in_file);
  file_ = std::make_unique<TileFile>(*storage, name, dtype, states, is_here);
}

Tensor StateColumn::in_memory(const Segment& segment) const {
  PHALANX_CHECK(!states_->tile(segment).states_in_file, "element {} of {} lies in a file",
                segment.begin, states_->table()[segment.id].name);
  return memory_.slice(0, segment.memory, segment.count);
}

Tensor StateColumn::in_memory(const StateLayout::Tile& tile) const {
  PHALANX_CHECK(!tile.states_in_file, "elements {} to {} of the shard lie in a file",
                tile.local.begin, tile.local.end());
  return memory_.slice(0, tile.memory, tile.local.count);
}

Tensor part_of(const Tensor& tile, const StateLayout& states, const Segment& segment) {
  return tile.slice(0, segment.local - states.tile(segment).local.begin, segment.count);
}

namespace {

const TileFile* file_of(const TileAccess& access, int tile) {
  const TileFile* file = access.column != nullptr ? access.column->file() : access.file;
  return file != nullptr && file->has(tile) ? file : nullptr;
}

// A tile whose reads have started.
struct StartedTile {
  int tile = 0;
  TileStaging::Slot* slot = nullptr;  // null: all of it is in memory
  std::vector<Tensor> tensors;        // by access
  std::vector<Work> reads;
};

StartedTile start_reads(Context& context, const StateLayout& states, TileStaging* staging,
                        std::span<const TileAccess> accesses, int number) {
  const StateLayout::Tile& tile = states.tiles()[static_cast<std::size_t>(number)];
  StartedTile started{.tile = number, .tensors = {}, .reads = {}};
  for (const TileAccess& access : accesses) {
    const TileFile* file = file_of(access, number);
    if (file != nullptr && !access.reads && !access.writes) {
      started.tensors.emplace_back();
      continue;
    }
    if (file == nullptr) {
      started.tensors.push_back(access.column != nullptr ? access.column->in_memory(tile)
                                                         : Tensor{});
      continue;
    }
    if (started.slot == nullptr) started.slot = &staging->next(context);
    const Tensor tensor = started.slot->take(file->dtype(), tile.local.count);
    if (access.reads) {
      started.reads.push_back(file->read(context, number, tensor));
    } else {
      ops::fill(context, {.x = tensor, .value = 0.0});
    }
    started.tensors.push_back(tensor);
  }
  return started;
}

}  // namespace

void visit_tiles(Context& context, const StateLayout& states, TileStaging* staging,
                 std::span<const TileAccess> accesses,
                 const std::function<void(const StateLayout::Tile&, Tensors)>& body) {
  const int tiles = static_cast<int>(states.tiles().size());
  std::deque<StartedTile> started;
  int next = 0;
  for (int t = 0; t < tiles; ++t) {
    while (next < tiles && next <= t + 1) {
      started.push_back(start_reads(context, states, staging, accesses, next++));
    }
    const StartedTile tile = std::move(started.front());
    started.pop_front();
    for (const Work& read : tile.reads) read.wait(context.queue);
    body(states.tiles()[static_cast<std::size_t>(t)], tile.tensors);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const TileFile* file = file_of(accesses[i], t);
      if (file == nullptr || !accesses[i].writes) continue;
      tile.slot->hold(file->write(context, t, tile.tensors[i]));
    }
  }
}

}  // namespace phalanx
