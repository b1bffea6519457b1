#include "phalanx/offload/file_layout.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {

FileLayout::FileLayout(std::int64_t block_bytes) : block_bytes_(block_bytes) {
  PHALANX_CHECK(block_bytes > 0 && block_bytes % kStorageAlignment == 0,
                "a block of {} bytes: not a multiple of {}", block_bytes, kStorageAlignment);
}

std::int64_t FileLayout::add(std::int64_t bytes) {
  PHALANX_CHECK(bytes > 0, "a record of {} bytes", bytes);
  const std::int64_t offset = bytes_;
  records_.push_back({offset, bytes, blocks_});
  bytes_ += round_up(bytes, kStorageAlignment);
  blocks_ += ceil_div(bytes, block_bytes_);
  return offset;
}

FileLayout::Blocks FileLayout::blocks_of(std::int64_t offset, std::int64_t bytes) const {
  const auto behind = std::ranges::upper_bound(records_, offset, {}, &Record::offset);
  PHALANX_CHECK(bytes > 0 && offset >= 0 && behind != records_.begin(),
                "{} bytes from {} on: no record is there", bytes, offset);
  const Record& record = *(behind - 1);
  const std::int64_t begin = offset - record.offset;
  const std::int64_t end = begin + bytes;
  PHALANX_CHECK(begin % block_bytes_ == 0 &&
                    (end == record.bytes || (end < record.bytes && end % block_bytes_ == 0)),
                "{} bytes from {} on are not whole blocks of {} in the record of {} bytes from {} "
                "on",
                bytes, offset, block_bytes_, record.bytes, record.offset);
  return {record.first_block + begin / block_bytes_, ceil_div(bytes, block_bytes_)};
}

}  // namespace phalanx
