// Tensors in the parts that each rank wrote.

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_files.h"
#include "phalanx/checkpoint/coverage.h"
#include "phalanx/checkpoint/part_index.h"
#include "phalanx/checkpoint/stored_tensors.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/mesh/global_tensor.h"

namespace phalanx {
namespace {

PartIndex read_index(const CheckpointFiles& files, const Manifest& manifest,
                     const Manifest::Part& part) {
  const StoredFile file = files.open(part_index_name(part.rank));
  const std::string& path = file.name();
  // Checked before memory is allocated for it.
  if (file.size() != part.index_bytes) {
    throw DataError("{}: has {} bytes, the manifest says {}", path, file.size(), part.index_bytes);
  }
  const std::string text = file.text();
  if (xxh3(text) != part.index_xxh3) {
    throw DataError("{}: damaged: its digest is not the manifest's", path);
  }
  PartIndex index = parse_part_index(text, path);
  if (index.rank != part.rank || index.bytes != part.bytes) {
    throw DataError("{}: is of rank {} with {} bytes, the manifest says rank {} with {}", path,
                    index.rank, index.bytes, part.rank, part.bytes);
  }
  if (index.epoch != manifest.epoch) {
    throw DataError("{}: is of another save: its epoch is {}, the manifest's {}", path, index.epoch,
                    manifest.epoch);
  }
  return index;
}

// The data of a part.
struct Data {
  StoredFile file;
  std::int64_t block_bytes = 0;
  std::vector<std::uint64_t> blocks;

  std::int64_t bytes_of(std::int64_t block) const {
    return std::min(block_bytes, file.size() - block * block_bytes);
  }
};

// A box in a part.
struct StoredBox {
  MatrixBox box;
  std::size_t part = 0;
  std::int64_t offset = 0;
};

using Block = std::vector<std::byte>;

class PartTensors final : public StoredTensors {
 public:
  PartTensors(std::shared_ptr<const CheckpointFiles> files, const Manifest& manifest, Verify verify)
      : files_(std::move(files)), manifest_(manifest) {
    for (const auto& entry : manifest.tensors) {
      entries_[entry.name] = &entry;
      if (entry.rounded_from.empty()) stored_[entry.name];
    }
    for (const Manifest::Part& part : manifest.parts) add(part);
    for (const auto& [name, boxes] : stored_) {
      std::vector<OwnedBox> owned;
      for (const StoredBox& box : boxes) owned.push_back({box.box, manifest.parts[box.part].rank});
      check_coverage(files_->place(), name, entries_.at(name)->shape, std::move(owned));
    }
    if (verify == Verify::kYes) verify_all();
    if (verify == Verify::kWeights) verify_weights();
  }

  // Each block has a digest, so any reader can read any block.
  std::vector<StoredUnit> units(std::span<const Manifest::Entry* const> wanted) const override;
  std::unique_ptr<ChunkReader> chunk_reader() const override;

  void read(const Manifest::Entry& entry, const MatrixBox& box,
            std::span<std::byte> to) const override {
    check_read(entry, box, to);
    if (!entry.rounded_from.empty()) return read_rounded(entry, box, to);
    const std::int64_t size = size_of(entry.dtype);
    for (const StoredBox& stored : stored_.at(entry.name)) {
      const MatrixBox part = overlap(stored.box, box);
      if (part.count() == 0) continue;
      // Rows that are as wide as both boxes are one run.
      const bool is_dense = part.columns == stored.box.columns && part.columns == box.columns;
      const std::int64_t rows_per_run = is_dense ? part.rows : 1;
      const std::int64_t bytes = rows_per_run * part.columns * size;
      for (std::int64_t row = part.row; row < part.row + part.rows; row += rows_per_run) {
        const std::int64_t from =
            (row - stored.box.row) * stored.box.columns + part.column - stored.box.column;
        const std::int64_t into = (row - box.row) * box.columns + part.column - box.column;
        copy(stored.part, stored.offset + from * size, to.data() + into * size, bytes);
      }
    }
  }

  void verify_all() const override {
    for (std::size_t part = 0; part < data_.size(); ++part) {
      for (std::size_t i = 0; i < data_[part].blocks.size(); ++i) {
        read_block(part, static_cast<std::int64_t>(i));
      }
    }
  }

 private:
  class Chunks;

  void add(const Manifest::Part& part) {
    PartIndex index = read_index(*files_, manifest_, part);
    data_.push_back(
        {files_->open(part_data_name(part.rank)), index.block_bytes, std::move(index.blocks)});
    if (data_.back().file.size() != index.bytes) {
      throw DataError("{}: has {} bytes, its index says {}", data_.back().file.name(),
                      data_.back().file.size(), index.bytes);
    }
    const std::string where = files_->path(part_index_name(part.rank));
    std::int64_t end = 0;
    for (const PartIndex::Piece& piece : index.pieces) {
      const auto boxes = stored_.find(piece.tensor);
      if (boxes == stored_.end()) {
        throw DataError("{}: has a piece of {}, which the manifest does not say is stored", where,
                        piece.tensor);
      }
      if (piece.offset != end) {
        throw DataError("{}: a piece of {} begins at byte {}, not at {}", where, piece.tensor,
                        piece.offset, end);
      }
      const Manifest::Entry& entry = *entries_.at(piece.tensor);
      const std::int64_t size = size_of(entry.dtype);
      for (const MatrixBox& box : piece.boxes) {
        if (box.count() > entry.shape.count()) {
          throw DataError("{}: a box of {} has {} elements, the tensor {}", where, piece.tensor,
                          box.count(), entry.shape.count());
        }
        boxes->second.push_back({box, data_.size() - 1, end});
        end += box.count() * size;
        if (end > index.bytes) {
          throw DataError("{}: the pieces have more than the {} bytes of the data", where,
                          index.bytes);
        }
      }
    }
    if (end != index.bytes) {
      throw DataError("{}: the pieces have {} of the {} bytes of the data", where, end,
                      index.bytes);
    }
  }

  void read_rounded(const Manifest::Entry& entry, const MatrixBox& box,
                    std::span<std::byte> to) const {
    const Manifest::Entry& source = *entries_.at(entry.rounded_from);
    const std::int64_t size = size_of(source.dtype);
    std::vector<std::byte> exact;
    for_pieces(box, kReadBytes / size, [&](const MatrixBox& piece) {
      exact.resize(static_cast<std::size_t>(piece.count() * size));
      read(source, piece, exact);
      // Pieces are whole rows of the box or lie in one row.
      const std::int64_t into = (piece.row - box.row) * box.columns + piece.column - box.column;
      convert_elements(source.dtype, exact.data(), entry.dtype,
                       to.data() + into * size_of(entry.dtype), piece.count());
    });
  }

  // Blocks with weights, or with what weights are rounded from.
  void verify_weights() const {
    std::set<std::pair<std::size_t, std::int64_t>> blocks;
    for (const auto& entry : manifest_.tensors) {
      if (entry.name.starts_with(kOptimizerPrefix)) continue;
      const auto& source = entry.rounded_from.empty() ? entry : *entries_.at(entry.rounded_from);
      const std::int64_t size = size_of(source.dtype);
      for (const StoredBox& stored : stored_.at(source.name)) {
        const std::int64_t block_bytes = data_[stored.part].block_bytes;
        const std::int64_t last = (stored.offset + stored.box.count() * size - 1) / block_bytes;
        for (std::int64_t i = stored.offset / block_bytes; i <= last; ++i) {
          blocks.emplace(stored.part, i);
        }
      }
    }
    for (const auto& [part, block] : blocks) read_block(part, block);
  }

  void copy(std::size_t part, std::int64_t offset, std::byte* to, std::int64_t bytes) const {
    const std::int64_t block_bytes = data_[part].block_bytes;
    while (bytes > 0) {
      const std::shared_ptr<const Block> block = block_at(part, offset / block_bytes);
      const std::int64_t begin = offset % block_bytes;
      const std::int64_t now = std::min(bytes, std::ssize(*block) - begin);
      std::memcpy(to, block->data() + begin, static_cast<std::size_t>(now));
      to += now;
      offset += now;
      bytes -= now;
    }
  }

  // A block that was verified. The last one stays in memory: neighbours are read one after another.
  std::shared_ptr<const Block> block_at(std::size_t part, std::int64_t number) const {
    const std::pair place(part, number);
    {
      const std::lock_guard lock(mutex_);
      if (last_ && last_place_ == place) return last_;
      last_.reset();
    }
    auto block = std::make_shared<const Block>(read_block(part, number));
    const std::lock_guard lock(mutex_);
    last_ = block;
    last_place_ = place;
    return block;
  }

  Block read_block(std::size_t part, std::int64_t number) const {
    Block block(static_cast<std::size_t>(data_[part].bytes_of(number)));
    read_block(part, number, block);
    return block;
  }

  void read_block(std::size_t part, std::int64_t number, std::span<std::byte> block) const {
    const Data& data = data_[part];
    const std::int64_t begin = number * data.block_bytes;
    data.file.read(begin, block);
    const std::uint64_t digest = xxh3(block);
    const std::uint64_t expected = data.blocks[static_cast<std::size_t>(number)];
    if (digest == expected) return;
    throw DataError("{}: block {} is damaged ({}): its digest is {}, the index says {}",
                    data.file.name(), number, tensor_at(part, begin, begin + std::ssize(block)),
                    digest_to_text(digest), digest_to_text(expected));
  }

  // Which tensor has bytes there, for messages.
  std::string tensor_at(std::size_t part, std::int64_t begin, std::int64_t end) const {
    for (const auto& [name, boxes] : stored_) {
      for (const StoredBox& stored : boxes) {
        const std::int64_t bytes = stored.box.count() * size_of(entries_.at(name)->dtype);
        if (stored.part == part && stored.offset < end && stored.offset + bytes > begin) {
          return "it has a piece of tensor " + name;
        }
      }
    }
    return "no tensor";
  }

  std::shared_ptr<const CheckpointFiles> files_;
  const Manifest& manifest_;
  std::map<std::string, const Manifest::Entry*, std::less<>> entries_;
  std::map<std::string, std::vector<StoredBox>, std::less<>> stored_;
  std::vector<Data> data_;  // by number in the manifest

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Block> last_;
  mutable std::pair<std::size_t, std::int64_t> last_place_;
};

// The elements [begin, end) of a box, row-major, as boxes.
std::vector<MatrixBox> boxes_of_elements(const MatrixBox& box, std::int64_t begin,
                                         std::int64_t end) {
  std::vector<MatrixBox> boxes;
  while (begin < end) {
    const std::int64_t row = begin / box.columns, column = begin % box.columns;
    const bool is_whole = column == 0 && end - begin >= box.columns;
    const MatrixBox next{
        .row = box.row + row,
        .column = box.column + column,
        .rows = is_whole ? (end - begin) / box.columns : 1,
        .columns = is_whole ? box.columns : std::min(box.columns - column, end - begin)};
    boxes.push_back(next);
    begin += next.count();
  }
  return boxes;
}

std::vector<StoredUnit> PartTensors::units(std::span<const Manifest::Entry* const> wanted) const {
  std::map<std::pair<std::size_t, std::int64_t>, StoredChunk> chunks;  // by part and block
  for (const Manifest::Entry* entry : wanted) {
    const std::int64_t size = size_of(entry->dtype);
    for (const StoredBox& stored : stored_.at(entry->name)) {
      const std::int64_t block_bytes = data_[stored.part].block_bytes;
      const std::int64_t count = stored.box.count();
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t at = stored.offset + done * size;
        const std::int64_t number = at / block_bytes;
        // An element on the edge of two blocks belongs to the first one.
        const std::int64_t rest = (number + 1) * block_bytes - at;
        const std::int64_t end = std::min(count, done + ceil_div(rest, size));
        StoredChunk& chunk = chunks[{stored.part, number}];
        chunk.bytes = std::max(chunk.bytes, data_[stored.part].bytes_of(number));
        std::int64_t offset = at - number * block_bytes;
        for (const MatrixBox& box : boxes_of_elements(stored.box, done, end)) {
          chunk.pieces.push_back({.entry = entry, .box = box, .offset = offset});
          offset += box.count() * size;
        }
        chunk.bytes = std::max(chunk.bytes, offset);
        done = end;
      }
    }
  }
  std::vector<StoredUnit> units;
  for (auto& [place, chunk] : chunks) {
    std::tie(chunk.source, chunk.number) = place;
    units.push_back({std::move(chunk)});
  }
  return units;
}

class PartTensors::Chunks final : public ChunkReader {
 public:
  explicit Chunks(const PartTensors& tensors) : tensors_(tensors) {}

  void read(const StoredChunk& chunk, std::span<std::byte> to) override {
    const Data& data = tensors_.data_[chunk.source];
    const std::int64_t block = data.bytes_of(chunk.number);
    tensors_.read_block(chunk.source, chunk.number, to.first(static_cast<std::size_t>(block)));
    bytes_read_ += block;
    if (chunk.bytes == block) return;
    // The rest of an element on the edge.
    const Block next = tensors_.read_block(chunk.source, chunk.number + 1);
    bytes_read_ += std::ssize(next);
    std::memcpy(to.data() + block, next.data(), static_cast<std::size_t>(chunk.bytes - block));
  }

 private:
  const PartTensors& tensors_;
};

std::unique_ptr<ChunkReader> PartTensors::chunk_reader() const {
  return std::make_unique<Chunks>(*this);
}

}  // namespace

std::unique_ptr<const StoredTensors> open_part_tensors(const std::filesystem::path& directory,
                                                       const Manifest& manifest, Verify verify) {
  return open_part_tensors(files_of_directory(directory), manifest, verify);
}

std::unique_ptr<const StoredTensors> open_part_tensors(std::shared_ptr<const CheckpointFiles> files,
                                                       const Manifest& manifest, Verify verify) {
  return std::make_unique<PartTensors>(std::move(files), manifest, verify);
}

}  // namespace phalanx
