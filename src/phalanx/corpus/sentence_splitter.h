#pragma once
// Cuts text into sentences by rules, for BERT's and T5's datasets. English: a full stop, question
// mark or exclamation mark ends a sentence where white space and a word that can begin one follow;
// abbreviations, initials, numbers of a list, acronyms and ellipses are recognised by tables and by
// what follows. Chinese and Japanese: their full stops and marks always end a sentence. A blank
// line ends one everywhere. The same text gives the same sentences everywhere: no locale, no model.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

enum class SentenceLanguage : std::uint8_t {
  kAuto,     // Japanese where there is hiragana, else Chinese; both know English
  kEnglish,  // Chinese and Japanese marks mean nothing
  kChinese,
  kJapanese,  // nothing is cut within quotation marks, nor before a particle that follows them
};

struct SentenceOptions {
  SentenceLanguage language = SentenceLanguage::kAuto;
  // Sentences keep the white space after them (the first one also the white space before it), so
  // that joined they are the text. Otherwise they lose it, and empty ones are dropped.
  bool keep_newlines = false;
};

// Views into the text, in order. Bytes that are not UTF-8 count as U+FFFD.
std::vector<std::string_view> split_sentences(std::string_view text,
                                              const SentenceOptions& options = {});

}  // namespace phalanx
