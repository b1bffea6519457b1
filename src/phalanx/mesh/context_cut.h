#pragma once
// Which rows of a sample each context-parallel rank holds. The loader, masks and exchanges read it
// here and rely on no more than: every row is on one rank, and all ranks have equally many.
//
// Ranks do not hold contiguous parts, because the first rows of a causal sample see few keys and
// the last ones many: a region of rows is cut into 2 P chunks, and rank r of P holds chunks r and
// 2 P - 1 - r of it (the zig-zag cut of Megatron-LM and Transformer Engine).

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx {

class ContextCut {
 public:
  enum class Kind : std::uint8_t {
    kSequence,   // the sample is one region
    kDocuments,  // every document with its padding is a region, and so is the padding behind them
  };
  // Rows [first, first + count) of the whole sample.
  struct Range {
    std::int64_t first = 0, count = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  // One rank, which holds everything in order.
  ContextCut() = default;
  // PHALANX_CHECK: at least one rank.
  ContextCut(int ranks, Kind kind);

  int ranks() const { return ranks_; }
  Kind kind() const { return kind_; }

  // The rows of `rank` of a sample of `sequence` rows, in the order in which the rank has them:
  // chunks, which ascend and do not overlap; of one rank all rows are one.
  //
  // kDocuments alone reads `documents`, the document column of the sample. A document is a run of
  // one number that is not negative; padding has -1. The first rows of padding behind a document of
  // L rows belong to it, as many as L lacks to a multiple of 2 P; the others up to the next
  // document are a region of their own. DataError where a region is no multiple of 2 P: the padding
  // is missing.
  //
  // ConfigError where `sequence` is no multiple of 2 P.
  std::vector<Range> rows(std::int64_t sequence, std::span<const std::int32_t> documents,
                          int rank) const;
  // The same, behind what is in `ranges`.
  void append_rows(std::int64_t sequence, std::span<const std::int32_t> documents, int rank,
                   std::vector<Range>& ranges) const;

  friend bool operator==(const ContextCut&, const ContextCut&) = default;

 private:
  int ranks_ = 1;
  Kind kind_ = Kind::kSequence;
};

}  // namespace phalanx
