#pragma once
// Learns a byte-level BPE from text: starting from the 256 bytes, the most frequent adjacent pair
// inside the words of word_splitter.h becomes a token, again and again (Sennrich et al., 2016).
//
// Deterministic, whatever the order of the texts: of pairs with equal counts the one with the
// smaller (left id, right id) wins; occurrences merge from left to right; overlapping ones ("aaa")
// all count. Ids are GPT-2's: the byte symbols by code point, the merges in order, <|endoftext|>
// last.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

struct BpeTrainerOptions {
  std::int64_t vocab_size = 0;     // --vocab-size, <|endoftext|> included; at least 257
  std::int64_t min_frequency = 2;  // a pair that occurs less often is not merged; at least 1
};

class BpeTrainer {
 public:
  // ConfigError for options out of range.
  explicit BpeTrainer(const BpeTrainerOptions& options);

  // Counts the words of a text; memory grows with the distinct words only. A word longer than 1,024
  // bytes (no natural one) is counted in pieces, which bounds the work of a merge.
  void add_text(std::string_view text);
  // The words of another trainer's texts. So each thread may count with a trainer of its own.
  void add_words_of(const BpeTrainer& other);

  // The tables for what was added so far. Where the pairs run out first, they are smaller than
  // asked, with a warning; so take the vocabulary size from the result.
  BpeTables train() const;

 private:
  // Not noexcept: the standard library then keeps the hash of every word beside it.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>()(word);
    }
  };

  void add_word(std::string_view word, std::int64_t count);

  BpeTrainerOptions options_;
  WordSplitter splitter_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace phalanx
