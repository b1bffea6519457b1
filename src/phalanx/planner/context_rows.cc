#include "phalanx/planner/context_rows.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/nn/ring_attention.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMostRowsDrawn = 4096;
constexpr int kMostRanksDrawn = 16;
constexpr std::size_t kMostChunksDrawn = 256;

// The document of every row; -1: padding.
std::vector<std::int32_t> document_column_of(const ContextSample& sample) {
  const bool is_cut = sample.cut.kind() == ContextCut::Kind::kDocuments;
  const std::int64_t multiple = is_cut ? std::int64_t{2} * sample.cut.ranks() : 1;
  if (sample.documents.empty()) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(sample.sequence), 0);
  }
  std::vector<std::int32_t> column;
  for (std::size_t d = 0; d < sample.documents.size(); ++d) {
    const std::int64_t length = sample.documents[d];
    if (length < 1) throw ConfigError("a document of {} rows", length);
    column.insert(column.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(d));
    column.resize(static_cast<std::size_t>(round_up(std::ssize(column), multiple)), -1);
  }
  if (std::ssize(column) > sample.sequence) {
    throw ConfigError("the documents take {} rows with their padding, and a sample has {}",
                      column.size(), sample.sequence);
  }
  column.resize(static_cast<std::size_t>(sample.sequence), -1);
  return column;
}

}  // namespace

ContextRows context_rows(const ContextSample& sample) {
  const int ranks = sample.cut.ranks();
  if (sample.sequence < 1 || sample.sequence > kMostRowsDrawn || ranks > kMostRanksDrawn) {
    throw ConfigError("a picture has samples of {} rows on {} ranks at most, not of {} rows on {}",
                      kMostRowsDrawn, kMostRanksDrawn, sample.sequence, ranks);
  }
  const std::vector<std::int32_t> documents = document_column_of(sample);
  const auto document = [&](std::int64_t row) { return documents[static_cast<std::size_t>(row)]; };
  ContextRows rows;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const auto& range : sample.cut.rows(sample.sequence, documents, rank)) {
      rows.chunks.push_back({rank, range.first, range.count, document(range.first)});
    }
  }
  std::ranges::sort(rows.chunks, {}, &ContextRows::Chunk::first);
  if (rows.chunks.size() > kMostChunksDrawn) {
    throw ConfigError("a sample of {} chunks is too much for a picture, which has {} at most",
                      rows.chunks.size(), kMostChunksDrawn);
  }
  rows.pairs.assign(static_cast<std::size_t>(ranks),
                    std::vector<std::int64_t>(static_cast<std::size_t>(ranks)));
  for (int q = 0; q < std::ssize(rows.chunks); ++q) {
    const ContextRows::Chunk& query = rows.chunks[static_cast<std::size_t>(q)];
    for (int k = 0; k <= q; ++k) {
      const ContextRows::Chunk& key = rows.chunks[static_cast<std::size_t>(k)];
      ContextRows::Block block{
          .query = q, .key = k, .step = nn::ring_step(query.rank, key.rank, ranks)};
      // The rule of ops::AttentionMask: causal, and within documents.
      for (std::int64_t i = query.first; i < query.first + query.count; ++i) {
        for (std::int64_t j = key.first; j < std::min(key.first + key.count, i + 1); ++j) {
          if (document(j) >= 0 && document(i) == document(j)) ++block.pairs;
        }
      }
      if (block.pairs == 0) continue;
      rows.pairs[static_cast<std::size_t>(query.rank)][static_cast<std::size_t>(block.step)] +=
          block.pairs;
      rows.blocks.push_back(block);
    }
  }
  return rows;
}

}  // namespace phalanx
