#pragma once
// What trainers of BPE and of WordPiece have in common: words as lists of symbols, of which the
// most frequent adjacent pair becomes one symbol, again and again (Sennrich et al., 2016).
//
// Deterministic, whatever the order of the words: of pairs with equal counts the one with the
// smaller (left, right) wins; occurrences merge from left to right; overlapping ones ("aaa") all
// count.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "phalanx/tokenizer/pair_map.h"

namespace phalanx {

class MergeLearner {
 public:
  // A word that occurs `count` times. Symbols are not negative.
  void add_word(std::span<const std::int32_t> symbols, std::int64_t count);

  // The symbol that a pair becomes, new or not; none ends the learning.
  using Merged = std::function<std::optional<std::int32_t>(std::int32_t left, std::int32_t right)>;
  // Until no pair occurs `least_count` times (at least 1), or `merged` ends it.
  void learn(std::int64_t least_count, const Merged& merged);

 private:
  struct Word {
    std::size_t begin;  // in symbols_
    std::size_t length;
    std::int64_t count;
  };
  struct Pair {
    std::uint64_t key;
    std::int64_t count = 0;
    std::int64_t queued = 0;  // the count of its candidate, at least `count`; 0: it has none
    std::vector<std::uint32_t> words;  // where it was gained: may repeat, may be out of date
  };
  struct Candidate {
    std::int64_t count;
    std::uint64_t key;
    std::uint32_t pair;  // in pairs_
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.count != b.count ? a.count < b.count : a.key > b.key;
    }
  };

  std::uint32_t pair_of(std::int32_t left, std::int32_t right);
  void gain(std::int32_t left, std::int32_t right, std::uint32_t word);
  void lose(std::int32_t left, std::int32_t right, std::uint32_t word);
  void queue(std::uint32_t pair);
  void queue_gained();
  void merge(std::uint32_t pair, std::int32_t result);
  void merge_in_word(std::int32_t left, std::int32_t right, std::int32_t result,
                     std::uint32_t index);

  std::vector<Word> words_;
  std::vector<std::int32_t> symbols_;
  PairMap index_;  // (left, right) -> pairs_
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> gained_;  // pairs whose candidate may be too low, or not there
  std::priority_queue<Candidate> queue_;
};

}  // namespace phalanx
