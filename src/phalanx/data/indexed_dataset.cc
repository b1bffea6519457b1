#include "phalanx/data/indexed_dataset.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/input_path.h"

namespace phalanx {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are read in place");

constexpr std::uint64_t kLengthBytes = sizeof(std::int32_t);
constexpr std::uint64_t kOffsetBytes = sizeof(std::int64_t);
constexpr std::uint64_t kBoundaryBytes = sizeof(std::int64_t);

// A limit for overlapping sequences (others are limited by the .bin), so that sums of lengths stay
// far below 2^63.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 61;

// The arrays of the index are not aligned; callers have checked that the value lies inside.
template <typename T>
T load(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Counts a file as there if that cannot be found out: opening it reports the error.
bool is_there(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable) || unreadable;
}

// A hint for a prefix that no dataset has.
std::string hint_for(const std::string& prefix) {
  for (const char* part : {".idx", ".bin"}) {
    if (!prefix.ends_with(part)) continue;
    const std::string without = prefix.substr(0, prefix.size() - 4);
    if (is_there(idx_path(without))) return fmt::format("give {} without {}", without, part);
  }
  for (const char* suffix : {"_text_document", "_text_sentence"}) {
    if (is_there(idx_path(prefix + suffix))) return fmt::format("{}{} is there", prefix, suffix);
  }
  std::error_code unknown;
  if (std::filesystem::is_regular_file(prefix, unknown)) {
    return fmt::format("{} is a file: phalanx preprocess-data makes a dataset of its texts",
                       prefix);
  }
  return "a data path is what PREFIX.bin and PREFIX.idx have in common";
}

MappedFile map_part(const std::string& prefix, std::string_view part) {
  if (const std::string missing = missing_dataset(prefix); !missing.empty()) {
    throw InputMissingError("{}", missing);
  }
  return MappedFile(prefix + std::string(part));
}

TokenType token_type_from_code(const std::string& path, std::uint8_t code) {
  switch (code) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 8:
      return static_cast<TokenType>(code);
    case 6:
    case 7:
      throw DataError("{}: dtype code {} is floating point; token ids are integers", path, code);
    default:
      throw DataError("{}: unknown dtype code {} (known: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16)",
                      path, code);
  }
}

// Calls visit(T{}) with the stored type.
template <typename Visit>
void with_token_type(TokenType type, Visit visit) {
  switch (type) {
    case TokenType::kU8:
      return visit(std::uint8_t{});
    case TokenType::kI8:
      return visit(std::int8_t{});
    case TokenType::kI16:
      return visit(std::int16_t{});
    case TokenType::kI32:
      return visit(std::int32_t{});
    case TokenType::kI64:
      return visit(std::int64_t{});
    case TokenType::kU16:
      return visit(std::uint16_t{});
  }
}

}  // namespace

std::int64_t size_of(TokenType type) {
  std::int64_t bytes = 0;
  with_token_type(type, [&](auto value) { bytes = sizeof(value); });
  return bytes;
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "u8";
    case TokenType::kI8:
      return "i8";
    case TokenType::kI16:
      return "i16";
    case TokenType::kI32:
      return "i32";
    case TokenType::kI64:
      return "i64";
    case TokenType::kU16:
      return "u16";
  }
  return "?";
}

TokenType token_type_for_vocabulary(std::int64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::kU16 : TokenType::kI32;
}

std::string bin_path(std::string_view prefix) { return std::string(prefix) + ".bin"; }
std::string idx_path(std::string_view prefix) { return std::string(prefix) + ".idx"; }

std::string missing_dataset(const std::string& prefix) {
  for (const std::string& path : {idx_path(prefix), bin_path(prefix)}) {
    const std::string fault = input_fault(path);
    if (fault.empty()) continue;
    return is_there(path) ? fmt::format("{}: {}", path, fault)
                          : fmt::format("{}: {} ({})", path, fault, hint_for(prefix));
  }
  return {};
}

IndexedDataset::IndexedDataset(std::string prefix)
    : prefix_(std::move(prefix)), idx_(map_part(prefix_, ".idx")), bin_(map_part(prefix_, ".bin")) {
  read_header();
  check_sequences();
  check_boundaries();
}

void IndexedDataset::read_header() {
  const auto bytes = idx_.bytes();
  const auto path = idx_path(prefix_);
  if (bytes.size() < kIndexHeaderBytes) {
    throw DataError("{}: the header ends after {} of {} bytes", path, bytes.size(),
                    kIndexHeaderBytes);
  }
  if (std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0) {
    throw DataError("{}: not an index of an indexed dataset (it does not begin with MMIDIDX)",
                    path);
  }
  if (const auto version = load<std::uint64_t>(bytes, 9); version != kIndexVersion) {
    throw DataError("{}: index version {}, only version {} is known", path, version, kIndexVersion);
  }
  type_ = token_type_from_code(path, load<std::uint8_t>(bytes, 17));

  // Counts are compared by division, because a product with a wrong count could overflow.
  const auto sequences = load<std::uint64_t>(bytes, 18);
  const auto boundaries = load<std::uint64_t>(bytes, 26);
  std::uint64_t rest = bytes.size() - kIndexHeaderBytes;
  if (sequences > rest / (kLengthBytes + kOffsetBytes)) {
    throw DataError("{}: the header counts {} sequences, too many for a file of {} bytes", path,
                    sequences, bytes.size());
  }
  rest -= sequences * (kLengthBytes + kOffsetBytes);
  if (boundaries < 1 || boundaries > rest / kBoundaryBytes) {
    throw DataError("{}: the header counts {} document boundaries; this file can hold 1 to {}",
                    path, boundaries, rest / kBoundaryBytes);
  }
  rest -= boundaries * kBoundaryBytes;
  if (rest != 0 && rest != sequences) {
    throw DataError("{}: {} bytes follow the document boundaries; there may be 0, or {} modes",
                    path, rest, sequences);
  }
  has_modes_ = rest != 0;
  sequences_ = static_cast<std::int64_t>(sequences);
  boundaries_ = static_cast<std::int64_t>(boundaries);
}

void IndexedDataset::check_sequences() {
  const auto bytes = idx_.bytes().subspan(kIndexHeaderBytes);
  const auto lengths = this->lengths(0, sequences_);
  const auto offsets = bytes.subspan(sequences_ * kLengthBytes, sequences_ * kOffsetBytes);
  const std::int64_t size = bin_bytes();
  const std::int64_t width = size_of(type_);
  // There may be billions, so the loop has no division, and a message only for a fault.
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const std::int64_t tokens = lengths[i];
    const auto offset = load<std::int64_t>(offsets, i * kOffsetBytes);
    if (tokens < 0 || offset < 0 || offset > size || tokens * width > size - offset) {
      refuse_sequence(i, tokens, offset);
    }
    tokens_ += tokens;
    if (tokens_ > kMostTokens) {
      throw DataError("{}: its sequences have more than {} tokens: they must overlap",
                      idx_path(prefix_), kMostTokens);
    }
  }
}

void IndexedDataset::refuse_sequence(std::int64_t sequence, std::int64_t tokens,
                                     std::int64_t offset) const {
  if (tokens < 0) {
    throw DataError("{}: sequence {} has length {}", idx_path(prefix_), sequence, tokens);
  }
  throw DataError("{}: sequence {} ({} tokens of {} bytes at byte {}) is outside {} ({} bytes)",
                  idx_path(prefix_), sequence, tokens, size_of(type_), offset, bin_path(prefix_),
                  bin_bytes());
}

void IndexedDataset::check_boundaries() const {
  const auto path = idx_path(prefix_);
  const auto boundaries = idx_.bytes().subspan(
      kIndexHeaderBytes + sequences_ * (kLengthBytes + kOffsetBytes), boundaries_ * kBoundaryBytes);
  std::int64_t previous = 0;
  for (std::int64_t d = 0; d < boundaries_; ++d) {
    const auto boundary = load<std::int64_t>(boundaries, d * kBoundaryBytes);
    if (d == 0 && boundary != 0) {
      throw DataError("{}: the first document boundary is {}, not 0", path, boundary);
    }
    if (boundary < previous) {
      throw DataError("{}: document boundary {} is {}, below the one before ({})", path, d,
                      boundary, previous);
    }
    previous = boundary;
  }
  if (previous != sequences_) {
    throw DataError("{}: the last document boundary is {}, but there are {} sequences", path,
                    previous, sequences_);
  }
}

std::int32_t IndexedDataset::length(std::int64_t sequence) const {
  PHALANX_CHECK(sequence >= 0 && sequence < sequences_, "sequence {} of {}", sequence, sequences_);
  return load<std::int32_t>(idx_.bytes(), kIndexHeaderBytes + sequence * kLengthBytes);
}

SequenceLengths IndexedDataset::lengths(std::int64_t begin, std::int64_t end) const {
  PHALANX_CHECK(begin >= 0 && begin <= end && end <= sequences_, "sequences {} to {} of {}", begin,
                end, sequences_);
  return SequenceLengths(
      idx_.bytes().subspan(kIndexHeaderBytes + begin * kLengthBytes, (end - begin) * kLengthBytes));
}

std::int64_t IndexedDataset::byte_offset(std::int64_t sequence) const {
  return load<std::int64_t>(
      idx_.bytes(), kIndexHeaderBytes + sequences_ * kLengthBytes + sequence * kOffsetBytes);
}

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  PHALANX_CHECK(document >= 0 && document < boundaries_, "document {} of {}", document,
                documents());
  return load<std::int64_t>(
      idx_.bytes(),
      kIndexHeaderBytes + sequences_ * (kLengthBytes + kOffsetBytes) + document * kBoundaryBytes);
}

std::span<const std::byte> IndexedDataset::raw(std::int64_t sequence, std::int64_t offset,
                                               std::int64_t length) const {
  const std::int64_t tokens = this->length(sequence);
  PHALANX_CHECK(offset >= 0 && length >= 0 && offset <= tokens && length <= tokens - offset,
                "tokens {} + {} of sequence {} with {} tokens", offset, length, sequence, tokens);
  // Checked again, because the mapped index may have been overwritten since it was opened.
  const std::int64_t width = size_of(type_);
  const std::int64_t begin = byte_offset(sequence);
  if (begin < 0 || begin > bin_bytes() || tokens > (bin_bytes() - begin) / width) {
    throw DataError("{}: sequence {} changed while it was open", idx_path(prefix_), sequence);
  }
  return bin_.bytes().subspan(begin + offset * width, length * width);
}

template <typename Out>
void IndexedDataset::get_as(std::int64_t sequence, std::int64_t offset, std::span<Out> out) const {
  const auto bytes = raw(sequence, offset, static_cast<std::int64_t>(out.size()));
  with_token_type(type_, [&](auto stored) {
    using Stored = decltype(stored);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto id = load<Stored>(bytes, i * sizeof(Stored));
      if constexpr (sizeof(Stored) > sizeof(Out)) {
        if (!std::in_range<Out>(id)) {
          throw DataError("{}: token {} of sequence {} is {}, which is no 32-bit token id",
                          bin_path(prefix_), offset + static_cast<std::int64_t>(i), sequence, id);
        }
      }
      out[i] = static_cast<Out>(id);
    }
  });
}

void IndexedDataset::get(std::int64_t sequence, std::int64_t offset,
                         std::span<std::int32_t> out) const {
  get_as(sequence, offset, out);
}

void IndexedDataset::get(std::int64_t sequence, std::int64_t offset,
                         std::span<std::int64_t> out) const {
  get_as(sequence, offset, out);
}

void read_ids(const TokenSequences& data, std::int64_t sequence, std::int64_t offset,
              std::int64_t vocabulary_size, std::span<std::int32_t> out) {
  data.get(sequence, offset, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] < 0 || out[i] >= vocabulary_size) {
      throw DataError(
          "{}: token {} of sequence {} is {}, outside the vocabulary of {} ids: was "
          "the file made with another tokenizer?",
          bin_path(data.name()), offset + static_cast<std::int64_t>(i), sequence, out[i],
          vocabulary_size);
    }
  }
}

}  // namespace phalanx
