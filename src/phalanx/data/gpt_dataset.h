#pragma once
// Samples of s + 1 token ids cut from an indexed dataset: what a GPT is trained on. Which tokens
// make sample i is a pure function of the data, s, the requested samples and the seed
// (gpt_index.h); an index cache only spares making it again.

#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/data/gpt_index.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/split.h"
#include "phalanx/data/token_sequences.h"

namespace phalanx {

class GptDataset {
 public:
  // Over the sequences in `range`. Ids must be below `vocabulary_size` (the tokenizer's, not the
  // padded one). The index lies in the cache where one is given. ConfigError as build_gpt_index
  // says it.
  GptDataset(std::shared_ptr<const TokenSequences> data, IndexRange range,
             std::int64_t vocabulary_size, const GptIndexOptions& options,
             const IndexCache* cache = nullptr);

  // Samples there are: at least the requested ones, up to the end of the last epoch.
  std::int64_t size() const { return size_; }
  std::int64_t sequence_length() const { return sequence_length_; }
  const GptIndex& index() const { return index_; }

  // The s + 1 token ids of sample i in [0, size()). Returns how many are real: fewer than s + 1
  // only for a partial tail, whose rest is 0. DataError, naming file, sequence and id, for an id
  // outside the vocabulary.
  std::int64_t sample(std::int64_t i, std::span<std::int32_t> tokens) const;

 private:
  // Entries of the document index, or what stands for them.
  std::int64_t visits() const;
  [[noreturn]] void refuse_index(std::int64_t i) const;

  std::shared_ptr<const TokenSequences> data_;
  IndexRange range_;
  std::int64_t vocabulary_size_;
  std::int64_t sequence_length_;
  GptIndex index_;
  std::int64_t size_;
};

}  // namespace phalanx
