#pragma once
// Where each token stands in the text that it was made of.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Bytes [begin, end) of a text.
struct TokenPlace {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TokenPlace&) const = default;
};

// Finds the places by what the ids stand for, in any tokenizer that keeps the text: byte-level BPE,
// tiktoken, and SentencePiece with byte fallback, also behind NFC. A blank that a tokenizer puts
// before a word is no part of a place; blanks that a special token swallows are in no place; of a
// character of several tokens each has its own bytes. Not for several threads at once: it keeps
// what it has learned of ids.
class TokenPlaces {
 public:
  explicit TokenPlaces(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The place of each id. DataError where an id is not what the text has next: the tokenizer
  // changes text, or has no token for it.
  std::vector<TokenPlace> of(std::string_view text, const std::vector<std::int32_t>& ids);

 private:
  struct Failure {
    std::size_t token = 0;
    std::size_t byte = 0;
  };

  // What the text may have where the id is, the likeliest first.
  const std::vector<std::string>& readings(std::int32_t id);
  bool align(std::string_view text, const std::vector<std::int32_t>& ids,
             std::vector<TokenPlace>& places, Failure& failure);

  const Tokenizer& tokenizer_;
  std::unordered_map<std::int32_t, std::vector<std::string>> readings_;
};

}  // namespace phalanx
