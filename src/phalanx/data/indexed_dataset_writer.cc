#include "phalanx/data/indexed_dataset_writer.h"

#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// The ids that a token type holds, as far as they are 32-bit.
struct IdRange {
  std::int64_t low;
  std::int64_t high;
};
IdRange id_range(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return {0, std::numeric_limits<std::uint8_t>::max()};
    case TokenType::kI8:
      return {std::numeric_limits<std::int8_t>::min(), std::numeric_limits<std::int8_t>::max()};
    case TokenType::kI16:
      return {std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max()};
    case TokenType::kU16:
      return {0, std::numeric_limits<std::uint16_t>::max()};
    case TokenType::kI32:
    case TokenType::kI64:
      break;
  }
  return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
}

// The ids in another width at the end of `bytes`; they fit, and signed and unsigned ones have the
// same bytes.
template <typename T>
void append_ids(std::span<const std::int32_t> ids, std::vector<std::byte>& bytes) {
  const std::size_t before = bytes.size();
  bytes.resize(before + ids.size() * sizeof(T));
  std::byte* out = bytes.data() + before;
  for (const std::int32_t id : ids) {
    const T stored = static_cast<T>(id);
    std::memcpy(out, &stored, sizeof(T));
    out += sizeof(T);
  }
}

template <typename T>
std::span<const std::byte> bytes_of_value(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

void SequenceBlock::add_sequence(std::span<const std::int32_t> tokens) {
  const auto [low, high] = id_range(type_);
  for (const std::int32_t id : tokens) {
    if (id < low || id > high) {
      throw DataError("token id {} does not fit the token type {}", id, name_of(type_));
    }
  }
  if (!std::in_range<std::int32_t>(tokens.size())) {
    throw DataError(
        "a sequence of {} tokens; an index can hold 2,147,483,647: split the text into documents",
        tokens.size());
  }
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  switch (size_of(type_)) {
    case 1:
      return append_ids<std::int8_t>(tokens, bytes_);
    case 2:
      return append_ids<std::int16_t>(tokens, bytes_);
    case 8:
      return append_ids<std::int64_t>(tokens, bytes_);
    default:
      return append_ids<std::int32_t>(tokens, bytes_);
  }
}

void IndexArrays::add_sequence(std::int32_t length) {
  lengths_.push_back(length);
  tokens_ += length;
}

void IndexArrays::append(const IndexedDataset& source) {
  const std::int64_t before = sequences();
  for (std::int64_t i = 0; i < source.sequences(); ++i) add_sequence(source.length(i));
  for (std::int64_t d = 1; d <= source.documents(); ++d) {
    boundaries_.push_back(before + source.document_begin(d));
  }
}

void IndexArrays::write(TokenType type,
                        const std::function<void(std::span<const std::byte>)>& put) const {
  put(std::as_bytes(std::span(kIndexMagic)));
  put(bytes_of_value(kIndexVersion));
  put(bytes_of_value(static_cast<std::uint8_t>(type)));
  put(bytes_of_value(static_cast<std::uint64_t>(lengths_.size())));
  put(bytes_of_value(static_cast<std::uint64_t>(boundaries_.size())));
  put(std::as_bytes(std::span(lengths_)));
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    put(bytes_of_value(offset));
    offset += length * size_of(type);
  }
  put(std::as_bytes(std::span(boundaries_)));
}

void IndexedDatasetWriter::Output::put(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) {
    file_.write(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void IndexedDatasetWriter::Output::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

IndexedDatasetWriter::IndexedDatasetWriter(std::string prefix, TokenType type)
    : prefix_(std::move(prefix)),
      type_(type),
      bin_(bin_path(prefix_)),
      idx_(idx_path(prefix_)),
      sequence_(type) {}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) {
  try {
    sequence_.add_sequence(tokens);
  } catch (const DataError& error) {
    throw DataError("{}: sequence {}: {}", bin_path(prefix_), sequences(), error.what());
  }
  index_.add_sequence(sequence_.lengths_.back());
  bin_.put(sequence_.bytes_);
  sequence_.lengths_.clear();
  sequence_.bytes_.clear();
}

void IndexedDatasetWriter::add_block(const SequenceBlock& block) {
  PHALANX_CHECK(block.type_ == type_ && index_.is_whole(), "a block of {} for {}",
                name_of(block.type_), prefix_);
  std::int64_t sequence = 0;
  for (const std::int64_t end : block.boundaries_) {
    for (; sequence < end; ++sequence) index_.add_sequence(block.lengths_[sequence]);
    index_.end_document();
  }
  PHALANX_CHECK(sequence == std::ssize(block.lengths_), "{}: a document was not ended", prefix_);
  bin_.put(block.bytes_);
}

void IndexedDatasetWriter::copy_dataset(const IndexedDataset& source) {
  PHALANX_CHECK(source.type() == type_ && index_.is_whole(), "copying {} of {} into {} of {}",
                source.prefix(), name_of(source.type()), prefix_, name_of(type_));
  index_.append(source);
  // Contiguous sequences, as in nearly all datasets, are copied as one piece.
  std::span<const std::byte> piece;
  for (std::int64_t i = 0; i < source.sequences(); ++i) {
    const auto bytes = source.raw(i, 0, source.length(i));
    if (!piece.empty() && piece.data() + piece.size() == bytes.data()) {
      piece = {piece.data(), piece.size() + bytes.size()};
    } else if (!bytes.empty()) {
      bin_.put(piece);
      piece = bytes;
    }
  }
  bin_.put(piece);
}

void IndexedDatasetWriter::finish() {
  PHALANX_CHECK(index_.is_whole(), "{}: the last document was not ended", prefix_);
  PHALANX_CHECK(!is_finished_, "{} was finished before", prefix_);
  bin_.flush();
  index_.write(type_, [this](std::span<const std::byte> bytes) { idx_.put(bytes); });
  idx_.flush();
  is_finished_ = true;
}

void IndexedDatasetWriter::commit() {
  if (!is_finished_) finish();
  const std::filesystem::path index = idx_path(prefix_);
  std::error_code ignored;
  if (std::filesystem::remove(index, ignored)) sync_directory(index.parent_path());
  bin_.commit();
  idx_.commit();
}

}  // namespace phalanx
