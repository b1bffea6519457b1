#pragma once
// Tokens that are found in a text before the model sees it: a tokenizer.json's added_tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/hf/byte_trie.h"
#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // and behind it
  bool normalized = true;    // is sought in normalised text, normalised itself
  bool special = false;      // in data it is the text that it is; decoding may leave it out
};

AddedToken read_added_token(const JsonNode& node);
// One whose id stands elsewhere.
AddedToken read_added_token(const JsonNode& node, std::int32_t id);

// A stretch of a text: an added token, or what lies between.
struct Section {
  static constexpr std::int32_t kText = -1;
  std::string_view text;  // empty for a token
  std::int32_t id = kText;
};

class AddedTokenMatcher {
 public:
  // What is sought for a token is its content, or another text for it.
  void add(const AddedToken& token, std::string_view sought);

  bool empty() const { return tokens_.empty(); }
  // Leftmost, of those the longest. A match that may not count (not a single word; special where
  // special ones are not parsed) is text, and so is what it hides. No empty sections.
  std::vector<Section> sections(std::string_view text, bool parse_special) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // -> index into tokens_
};

}  // namespace phalanx
