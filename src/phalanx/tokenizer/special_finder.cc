#include "phalanx/tokenizer/special_finder.h"

#include <algorithm>

namespace phalanx {

SpecialFinder::SpecialFinder(std::vector<std::pair<std::string, std::int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_);
  for (const auto& [text, id] : tokens_) first_bytes_[static_cast<std::uint8_t>(text[0])] = true;
}

std::optional<SpecialFinder::Found> SpecialFinder::found_at(std::string_view text,
                                                            std::size_t begin) const {
  std::optional<Found> longest;
  const auto* first = tokens_.data();
  const auto* last = first + tokens_.size();
  // Tokens that match the text so far are neighbours; the one that ends here comes first.
  for (std::size_t length = 0; first != last; ++length) {
    if (first->first.size() == length) longest = {begin, length, (first++)->second};
    if (begin + length == text.size()) break;
    const auto byte = static_cast<std::uint8_t>(text[begin + length]);
    const auto byte_of = [length](const auto& token) {
      return static_cast<std::uint8_t>(token.first[length]);
    };
    first = std::lower_bound(first, last, byte, [&](const auto& token, std::uint8_t value) {
      return byte_of(token) < value;
    });
    last = std::upper_bound(first, last, byte, [&](std::uint8_t value, const auto& token) {
      return value < byte_of(token);
    });
  }
  return longest;
}

std::optional<SpecialFinder::Found> SpecialFinder::find(std::string_view text) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<std::uint8_t>(text[begin])]) continue;
    if (const auto found = found_at(text, begin)) return found;
  }
  return std::nullopt;
}

}  // namespace phalanx
