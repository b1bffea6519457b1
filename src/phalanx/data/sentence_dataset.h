#pragma once
// Runs of sentences of an indexed dataset: what the samples of BERT and T5 are made of.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/data/index_cache.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/masking.h"
#include "phalanx/data/sentence_mapping.h"
#include "phalanx/data/split.h"

namespace phalanx {

// What BERT and T5 have in common.
struct MaskedOptions {
  std::shared_ptr<const MaskingVocabulary> vocabulary;
  std::int64_t sequence_length = 0;  // of T5: the encoder's
  double mask_prob = 0.15;
  double short_seq_prob = 0.1;
  std::uint32_t seed = 1234;
  std::function<void()> poll = nullptr;  // SentenceMappingOptions
  const IndexCache* cache = nullptr;     // none: in memory; used by constructors alone
};

// A token that a model cannot do without.
struct NeededToken {
  std::int32_t id = -1;
  std::string_view name;
};
// ConfigError where one is missing, padding is not 0, or --mask-prob and --short-seq-prob are no
// shares. `model` opens the messages.
void check_masked_options(const MaskedOptions& options, std::string_view model,
                          std::span<const NeededToken> needed);

// The coordinates of rows of which the first `real` are no padding: positions from 0 on; document
// 0, and -1, which nobody sees, for padding.
void fill_coordinates(std::span<std::int32_t> position, std::span<std::int32_t> position_ids,
                      std::span<std::int32_t> document, std::int64_t real);

class SentenceDataset {
 public:
  // ConfigError as build_sentence_mapping() says it.
  SentenceDataset(std::shared_ptr<const IndexedDataset> data, IndexRange documents,
                  std::int64_t vocabulary_size, const SentenceMappingOptions& options,
                  const IndexCache* cache);

  std::int64_t size() const { return mapping_.size(); }
  const SentenceMapping& mapping() const { return mapping_; }
  // The sentences of sample i in [0, size()). DataError where a file says what cannot be.
  SentenceSpan span(std::int64_t i) const;
  // Tokens of sentences [first, end).
  std::int64_t length(std::int64_t first, std::int64_t end) const;
  // Fills `out` with the ids of sentences [first, end) behind the first `offset`. DataError, naming
  // file, sequence and id, for an id outside the vocabulary.
  void read(std::int64_t first, std::int64_t end, std::int64_t offset,
            std::span<std::int32_t> out) const;
  // "sample 3 of PREFIX (sentences 7 to 9)", for messages.
  std::string text_of(std::int64_t i) const;

 private:
  std::shared_ptr<const IndexedDataset> data_;
  std::int64_t vocabulary_size_;
  std::int64_t min_sentences_;
  std::int64_t max_length_;
  std::int64_t first_;  // sentences of the documents
  std::int64_t end_;
  SentenceMapping mapping_;
};

}  // namespace phalanx
