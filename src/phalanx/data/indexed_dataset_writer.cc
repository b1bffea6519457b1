#include "phalanx/data/indexed_dataset_writer.h"

#include <algorithm>
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

// The ids in another width; they fit, and signed and unsigned ones have the same bytes.
template <typename T>
std::vector<T> cast_ids(std::span<const std::int32_t> ids) {
  std::vector<T> result(ids.size());
  std::transform(ids.begin(), ids.end(), result.begin(),
                 [](std::int32_t id) { return static_cast<T>(id); });
  return result;
}

}  // namespace

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

void IndexedDatasetWriter::Output::commit() {
  flush();
  file_.commit();
}

IndexedDatasetWriter::IndexedDatasetWriter(std::string prefix, TokenType type)
    : prefix_(std::move(prefix)), type_(type), bin_(bin_path(prefix_)), idx_(idx_path(prefix_)) {}

void IndexedDatasetWriter::add_sequence(std::span<const std::int32_t> tokens) {
  const auto [low, high] = id_range(type_);
  for (const std::int32_t id : tokens) {
    if (id < low || id > high) {
      throw DataError("{}: token id {} does not fit the token type {}", bin_path(prefix_), id,
                      name_of(type_));
    }
  }
  count_sequence(static_cast<std::int64_t>(tokens.size()));
  switch (size_of(type_)) {
    case 1:
      return bin_.put_values(cast_ids<std::int8_t>(tokens));
    case 2:
      return bin_.put_values(cast_ids<std::int16_t>(tokens));
    case 8:
      return bin_.put_values(cast_ids<std::int64_t>(tokens));
    default:
      return bin_.put(std::as_bytes(tokens));
  }
}

void IndexedDatasetWriter::copy_sequence(const IndexedDataset& source, std::int64_t sequence) {
  PHALANX_CHECK(source.type() == type_, "copying {} into {}", name_of(source.type()),
                name_of(type_));
  count_sequence(source.length(sequence));
  bin_.put(source.raw(sequence, 0, source.length(sequence)));
}

void IndexedDatasetWriter::count_sequence(std::int64_t length) {
  if (!std::in_range<std::int32_t>(length)) {
    throw DataError(
        "{}: sequence {} has {} tokens; an index can hold 2,147,483,647: split the "
        "text into documents",
        bin_path(prefix_), sequences(), length);
  }
  lengths_.push_back(static_cast<std::int32_t>(length));
  tokens_ += length;
}

void IndexedDatasetWriter::end_document() { boundaries_.push_back(sequences()); }

void IndexedDatasetWriter::commit() {
  PHALANX_CHECK(boundaries_.back() == sequences(), "{}: the last document was not ended", prefix_);
  idx_.put(std::as_bytes(std::span(kIndexMagic)));
  idx_.put_value(kIndexVersion);
  idx_.put_value(static_cast<std::uint8_t>(type_));
  idx_.put_value(static_cast<std::uint64_t>(lengths_.size()));
  idx_.put_value(static_cast<std::uint64_t>(boundaries_.size()));
  idx_.put_values(lengths_);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    idx_.put_value(offset);
    offset += length * size_of(type_);
  }
  idx_.put_values(boundaries_);

  const std::filesystem::path index = idx_path(prefix_);
  std::error_code ignored;
  if (std::filesystem::remove(index, ignored)) sync_directory(index.parent_path());
  bin_.commit();
  idx_.commit();
}

void merge_datasets(std::span<const std::string> prefixes, const std::string& output_prefix) {
  if (prefixes.empty()) throw ConfigError("merging needs at least one dataset");
  const IndexedDataset first(prefixes.front());
  for (const auto& prefix : prefixes) {
    std::error_code ignored;
    if (std::filesystem::equivalent(idx_path(prefix), idx_path(output_prefix), ignored)) {
      throw ConfigError("{}: the merged dataset cannot replace one of its inputs", output_prefix);
    }
  }
  IndexedDatasetWriter writer(output_prefix, first.type());
  for (const auto& prefix : prefixes) {
    const IndexedDataset part(prefix);
    if (part.type() != first.type()) {
      throw DataError(
          "{} holds {} and {} holds {}: only datasets of one token type can be merged; "
          "preprocess them with the same tokenizer",
          first.prefix(), name_of(first.type()), prefix, name_of(part.type()));
    }
    if (part.has_modes()) {
      throw DataError("{}: it has modes (multimodal data), which a merge would lose", prefix);
    }
    for (std::int64_t d = 0; d < part.documents(); ++d) {
      for (auto i = part.document_begin(d); i < part.document_begin(d + 1); ++i) {
        writer.copy_sequence(part, i);
      }
      writer.end_document();
    }
  }
  writer.commit();
}

}  // namespace phalanx
