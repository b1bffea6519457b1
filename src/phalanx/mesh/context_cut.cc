#include "phalanx/mesh/context_cut.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

// Rows [begin, end) are the next region of a document column.
std::int64_t region_end(std::span<const std::int32_t> documents, std::int64_t begin,
                        std::int64_t chunks) {
  const auto at = [&](std::int64_t row) { return documents[static_cast<std::size_t>(row)]; };
  const std::int64_t sequence = std::ssize(documents);
  const std::int32_t document = at(begin);
  std::int64_t end = begin + 1;
  if (document < 0) {
    while (end < sequence && at(end) < 0) ++end;
  } else {
    while (end < sequence && at(end) == document) ++end;
    const std::int64_t padded = begin + ceil_div(end - begin, chunks) * chunks;
    while (end < std::min(padded, sequence) && at(end) < 0) ++end;
  }
  if ((end - begin) % chunks != 0) {
    throw DataError(
        "rows {} to {} of a sample, of document {} with its padding, are {}, no multiple of {}: to "
        "cut documents for context parallelism, pad each with rows of document -1",
        begin, end - 1, document, end - begin, chunks);
  }
  return end;
}

}  // namespace

ContextCut::ContextCut(int ranks, Kind kind) : ranks_(ranks), kind_(kind) {
  PHALANX_CHECK(ranks > 0, "a sample cut for {} ranks", ranks);
}

std::vector<ContextCut::Range> ContextCut::rows(std::int64_t sequence,
                                                std::span<const std::int32_t> documents,
                                                int rank) const {
  std::vector<Range> ranges;
  append_rows(sequence, documents, rank, ranges);
  return ranges;
}

void ContextCut::append_rows(std::int64_t sequence, std::span<const std::int32_t> documents,
                             int rank, std::vector<Range>& ranges) const {
  PHALANX_CHECK(rank >= 0 && rank < ranks_, "rank {} of {} of a sample", rank, ranks_);
  if (ranks_ == 1) {
    ranges.push_back({.first = 0, .count = sequence});
    return;
  }
  const std::int64_t chunks = std::int64_t{2} * ranks_;
  if (sequence % chunks != 0) {
    throw ConfigError("a sample of {} rows cannot be cut into {} chunks for {} ranks", sequence,
                      chunks, ranks_);
  }
  const auto append = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t count = (end - begin) / chunks;
    ranges.push_back({.first = begin + rank * count, .count = count});
    ranges.push_back({.first = begin + (chunks - 1 - rank) * count, .count = count});
  };
  if (kind_ == Kind::kSequence) {
    append(0, sequence);
    return;
  }
  PHALANX_CHECK(std::ssize(documents) == sequence, "documents of {} rows, of {}", documents.size(),
                sequence);
  for (std::int64_t begin = 0; begin < sequence;) {
    const std::int64_t end = region_end(documents, begin, chunks);
    append(begin, end);
    begin = end;
  }
}

}  // namespace phalanx
