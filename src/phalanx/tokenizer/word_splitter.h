#pragma once
// GPT-2's pre-tokenisation: cuts text into the words inside which BPE merges (Radford et al., 2019;
// the pattern of OpenAI's encoder, with Unicode's White_Space and the general categories L and N).
//
// Any bytes are accepted. A maximal run of bytes that are no UTF-8 is one word of its own; the
// pattern sees each valid stretch between such runs as a text of its own. The words in order,
// joined, are the text.

#include <cstddef>
#include <memory>
#include <string_view>

namespace phalanx {

// The compiled pattern: immutable, shared by any number of cursors and threads.
class WordSplitter {
 public:
  WordSplitter();
  ~WordSplitter();
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;

 private:
  friend class WordCursor;
  struct Pattern;
  std::unique_ptr<const Pattern> pattern_;
};

// One pass over one text. Splitter and text must outlive it.
class WordCursor {
 public:
  WordCursor(const WordSplitter& splitter, std::string_view text);
  ~WordCursor();

  // The next word, a view into the text; empty at the end.
  std::string_view next();

 private:
  struct MatchData;
  const WordSplitter::Pattern& pattern_;
  std::unique_ptr<MatchData> match_;
  std::string_view valid_;  // rest of the current valid stretch
  std::string_view rest_;   // what follows it
};

}  // namespace phalanx
