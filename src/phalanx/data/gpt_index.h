#pragma once
// The order in which a GPT sees its documents: Megatron's document, sample and shuffle indices as a
// pure function of the document lengths, the sequence length, the requested samples and the seed
// (NumPy's shuffles, numpy_random.h). Here T is the tokens of all documents, s the sequence length,
// E the epochs; a sample is s + 1 consecutive tokens, the last of which is the first of the next
// sample.
//
// The three arrays are one block of bytes (GptIndexPlan says where each lies), so that they can be
// built in memory or lie in a file that is mapped (index_cache.h).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "phalanx/data/index_array.h"

namespace phalanx {

class IndexCache;

// How samples follow each other: shuffled documents cut into shuffled samples, or windows in file
// order.
enum class DataOrder { kMegatron, kSequential };

struct GptIndexOptions {
  std::int64_t sequence_length = 0;
  // Enough epochs for this many samples; none: one epoch.
  std::optional<std::int64_t> samples = std::nullopt;
  std::uint32_t seed = 1234;
  // Also count the last, shorter sample (Megatron: validation data only).
  bool keep_partial_tail = false;
  DataOrder order = DataOrder::kMegatron;
  // Called every so often, for a large index takes minutes; what it throws ends the building.
  std::function<void()> poll = nullptr;
  // Arrays with an entry above this take 8 bytes an entry, others 4. Tests lower it.
  std::int64_t largest_narrow = std::numeric_limits<std::uint32_t>::max();
};

// What follows from counts alone: how much is read how often, and where the arrays lie.
struct GptIndexPlan {
  // An array's place in the block.
  struct Part {
    std::int64_t begin = 0;  // byte
    std::int64_t entries = 0;
    int width = 4;  // bytes of an entry
    std::int64_t bytes() const { return entries * width; }
    friend bool operator==(const Part&, const Part&) = default;
  };

  std::int64_t tokens = 0;  // T
  std::int64_t epochs = 1;  // E
  // The last epoch is shuffled on its own, documents and samples: these many samples begin and end
  // before it.
  bool separate_last = false;
  std::int64_t before_last = 0;
  std::int64_t visits = 0;   // documents that are read, in all epochs
  std::int64_t samples = 0;  // M
  Part documents;
  Part starts;
  Part shuffle;
  std::int64_t bytes = 0;  // of the block
};

// ConfigError, saying what to do, where the documents hold too few tokens (2; s + 1 without a
// request or in sequential order), or the request is too large to index (2^40 samples or document
// visits).
GptIndexPlan plan_gpt_index(std::int64_t documents, std::int64_t tokens,
                            const GptIndexOptions& options);

// Where a sample begins: an element of the document index, and a token of that document.
struct SampleStart {
  std::int64_t document = 0;
  std::int64_t offset = 0;
  friend bool operator==(const SampleStart&, const SampleStart&) = default;
};

// Memory: 4 bytes per epoch and document, 12 per sample (twice that from 2^32 on); nothing per
// token.
struct GptIndex {
  std::int64_t epochs = 1;
  // The documents (numbers into the lengths) in the order in which they are read; E times each of
  // them. Empty for sequential order, which is one epoch of 0, 1, 2, ... read again from its start
  // as often as needed.
  IndexArray documents;
  // M + 1 pairs (SampleStart) for M samples; sample m ends one token *after* start m + 1.
  IndexArray starts;
  // Which sample comes i-th; empty for sequential order.
  IndexArray shuffle;
  // Keeps what the arrays lie in.
  std::shared_ptr<const void> owner;
  // The file that they lie in, for messages: whoever reads them checks every entry, for a file may
  // say anything. Empty: they were built in memory.
  std::string file;

  // M, the samples of all epochs: at least the requested ones, except in sequential order, where it
  // is one epoch's.
  std::int64_t samples() const { return starts.size() / 2 - 1; }
  // An offset is -1 where an empty document ends a partial tail.
  SampleStart start(std::int64_t m) const {
    return {starts[2 * m], static_cast<std::int32_t>(starts[2 * m + 1])};
  }
};

// Fills a block of plan.bytes bytes, which is aligned for 8.
void fill_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options,
                    const GptIndexPlan& plan, std::span<std::byte> block);
// The arrays in a block.
GptIndex view_gpt_index(const GptIndexPlan& plan, std::span<const std::byte> block,
                        std::shared_ptr<const void> owner, std::string file = "");

// Planned and filled, in memory of its own. ConfigError also where this machine has less memory
// than the arrays take.
GptIndex build_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options);
GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexOptions& options);

// The same, in a file of the cache where it can be kept there.
GptIndex cached_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options,
                          const IndexCache& cache);

// T.
std::int64_t total_tokens(const SequenceLengths& lengths);

}  // namespace phalanx
