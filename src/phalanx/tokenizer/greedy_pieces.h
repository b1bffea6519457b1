#pragma once
// WordPiece's step from a word to ids (Wu et al., 2016): again and again the longest prefix of what
// is left that is a token; behind the first, tokens that begin with a prefix of their own ("##").
// Where a part fails, or the word is too long, the whole word is the unknown token.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace phalanx {

class GreedyPieces {
 public:
  struct Options {
    std::string continuing_prefix = "##";
    std::size_t most_characters = 200;  // of a word, in code points
    std::int32_t unknown = 0;           // an id
  };

  // Token i of the list has id i. Empty ones are none; of equal ones the last counts. The tokens
  // are copied.
  GreedyPieces(std::span<const std::string> tokens, Options options);

  // A word of well-formed UTF-8.
  void append_ids(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Ids = std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>>;

  // The longest prefix that is in the map: takes it off `rest`. -1 where there is none.
  std::int32_t take_longest(const Ids& tokens, std::string_view& rest) const;

  Options options_;
  Ids first_;                // at the beginning of a word
  Ids continued_;            // behind it, without the prefix
  std::size_t longest_ = 0;  // bytes of the longest token
};

}  // namespace phalanx
