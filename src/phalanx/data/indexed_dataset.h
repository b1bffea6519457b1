#pragma once
// Megatron's indexed dataset: PREFIX.bin holds token ids back to back, PREFIX.idx says where each
// sequence lies and which sequences make a document. Both files are mapped and untrusted: opening
// checks every count, length and offset against the sizes of the files, so nothing that is read
// later can lie outside them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/file.h"
#include "phalanx/data/index_array.h"
#include "phalanx/data/token_sequences.h"

namespace phalanx {

// How a token id is stored; the values are the dtype codes of the .idx header.
enum class TokenType : std::uint8_t { kU8 = 1, kI8 = 2, kI16 = 3, kI32 = 4, kI64 = 5, kU16 = 8 };

// Bytes of one token id.
std::int64_t size_of(TokenType type);
// "u8", "i8", "i16", "i32", "i64", "u16".
std::string_view name_of(TokenType type);
// What preprocessing writes for a vocabulary of this size: u16 below 65,500 ids, else i32.
TokenType token_type_for_vocabulary(std::int64_t vocabulary_size);

// The .idx header: magic, u64 version, u8 dtype code, u64 sequences, u64 document boundaries; then
// i32 lengths, i64 byte offsets, i64 boundaries and, for multimodal data only, i8 modes.
// Little-endian, nothing aligned.
inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t kIndexVersion = 1;
inline constexpr std::size_t kIndexHeaderBytes = 34;

std::string bin_path(std::string_view prefix);
std::string idx_path(std::string_view prefix);

// Which of a dataset's two files is not there, and what may have been meant; empty where both are.
std::string missing_dataset(const std::string& prefix);

class IndexedDataset final : public TokenSequences {
 public:
  // InputMissingError where a file is not there, DataError (naming file and field) where one is
  // malformed.
  explicit IndexedDataset(std::string prefix);

  const std::string& prefix() const { return prefix_; }
  std::string_view name() const override { return prefix_; }
  TokenType type() const { return type_; }
  std::int64_t sequences() const override { return sequences_; }
  std::int64_t documents() const { return boundaries_ - 1; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t bin_bytes() const { return static_cast<std::int64_t>(bin_.bytes().size()); }
  std::int64_t idx_bytes() const { return static_cast<std::int64_t>(idx_.bytes().size()); }
  bool has_modes() const { return has_modes_; }

  // Tokens of one sequence.
  std::int32_t length(std::int64_t sequence) const override;
  // The lengths of sequences [begin, end), in the mapped .idx.
  SequenceLengths lengths(std::int64_t begin, std::int64_t end) const override;
  // Where the sequence begins in the .bin.
  std::int64_t byte_offset(std::int64_t sequence) const;
  // First sequence of a document; document_begin(documents()) is sequences().
  std::int64_t document_begin(std::int64_t document) const;

  // Token ids [offset, offset + out.size()) of one sequence. An id that does not fit `out` is a
  // DataError.
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int64_t> out) const;

  // The stored bytes of tokens [offset, offset + length) of one sequence.
  std::span<const std::byte> raw(std::int64_t sequence, std::int64_t offset,
                                 std::int64_t length) const;

 private:
  void read_header();
  void check_sequences();
  void check_boundaries() const;
  [[noreturn]] void refuse_sequence(std::int64_t sequence, std::int64_t tokens,
                                    std::int64_t offset) const;
  template <typename Out>
  void get_as(std::int64_t sequence, std::int64_t offset, std::span<Out> out) const;

  std::string prefix_;
  MappedFile idx_;
  MappedFile bin_;
  TokenType type_ = TokenType::kI32;
  std::int64_t sequences_ = 0;
  std::int64_t boundaries_ = 0;
  std::int64_t tokens_ = 0;
  bool has_modes_ = false;
};

// As TokenSequences::get(), of ids below `vocabulary_size`: DataError, naming file, sequence and
// id, for any other.
void read_ids(const TokenSequences& data, std::int64_t sequence, std::int64_t offset,
              std::int64_t vocabulary_size, std::span<std::int32_t> out);

}  // namespace phalanx
