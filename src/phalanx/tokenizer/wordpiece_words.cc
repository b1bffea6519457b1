#include "phalanx/tokenizer/wordpiece_words.h"

#include <algorithm>
#include <cstdint>

#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

using FoundWord = std::function<void(std::string_view)>;

enum class Reading { kDropped, kBlank, kIdeograph, kOfWord };

Reading reading_of(char32_t character) {
  constexpr char32_t kReplacement = 0xfffd;
  if (character == '\t' || character == '\n' || character == '\r') return Reading::kBlank;
  if (character < 0x80) {
    if (character < 0x20 || character == 0x7f) return Reading::kDropped;
    return character == ' ' ? Reading::kBlank : Reading::kOfWord;
  }
  if (character == kReplacement) return Reading::kDropped;
  const std::string_view category = general_category(character);
  if (category == "Cc" || category == "Cf") return Reading::kDropped;
  if (is_white_space(character)) return Reading::kBlank;
  return is_cjk_ideograph(character) ? Reading::kIdeograph : Reading::kOfWord;
}

bool is_ascii_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<std::uint8_t>(c) < 0x80; });
}

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

void make_lower_case(std::string& word) {
  if (is_ascii_text(word)) {
    std::ranges::transform(word, word.begin(), lower_ascii);
    return;
  }
  const std::string decomposed = normalized(lower_case(word), NormalForm::kNfd);
  word.clear();
  for (std::string_view rest = decomposed; !rest.empty();) {
    const std::string_view before = rest;
    if (general_category(take_character(rest)) == "Mn") continue;
    word += before.substr(0, before.size() - rest.size());
  }
}

void cut_at_punctuation(std::string_view text, const FoundWord& found) {
  std::size_t word = 0;  // where the word begins
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t at = text.size() - rest.size();
    if (!is_bert_punctuation(take_character(rest))) continue;
    const std::size_t end = text.size() - rest.size();
    if (at > word) found(text.substr(word, at - word));
    found(text.substr(at, end - at));
    word = end;
  }
  if (word < text.size()) found(text.substr(word));
}

}  // namespace

void WordPieceWords::read(std::string_view text, const FoundWord& found) const {
  std::string word;
  const auto finish = [&] {
    if (lower_case_) make_lower_case(word);
    cut_at_punctuation(word, found);
    word.clear();
  };
  while (!text.empty()) {
    const std::string_view before = text;
    const Reading reading = reading_of(take_character(text));
    if (reading == Reading::kDropped) continue;
    if (reading != Reading::kOfWord && !word.empty()) finish();
    if (reading == Reading::kBlank) continue;
    word += before.substr(0, before.size() - text.size());
    if (reading == Reading::kIdeograph) finish();
  }
  if (!word.empty()) finish();
}

}  // namespace phalanx
