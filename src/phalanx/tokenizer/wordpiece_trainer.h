#pragma once
// Learns a WordPiece vocabulary from text by merging the most frequent pairs (merge_learner.h), as
// Hugging Face's tokenizers do; not Google's likelihood, whose trainer was never published.
//
// Deterministic, whatever the order of the texts. Ids: the special tokens; the characters by code
// point; those that occur behind the first of a word, as ##c, by code point; the merges in order. A
// merge whose string is a token already keeps that token's id. (The library's ids of ##c follow a
// randomly seeded hash map, so two of its runs may differ in a few tokens.)

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/wordpiece_words.h"

namespace phalanx {

struct WordPieceTrainerOptions {
  std::int64_t vocab_size = 0;         // --vocab-size, special tokens included; at least 6
  std::int64_t min_frequency = 2;      // a pair that occurs less often is not merged; at least 1
  std::int64_t limit_alphabet = 1000;  // characters, the most frequent ones; at least 1
  bool lower_case = false;
  std::vector<std::string> special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
};

class WordPieceTrainer {
 public:
  // ConfigError for options out of range.
  explicit WordPieceTrainer(const WordPieceTrainerOptions& options);

  // Counts the words of a text, as BertWordPieceLowerCase or BertWordPieceCase cut it; memory grows
  // with the distinct words only. Words of more than 200 characters do not count: no tokenizer
  // looks into them.
  void add_text(std::string_view text);
  // The words of another trainer's texts. So each thread may count with a trainer of its own.
  void add_words_of(const WordPieceTrainer& other);
  // A word as it stands: well-formed UTF-8.
  void add_word(std::string_view word, std::int64_t count);

  // The tokens by id. There are fewer than asked for where the pairs run out first, and more where
  // the characters alone are more, both with a warning.
  std::vector<std::string> train() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  class Vocabulary;

  // The characters that are kept, by code point.
  std::vector<char32_t> alphabet() const;

  WordPieceTrainerOptions options_;
  WordPieceWords words_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

// vocab.txt: a token a line.
void write_wordpiece_file(const std::vector<std::string>& tokens,
                          const std::filesystem::path& path);

}  // namespace phalanx
