#pragma once
// Unicode for the tokenizers: UTF-8, properties of characters, normalisation forms and lower case
// (ICU). Characters are code points.

#include <cstddef>
#include <string>
#include <string_view>

namespace phalanx {

// Bytes of the well-formed UTF-8 character that `text` begins with; 0 where there is none (The
// Unicode Standard, table 3-7).
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);
// The text with U+FFFD for each byte that is no part of a well-formed character.
std::string repaired_utf8(std::string_view text);
// With U+FFFD for each longest beginning of a character instead, as Unicode recommends (3.9).
std::string repaired_utf8_by_sequences(std::string_view text);
// Takes the first character off `text`, which is not empty. A byte that is no part of a well-formed
// character is U+FFFD.
char32_t take_character(std::string_view& text);
std::size_t count_characters(std::string_view text);
void append_utf8(char32_t character, std::string& text);
std::string utf8_of(char32_t character);

// The two letters of the general category: "Lu", "Nd", "Cn" (unassigned), ...
std::string_view general_category(char32_t character);
inline bool is_mark(char32_t character) { return general_category(character)[0] == 'M'; }
inline bool is_number(char32_t character) { return general_category(character)[0] == 'N'; }
bool is_white_space(char32_t character);  // the property White_Space
// \w of Oniguruma and Rust: Alphabetic, M, Nd, Pc and Join_Control.
bool is_word_character(char32_t character);
// BERT's: the category P, and all of ASCII that is neither letter, digit, blank nor control.
bool is_bert_punctuation(char32_t character);
// BERT's: the blocks of CJK ideographs; not kana, not hangul.
bool is_cjk_ideograph(char32_t character);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// The normal form of well-formed UTF-8.
std::string normalized(std::string_view text, NormalForm form);
// Each character alone: a sigma at the end of a word becomes σ as anywhere.
std::string lower_case_of_characters(std::string_view text);
// In context, without a language: a sigma at the end of a word becomes ς.
std::string lower_case(std::string_view text);

}  // namespace phalanx
