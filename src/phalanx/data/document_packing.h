#pragma once
// Which documents share a sample of `capacity` tokens: whole documents side by side, none of which
// crosses into another sample. A document longer than a sample is cut to it; one without tokens is
// left out.

#include <cstdint>
#include <functional>
#include <vector>

#include "phalanx/data/index_array.h"

namespace phalanx {

enum class DocumentPacking {
  kWrapped,  // none: the text is cut every `capacity` tokens, and documents cross samples
  kGreedy,   // next fit: in file order, a new pack where the next document does not fit
  kBestFit,  // best fit decreasing: the longest first, each into the fullest pack that it fits into
  kSingle,   // one document a pack, in file order
};

// What became of the documents.
struct PackingCounts {
  std::int64_t packs = 0;
  std::int64_t documents = 0;      // in them
  std::int64_t tokens = 0;         // in them
  std::int64_t cut_documents = 0;  // longer than a sample
  std::int64_t cut_tokens = 0;     // of these, in no sample
  std::int64_t empty_documents = 0;
  std::int64_t dropped_packs = 0;  // without a token that has a label: documents of one token
  friend bool operator==(const PackingCounts&, const PackingCounts&) = default;
};

// Pack p has documents[begins[p]] to documents[begins[p + 1] - 1], in the order in which they stand
// in it. Packs are in the order in which they were opened.
struct DocumentPacks {
  std::vector<std::int64_t> begins;
  std::vector<std::uint32_t> documents;
  PackingCounts counts;
};

// A function of the lengths, the capacity (1 to 2^24), the way, which is not kWrapped, and
// `multiple`: a document takes as many tokens' room, a multiple of it; the capacity must be one,
// too (PHALANX_CHECK). Takes time in proportion to the documents, and up to 25 bytes of memory for
// each. `poll` is called every so often; what it throws ends the packing. ConfigError for 2^32 - 1
// documents and more.
//
// Best fit decreasing (Johnson, 1973): of packs with the least sufficient space the one that has
// had it for the longest; documents of equal length in file order.
DocumentPacks pack_documents(const SequenceLengths& lengths, std::int64_t capacity,
                             DocumentPacking packing, const std::function<void()>& poll = nullptr,
                             std::int64_t multiple = 1);

}  // namespace phalanx
