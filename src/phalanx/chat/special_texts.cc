#include "phalanx/chat/special_texts.h"

#include <algorithm>

namespace phalanx {
namespace {

// A text that has no encoding as it stands is one that only parsing reads.
bool is_special(const Tokenizer& tokenizer, std::int32_t id, const std::string& text) {
  const std::vector<std::int32_t> itself = {id};
  try {
    if (tokenizer.encode(text, {.parse_special = true}) != itself) return false;
  } catch (const DataError&) {
    return false;
  }
  try {
    return tokenizer.encode(text) != itself;
  } catch (const DataError&) {
    return true;
  }
}

}  // namespace

bool is_special_token(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string text = tokenizer.piece(id);
  return !text.empty() && is_special(tokenizer, id, text);
}

SpecialTexts::SpecialTexts(const Tokenizer& tokenizer) {
  for (std::int64_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::string text = tokenizer.piece(id);
    if (text.empty() || !is_special(tokenizer, id, text)) continue;
    by_first_byte_[static_cast<unsigned char>(text[0])].push_back(text);
    all_.emplace_back(id, text);
  }
}

bool SpecialTexts::has(std::int32_t id) const {
  return std::ranges::binary_search(all_, id, {}, &std::pair<std::int32_t, std::string>::first);
}

bool SpecialTexts::may_occur_in(std::string_view text) const {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto& candidates = by_first_byte_[static_cast<unsigned char>(text[at])];
    const bool is_found = std::ranges::any_of(candidates, [&](const std::string& candidate) {
      return text.substr(at).starts_with(candidate);
    });
    if (is_found) return true;
  }
  return false;
}

}  // namespace phalanx
