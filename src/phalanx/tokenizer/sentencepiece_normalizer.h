#pragma once
// How SentencePiece rewrites a text before it looks for pieces: characters by the model's compiled
// map (a double-array trie of darts-clone, and the strings that its values point to), runs of
// blanks as one, a blank in front, blanks as U+2581.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/sentencepiece_model.h"
#include "phalanx/tokenizer/sentencepiece_trie.h"

namespace phalanx {

inline constexpr std::string_view kSentencePieceBlank = "\u2581";

// Bytes of the character that the text, which is not empty, begins with, by its first byte alone.
std::size_t sentencepiece_character_length(std::string_view text);

class SentencePieceNormalizer {
 public:
  // DataError, naming `source`, where the map is damaged.
  SentencePieceNormalizer(NormalizerRules rules, bool whitespace_as_suffix,
                          const std::string& source);

  // Strings of `kept` stay as they are. A byte that is no UTF-8 becomes U+FFFD. DataError where a
  // text grows beyond reason.
  std::string normalized(std::string_view text, const SentencePieceTrie& kept) const;

 private:
  // A rewritten piece of the text, and the bytes of the text that it stands for.
  struct Step {
    std::string_view text;
    std::size_t bytes;
  };
  Step step(std::string_view text, const SentencePieceTrie& kept) const;
  // The step for the longest string of the map that the text begins with; 0 bytes if there is none.
  Step mapped(std::string_view text) const;
  std::string_view blank() const { return rules_.escape_whitespaces ? kSentencePieceBlank : " "; }
  void append(std::string_view text, std::string& result) const;

  NormalizerRules rules_;
  bool whitespace_as_suffix_;
  std::vector<std::uint32_t> trie_;
  std::string targets_;  // ended by zero bytes
};

}  // namespace phalanx
