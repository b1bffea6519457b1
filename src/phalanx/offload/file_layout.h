#pragma once
// Where records lie in a file of states: one after the other, each at a multiple of 4,096 bytes, as
// transfers past the page cache need it. A record is cut into blocks; a block has a checksum and is
// transferred as a whole. All numbers are bytes.

#include <cstdint>
#include <vector>

#include "phalanx/disk/storage_options.h"

namespace phalanx {

class FileLayout {
 public:
  // `block_bytes`: a multiple of kStorageAlignment; the last block of a record may be shorter.
  explicit FileLayout(std::int64_t block_bytes = kDefaultStorageBlock);

  // Adds a record of so many bytes; its offset in the file.
  std::int64_t add(std::int64_t bytes);

  std::int64_t block_bytes() const { return block_bytes_; }
  std::int64_t bytes() const { return bytes_; }  // of the file
  std::int64_t blocks() const { return blocks_; }

  struct Blocks {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // The blocks of `bytes` from `offset` on. InternalError unless these are a record or whole blocks
  // of one.
  Blocks blocks_of(std::int64_t offset, std::int64_t bytes) const;

 private:
  struct Record {
    std::int64_t offset;
    std::int64_t bytes;
    std::int64_t first_block;
  };
  std::int64_t block_bytes_;
  std::vector<Record> records_;  // by offset
  std::int64_t bytes_ = 0;
  std::int64_t blocks_ = 0;
};

}  // namespace phalanx
