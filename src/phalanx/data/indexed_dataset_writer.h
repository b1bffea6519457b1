#pragma once
// Writes an indexed dataset (indexed_dataset.h), byte for byte as Megatron's builder does. Token
// ids stream to disk; memory holds 4 bytes a sequence and 8 a document. Both files appear under
// their names only in commit().

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/data/indexed_dataset.h"

namespace phalanx {

class IndexedDatasetWriter {
 public:
  // OutputError where the files cannot be created.
  IndexedDatasetWriter(std::string prefix, TokenType type);

  // DataError for an id that the token type cannot hold, or more than 2^31 - 1 ids.
  void add_sequence(std::span<const std::int32_t> tokens);
  // The stored bytes of a sequence of a dataset of the same token type.
  void copy_sequence(const IndexedDataset& source, std::int64_t sequence);
  // Closes the document that the sequences since the last call make; without any it is an empty
  // one.
  void end_document();

  // Writes the index, then puts .bin and last .idx in place, durably. A crash in between leaves no
  // index: an older .idx is removed first, for it would describe the wrong .bin.
  void commit();

  const std::string& prefix() const { return prefix_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }

 private:
  // A durable file that is written in large pieces.
  class Output {
   public:
    explicit Output(const std::string& path) : file_(path) {}
    void put(std::span<const std::byte> bytes);
    template <typename T>
    void put_value(T value) {
      put(std::as_bytes(std::span(&value, 1)));
    }
    template <typename T>
    void put_values(const std::vector<T>& values) {
      put(std::as_bytes(std::span(values)));
    }
    void commit();

   private:
    void flush();
    DurableFile file_;
    std::vector<std::byte> buffer_;
  };

  void count_sequence(std::int64_t length);

  std::string prefix_;
  TokenType type_;
  Output bin_;
  Output idx_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> boundaries_{0};
  std::int64_t tokens_ = 0;
};

// The datasets one after another as one new dataset. All must have the same token type and no modes
// (DataError); the output may not be one of the inputs (ConfigError).
void merge_datasets(std::span<const std::string> prefixes, const std::string& output_prefix);

}  // namespace phalanx
