#pragma once
// Writes an indexed dataset (indexed_dataset.h), byte for byte as Megatron's builder does. Token
// ids stream to disk; memory holds 4 bytes a sequence and 8 a document. Both files appear under
// their names only in commit().

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {

// Sequences and documents in the form in which they are stored, for threads that prepare what one
// writer writes.
class SequenceBlock {
 public:
  explicit SequenceBlock(TokenType type) : type_(type) {}

  // DataError for an id that the token type cannot hold, or more than 2^31 - 1 ids; the block is
  // then as it was.
  void add_sequence(std::span<const std::int32_t> tokens);
  void end_document() { boundaries_.push_back(static_cast<std::int64_t>(lengths_.size())); }

 private:
  friend class IndexedDatasetWriter;
  TokenType type_;
  std::vector<std::byte> bytes_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> boundaries_;  // sequences before the end of each document
};

// The arrays of an .idx as they grow.
class IndexArrays {
 public:
  void add_sequence(std::int32_t length);
  void end_document() { boundaries_.push_back(sequences()); }
  // All sequences and documents of a dataset behind those that are there.
  void append(const IndexedDataset& source);

  // The file, a piece at a time.
  void write(TokenType type, const std::function<void(std::span<const std::byte>)>& put) const;

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }
  bool is_whole() const { return boundaries_.back() == sequences(); }

 private:
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> boundaries_{0};
  std::int64_t tokens_ = 0;
};

class IndexedDatasetWriter {
 public:
  // OutputError where the files cannot be created.
  IndexedDatasetWriter(std::string prefix, TokenType type);

  // DataError for an id that the token type cannot hold, or more than 2^31 - 1 ids.
  void add_sequence(std::span<const std::int32_t> tokens);
  // Closes the document that the sequences since the last call make; without any it is an empty
  // one.
  void end_document() { index_.end_document(); }
  // Whole documents of the same token type.
  void add_block(const SequenceBlock& block);
  // All of a dataset of the same token type.
  void copy_dataset(const IndexedDataset& source);

  // Writes what is left and the index, under temporary names: what can fail for want of space has
  // failed when it returns. Nothing can be added any more.
  void finish();
  // Puts .bin and last .idx in place, durably; finishes where that has not been done. A crash in
  // between leaves no index: an older .idx is removed first, for it would describe the wrong .bin.
  void commit();

  const std::string& prefix() const { return prefix_; }
  std::int64_t sequences() const { return index_.sequences(); }
  std::int64_t documents() const { return index_.documents(); }
  std::int64_t tokens() const { return index_.tokens(); }

 private:
  // A durable file that is written in large pieces.
  class Output {
   public:
    explicit Output(const std::string& path) : file_(path) {}
    void put(std::span<const std::byte> bytes);
    void flush();
    void commit() { file_.commit(); }

   private:
    DurableFile file_;
    std::vector<std::byte> buffer_;
  };

  std::string prefix_;
  TokenType type_;
  Output bin_;
  Output idx_;
  IndexArrays index_;
  SequenceBlock sequence_;  // the one that is added
  bool is_finished_ = false;
};

}  // namespace phalanx
