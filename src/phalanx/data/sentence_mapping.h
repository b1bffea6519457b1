#pragma once
// Which sentences make which sample: Megatron's mapping for BERT and T5 (build_mapping), draw for
// draw. A dataset has one sequence a sentence here, and a sample is a run of sentences of one
// document, as many as reach a target length: mostly the longest that fits, at times a shorter one
// at random. Epochs are repeated until there are enough samples, and then all of them are shuffled
// together (unlike a GPT's).

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "phalanx/data/index_array.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/split.h"

namespace phalanx {

class IndexCache;

// A document with a longer sentence is left out, unless that is its only one.
inline constexpr std::int32_t kLongestSentence = 512;  // tokens

struct SentenceMappingOptions {
  // Enough epochs for this many samples; none: one epoch.
  std::optional<std::int64_t> samples = std::nullopt;
  std::int64_t most_epochs = 2147483646;
  std::int64_t max_length = 0;  // tokens of sentences, without what a family puts around them
  double short_seq_prob = 0.1;  // how often the target is drawn from 2 to max_length
  std::uint32_t seed = 1234;
  std::int64_t min_sentences = 1;  // 2 where a sample is cut into two parts
  // Called every so often; what it throws ends the building.
  std::function<void()> poll = nullptr;
  // Files with more sentences than this take 8 bytes an entry, others 4. Tests lower it.
  std::int64_t largest_narrow = std::numeric_limits<std::uint32_t>::max();
};

// Sentences [first, end) of a file, of which `target` tokens are kept.
struct SentenceSpan {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t target = 0;
  friend bool operator==(const SentenceSpan&, const SentenceSpan&) = default;
};

// Memory: 12 bytes a sample (24 where a file has 2^32 sentences).
struct SentenceMapping {
  IndexArray rows;  // three entries a sample
  // Keeps what the rows lie in.
  std::shared_ptr<const void> owner;
  // The file that they lie in, for messages: whoever reads them checks every entry, for a file may
  // say anything. Empty: they were built in memory.
  std::string file;

  std::int64_t size() const { return rows.size() / 3; }
  SentenceSpan operator[](std::int64_t i) const {
    return {rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]};
  }
};

// Builds the mapping of these documents in two passes: one counts, one fills. ConfigError, saying
// what to do, where no document can be used, where max_length is below 2, or where this machine has
// less memory than the rows take (Megatron goes through 2^31 epochs in the first case).
SentenceMapping build_sentence_mapping(const IndexedDataset& data, IndexRange documents,
                                       const SentenceMappingOptions& options);
// The same, in a file of the cache where it can be kept there.
SentenceMapping cached_sentence_mapping(const IndexedDataset& data, IndexRange documents,
                                        const SentenceMappingOptions& options,
                                        const IndexCache& cache);

}  // namespace phalanx
