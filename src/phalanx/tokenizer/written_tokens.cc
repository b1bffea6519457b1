#include "phalanx/tokenizer/written_tokens.h"

#include <algorithm>

namespace phalanx {

void WrittenTokens::read(std::string_view text,
                         const std::function<void(std::string_view)>& between,
                         const std::function<void(std::int32_t)>& token) const {
  std::size_t at = 0;
  // Where each token is written next. One that lies behind `at` is looked for again, so each is
  // looked for once in every part of the text.
  std::vector<std::size_t> next(tokens_.size(), 0);
  bool is_first = true;
  for (;; is_first = false) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (is_first || next[i] < at) next[i] = text.find(tokens_[i].text, at);
    }
    const auto first = std::ranges::min_element(next);
    if (first == next.end() || *first == std::string_view::npos) break;
    const Token& found = tokens_[static_cast<std::size_t>(first - next.begin())];
    if (*first > at) between(text.substr(at, *first - at));
    token(found.id);
    at = *first + found.text.size();
  }
  if (at < text.size()) between(text.substr(at));
}

}  // namespace phalanx
