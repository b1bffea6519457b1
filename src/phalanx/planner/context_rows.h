#pragma once
// Which rows of a sample each rank of a context holds, and in which step of a ring it attends to
// which of them: a picture of one sample.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/mesh/context_cut.h"

namespace phalanx {

struct ContextSample {
  ContextCut cut;
  std::int64_t sequence = 0;
  // The lengths of the documents of the sample, one behind the other, which do not see each other;
  // none: all rows see each other, as far as they are causal.
  std::vector<std::int64_t> documents = {};
};

struct ContextRows {
  // Neighbouring rows [first, first + count) of one rank.
  struct Chunk {
    int rank = 0;
    std::int64_t first = 0, count = 0;
    std::int32_t document = 0;  // of its first row; -1: padding
  };
  // A chunk of queries and one of keys of which some see each other.
  struct Block {
    int query = 0, key = 0;  // numbers of chunks
    int step = 0;            // of the ring, in which the query's rank has the key
    std::int64_t pairs = 0;  // of a query and a key that it sees
  };
  std::vector<Chunk> chunks;                     // in the order of the sample
  std::vector<Block> blocks;                     // by query, then by key
  std::vector<std::vector<std::int64_t>> pairs;  // by rank, then by step
};

// ConfigError for documents that do not fit, a sample that cannot be cut, and one that is too long
// for a picture. Documents have the padding behind them that the cut wants.
ContextRows context_rows(const ContextSample& sample);

// One SVG document.
std::string to_svg(const ContextRows& rows, const ContextSample& sample);

}  // namespace phalanx
