#pragma once
// The words of BERT's WordPiece, as Google's tokenization.py cuts them. Control and format
// characters vanish; CJK ideographs are words of their own; white space cuts; in lower case a word
// is lower case in context, decomposed (NFD) and without its marks (Mn); each punctuation character
// is a word. A byte that is no UTF-8 reads as U+FFFD, which vanishes.

#include <functional>
#include <string>
#include <string_view>

namespace phalanx {

class WordPieceWords {
 public:
  explicit WordPieceWords(bool lower_case) : lower_case_(lower_case) {}

  // Calls `found` with each word of the text, in order: well-formed UTF-8, not empty, valid during
  // the call.
  void read(std::string_view text, const std::function<void(std::string_view)>& found) const;

 private:
  bool lower_case_;
};

}  // namespace phalanx
