#include "phalanx/offload/storage.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/numeric.h"

namespace phalanx {
StateFile::StateFile(std::string name, FileLayout layout)
    : name_(std::move(name)),
      layout_(std::move(layout)),
      written_(static_cast<std::size_t>(layout_.blocks())) {}

StateFile::Range StateFile::range_to_write(std::int64_t offset, std::int64_t bytes) {
  const FileLayout::Blocks blocks = layout_.blocks_of(offset, bytes);
  std::fill_n(written_.begin() + blocks.first, blocks.count, true);
  return {offset, bytes, blocks.first};
}

StateFile::Range StateFile::range_to_read(std::int64_t offset, std::int64_t bytes) const {
  const FileLayout::Blocks blocks = layout_.blocks_of(offset, bytes);
  const auto first = written_.begin() + blocks.first;
  PHALANX_CHECK(std::all_of(first, first + blocks.count, [](bool written) { return written; }),
                "{}: {} bytes from {} on are read before they were written", name_, bytes, offset);
  return {offset, bytes, blocks.first};
}

std::uint64_t StateFile::note(Context& context, std::string_view op, const Tensor& tensor) const {
  PHALANX_CHECK(tensor.defined() && tensor.contiguous(), "{}: {}: no contiguous tensor", name_, op);
  PHALANX_CHECK(tensor.space != MemorySpace::kDevice, "{}: {}: the tensor is not in host memory",
                name_, op);
  if (context.recorder == nullptr) return 0;
  const std::uint64_t number = context.recorder->next_work();
  context.recorder->record(
      TransferBegun{.place = name_, .op = op, .bytes = tensor.bytes(), .work = number});
  return number;
}

Work StateFile::write(Context& context, std::int64_t offset, const Tensor& tensor) {
  const Range range = range_to_write(offset, tensor.bytes());
  const std::uint64_t number = note(context, "write", tensor);
  return recorded(context.recorder, number, start_write(range, tensor.data()));
}

Work StateFile::read(Context& context, std::int64_t offset, const Tensor& tensor) {
  const Range range = range_to_read(offset, tensor.bytes());
  const std::uint64_t number = note(context, "read", tensor);
  return recorded(context.recorder, number, start_read(range, tensor.data()));
}

Work StateFile::write(std::int64_t offset, std::span<const std::byte> memory) {
  return start_write(range_to_write(offset, std::ssize(memory)), memory.data());
}

Work StateFile::read(std::int64_t offset, std::span<std::byte> memory) {
  return start_read(range_to_read(offset, std::ssize(memory)), memory.data());
}

// A buffer for each block under way, and the bytes for beginning at a multiple of the alignment.
std::int64_t storage_bytes(const StorageOptions& options) {
  return round_up(options.queue_depth * options.block_bytes + kStorageAlignment, kArenaAlignment);
}

std::int64_t checksum_bytes(const FileLayout& layout) {
  return round_up(layout.blocks() * size_of(DType::kI64), kArenaAlignment);
}

Tensor allocate_staging(Arena& arena, DType dtype, const Shape& shape) {
  const std::int64_t used = arena.mark();
  arena.allocate(DType::kU8, {round_up(used, kStorageAlignment) - used});
  return arena.allocate(dtype, shape);
}

}  // namespace phalanx
