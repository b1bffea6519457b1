#pragma once
// What `phalanx dataset info` and `dataset check` say about an indexed dataset.

#include <cstdint>

#include "phalanx/data/indexed_dataset.h"

namespace phalanx {

struct DatasetInfo {
  std::int64_t sequences = 0;
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;
  std::int64_t tokens = 0;
  TokenType type = TokenType::kI32;
  std::int64_t bin_bytes = 0;
  std::int64_t idx_bytes = 0;
  std::int64_t shortest_sequence = 0;  // in tokens; 0 without sequences
  std::int64_t longest_sequence = 0;
  std::int64_t fewest_sequences = 0;  // in a document; 0 without documents
  std::int64_t most_sequences = 0;
};

// Reads the index only.
DatasetInfo dataset_info(const IndexedDataset& data);

// Reads the index only. DataError unless the sequences follow each other without gaps from the
// first byte of the .bin to its last. Phalanx writes all datasets so; but neither Megatron's reader
// nor ours asks for it when a dataset is opened.
void check_layout(const IndexedDataset& data);

struct TokenIdRange {
  std::int64_t smallest = 0;
  std::int64_t largest = -1;  // less than `smallest`: there are no tokens
};

// Reads every token.
TokenIdRange token_id_range(const IndexedDataset& data);

// Reads every token; DataError naming file, sequence and id for the first one outside [0,
// vocabulary_size).
void check_token_ids(const IndexedDataset& data, std::int64_t vocabulary_size);

}  // namespace phalanx
