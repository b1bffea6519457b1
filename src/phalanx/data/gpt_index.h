#pragma once
// The order in which a GPT sees its documents: Megatron's document, sample and shuffle indices as a
// pure function of the document lengths, the sequence length, the requested samples and the seed
// (NumPy's shuffles, numpy_random.h). Here T is the tokens of all documents, s the sequence length,
// E the epochs; a sample is s + 1 consecutive tokens, the last of which is the first of the next
// sample.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace phalanx {

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
};

// Where a sample begins: an element of the document index, and a token of that document.
struct SampleStart {
  std::uint32_t document = 0;
  std::int32_t offset = 0;
  friend bool operator==(const SampleStart&, const SampleStart&) = default;
};

// Memory: 4 bytes per epoch and document, 12 per sample; nothing per token.
struct GptIndex {
  std::int64_t epochs = 1;
  // The documents (numbers into the lengths) in the order in which they are read; E times each of
  // them. Empty for sequential order, which is one epoch of 0, 1, 2, ... read again from its start
  // as often as needed.
  std::vector<std::int32_t> documents;
  // M + 1 starts of M samples; sample m ends one token *after* start m + 1.
  std::vector<SampleStart> starts;
  // Which sample comes i-th; empty for sequential order.
  std::vector<std::uint32_t> shuffle;

  // M, the samples of all epochs: at least the requested ones, except in sequential order, where it
  // is one epoch's.
  std::int64_t samples() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

// ConfigError, saying what to do, where the documents hold too few tokens (2; s + 1 without a
// request or in sequential order), or the request is too large to index (2^32 - 2 samples or
// document visits).
GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexOptions& options);

}  // namespace phalanx
