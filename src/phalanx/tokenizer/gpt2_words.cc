#include "phalanx/tokenizer/gpt2_words.h"

#include <string>

#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/unicode.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {
namespace {

// Planes 4 to 16 have neither letters nor numbers nor white space.
constexpr char32_t kFirstUnlisted = 0x40000;

// The length of a contraction at the beginning of the text; 0 if there is none.
std::size_t contraction_length(std::string_view text) {
  if (text.size() < 2) return 0;
  const char first = text[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = text[2];
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? 3 : 0;
}

// The character of well-formed UTF-8 of this length.
char32_t decoded(const unsigned char* bytes, std::size_t length) {
  char32_t character = bytes[0] & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (bytes[i] & 0x3fU);
  return character;
}

}  // namespace

const Gpt2Words& Gpt2Words::instance() {
  static const Gpt2Words words;
  return words;
}

Gpt2Words::Gpt2Words() : by_character_(kFirstUnlisted, Kind::kOther) {
  std::string all;
  for (char32_t character = 0; character < kFirstUnlisted; ++character) {
    if (character < 0xd800 || character > 0xdfff) append_utf8(character, all);
  }
  mark(R"(\p{L}+)", Kind::kLetter, all);
  mark(R"(\p{N}+)", Kind::kNumber, all);
  mark(pattern_of_oniguruma(R"(\s+)", "white space"), Kind::kSpace, all);
  by_byte_.fill(Kind::kNotAscii);
  for (std::size_t byte = 0; byte < 0x80; ++byte) by_byte_[byte] = by_character_[byte];
}

void Gpt2Words::mark(std::string_view pattern, Kind kind, std::string_view all_characters) {
  const WordSplitter splitter(pattern);
  MatchCursor cursor(splitter);
  cursor.restart(all_characters);
  while (const auto match = cursor.next()) {
    std::string_view run = all_characters.substr(match->begin, match->end - match->begin);
    while (!run.empty()) by_character_[take_character(run)] = kind;
  }
}

Gpt2Words::Character Gpt2Words::wide_character_at(std::string_view text, std::size_t at) const {
  const std::size_t length = utf8_length(text.substr(at));
  if (length == 0) return {Kind::kBroken, 1};
  const char32_t character =
      decoded(reinterpret_cast<const unsigned char*>(text.data()) + at, length);
  return {character < kFirstUnlisted ? by_character_[character] : Kind::kOther,
          static_cast<std::uint8_t>(length)};
}

Gpt2Words::Character Gpt2Words::character_at(std::string_view text, std::size_t at) const {
  const Kind kind = by_byte_[static_cast<std::uint8_t>(text[at])];
  return kind == Kind::kNotAscii ? wide_character_at(text, at) : Character{kind, 1};
}

std::size_t Gpt2Words::run_end(std::string_view text, std::size_t at, Kind kind) const {
  while (true) {
    while (at < text.size() && by_byte_[static_cast<std::uint8_t>(text[at])] == kind) ++at;
    if (at == text.size() || static_cast<std::uint8_t>(text[at]) < 0x80) return at;
    const Character next = wide_character_at(text, at);
    if (next.kind != kind) return at;
    at += next.length;
  }
}

// The end of a run of white space. Its last character belongs to the next word, if there is one.
std::size_t Gpt2Words::space_end(std::string_view text, std::size_t at) const {
  const std::size_t end = run_end(text, at, Kind::kSpace);
  if (end == text.size() || character_at(text, end).kind == Kind::kBroken) return end;
  std::size_t last = end - 1;
  while ((static_cast<std::uint8_t>(text[last]) & 0xc0U) == 0x80U) --last;
  return last == at ? end : last;
}

std::size_t Gpt2Words::word_end(std::string_view text, std::size_t at) const {
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Character next = character_at(text, at + 1);
    if (next.kind != Kind::kSpace && next.kind != Kind::kBroken) {
      return run_end(text, at + 1 + next.length, next.kind);
    }
  }
  if (text[at] == '\'') {
    const std::size_t length = contraction_length(text.substr(at));
    if (length != 0) return at + length;
  }
  const Character first = character_at(text, at);
  if (first.kind == Kind::kSpace) return space_end(text, at);
  return run_end(text, at + first.length, first.kind);
}

}  // namespace phalanx
