#pragma once
// The pattern of a tokenizer.json's Split and Replace: {"String": ...} or {"Regex": ...}.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/hf/tokenizer_json.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {

using TextMatch = MatchCursor::Match;

class TextPattern {
 public:
  virtual ~TextPattern() = default;
  // From left to right, not overlapping. Well-formed UTF-8.
  virtual std::vector<TextMatch> matches(std::string_view text) const = 0;
  // What finds the same matches one by one; null where there is no such.
  virtual const WordSplitter* splitter() const { return nullptr; }
};

std::unique_ptr<const TextPattern> make_text_pattern(const JsonNode& node);
// GPT-2's.
std::unique_ptr<const TextPattern> make_gpt2_pattern();

// The text with each match replaced.
std::string replaced(std::string_view text, const TextPattern& pattern,
                     std::string_view replacement);

}  // namespace phalanx
