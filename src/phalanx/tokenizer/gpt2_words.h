#pragma once
// GPT-2's pattern (patterns.h, "gpt2") by hand: the same words as PCRE2 finds, several times as
// fast.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

class Gpt2Words {
 public:
  // Immutable, made on first use from PCRE2's own tables (so both mean the same by a letter).
  static const Gpt2Words& instance();

  // Where the word that begins at `at` ends, in any bytes: a maximal run of those that are no UTF-8
  // is a word, and the pattern sees it as the end of its text. `at` is the start of the text or the
  // end of a word, and not the end of the text.
  std::size_t word_end(std::string_view text, std::size_t at) const;

 private:
  enum class Kind : std::uint8_t { kOther, kLetter, kNumber, kSpace, kBroken, kNotAscii };
  struct Character {
    Kind kind;
    std::uint8_t length;
  };

  Gpt2Words();
  void mark(std::string_view pattern, Kind kind, std::string_view all_characters);
  Character character_at(std::string_view text, std::size_t at) const;
  Character wide_character_at(std::string_view text, std::size_t at) const;
  std::size_t run_end(std::string_view text, std::size_t at, Kind kind) const;
  std::size_t space_end(std::string_view text, std::size_t at) const;

  std::array<Kind, 256> by_byte_{};  // kNotAscii from 0x80
  std::vector<Kind> by_character_;   // below kFirstUnlisted; the others are kOther
};

}  // namespace phalanx
