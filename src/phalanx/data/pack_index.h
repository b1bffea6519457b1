#pragma once
// Which documents make sample i, where whole documents are packed (document_packing.h): packs as a
// function of the documents' lengths, the sequence length and the way alone, and an order of packs,
// which is shuffled anew for every epoch (NumPy's shuffles, numpy_random.h).
//
// As the index of a GPT's windows (gpt_index.h) it is one block of bytes, in memory or in a file of
// the index cache.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "phalanx/data/document_packing.h"
#include "phalanx/data/gpt_index.h"

namespace phalanx {

struct PackIndexOptions {
  std::int64_t sequence_length = 0;
  DocumentPacking packing = DocumentPacking::kBestFit;
  // Documents take a multiple of so many rows, and the sequence length is one.
  std::int64_t document_multiple = 1;
  // Enough epochs for this many samples; none: one epoch.
  std::optional<std::int64_t> samples = std::nullopt;
  std::uint32_t seed = 1234;
  // kSequential: packs in the order in which they were made, again and again.
  DataOrder order = DataOrder::kMegatron;
  std::function<void()> poll = nullptr;  // GptIndexOptions
};

struct PackIndex {
  PackingCounts counts;
  IndexArray begins;     // of each pack: where its documents begin in `documents`; and the end
  IndexArray documents;  // numbers into the lengths
  IndexArray shuffle;    // which pack sample i is; empty for sequential order
  std::shared_ptr<const void> owner;
  std::string file;  // as in GptIndex

  std::int64_t packs() const { return begins.size() - 1; }
};

// ConfigError, saying what to do, where no document has two tokens, or more samples are requested
// than can be indexed, or than this machine has memory for.
PackIndex build_pack_index(const SequenceLengths& lengths, const PackIndexOptions& options);
// The same, in a file of the cache where it can be kept there.
PackIndex cached_pack_index(const SequenceLengths& lengths, const PackIndexOptions& options,
                            const IndexCache& cache);

}  // namespace phalanx
