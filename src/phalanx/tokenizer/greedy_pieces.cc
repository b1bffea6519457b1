#include "phalanx/tokenizer/greedy_pieces.h"

#include <algorithm>
#include <utility>

#include "phalanx/tokenizer/unicode.h"

namespace phalanx {

GreedyPieces::GreedyPieces(std::span<const std::string> tokens, Options options)
    : options_(std::move(options)) {
  const std::string& prefix = options_.continuing_prefix;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    const auto id = static_cast<std::int32_t>(i);
    if (token.empty()) continue;
    first_.insert_or_assign(token, id);
    longest_ = std::max(longest_, token.size());
    if (token.size() > prefix.size() && token.starts_with(prefix)) {
      continued_.insert_or_assign(token.substr(prefix.size()), id);
    }
  }
}

std::int32_t GreedyPieces::take_longest(const Ids& tokens, std::string_view& rest) const {
  for (std::size_t size = std::min(rest.size(), longest_); size > 0; --size) {
    const bool inside_character =
        size < rest.size() && (static_cast<std::uint8_t>(rest[size]) & 0xc0U) == 0x80U;
    if (inside_character) continue;
    const auto found = tokens.find(rest.substr(0, size));
    if (found == tokens.end()) continue;
    rest.remove_prefix(size);
    return found->second;
  }
  return -1;
}

void GreedyPieces::append_ids(std::string_view word, std::vector<std::int32_t>& ids) const {
  // A character has at most four bytes, so most words need not be counted.
  const bool too_long =
      word.size() > options_.most_characters && count_characters(word) > options_.most_characters;
  const std::size_t before = ids.size();
  for (std::string_view rest = too_long ? std::string_view() : word; !rest.empty();) {
    const std::int32_t id = take_longest(ids.size() == before ? first_ : continued_, rest);
    if (id < 0) {
      ids.resize(before);
      break;
    }
    ids.push_back(id);
  }
  if (ids.size() == before && !word.empty()) ids.push_back(options_.unknown);
}

}  // namespace phalanx
