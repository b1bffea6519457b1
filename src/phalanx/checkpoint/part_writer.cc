#include "phalanx/checkpoint/part_writer.h"

#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"

namespace phalanx {

PartIndex part_index_of(std::string epoch, std::int64_t rank,
                        const std::vector<PartWriter::Piece>& pieces, std::int64_t block_bytes) {
  PartIndex index{.epoch = std::move(epoch),
                  .rank = rank,
                  .bytes = 0,
                  .block_bytes = block_bytes,
                  .blocks = {},
                  .pieces = {}};
  for (const auto& [tensor, dtype, boxes] : pieces) {
    index.pieces.push_back({.tensor = tensor, .offset = index.bytes, .boxes = boxes});
    index.bytes += index.pieces.back().elements() * size_of(dtype);
  }
  return index;
}

PartWriter::PartWriter(const std::filesystem::path& directory, std::string epoch, std::int64_t rank,
                       const std::vector<Piece>& pieces, const StorageOptions& options,
                       const EngineMaker& make)
    : directory_(directory),
      index_(part_index_of(std::move(epoch), rank, pieces, options.block_bytes)),
      data_(directory / part_data_name(rank), index_.bytes, options, make) {}

Manifest::Part PartWriter::finish() {
  index_.blocks = data_.finish();
  const std::string text = part_index_to_json(index_);
  write_file_durably(directory_ / part_index_name(index_.rank), text);
  return {.rank = index_.rank,
          .bytes = index_.bytes,
          .index_bytes = std::ssize(text),
          .index_xxh3 = xxh3(text)};
}

}  // namespace phalanx
