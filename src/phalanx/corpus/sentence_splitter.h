#pragma once
// Cuts text into sentences by rules, for BERT's and T5's datasets. English: a full stop, question
// mark or exclamation mark ends a sentence where white space and a word that can begin one follow;
// abbreviations, initials, numbers of a list, acronyms and ellipses are told apart by tables and by
// what follows. Chinese and Japanese: their full stops and marks end a sentence as they stand. A
// blank line ends one everywhere. The same text gives the same sentences everywhere: no locale, no
// model.

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
  // White space behind a sentence belongs to it, and that before the first one too: the sentences,
  // joined, are the text. Otherwise they lose it, and empty ones are dropped.
  bool keep_newlines = false;
};

// Views into the text, in order. Bytes that are no UTF-8 are letters of no kind.
std::vector<std::string_view> split_sentences(std::string_view text,
                                              const SentenceOptions& options = {});

}  // namespace phalanx
