#pragma once
// Pre-tokenisation: a regular expression finds the words of a text, inside which a tokenizer then
// merges.
//
// WordCursor takes any bytes. A maximal run of bytes that are no UTF-8 is one word of its own; the
// pattern sees each valid stretch between such runs as a text of its own, and what no match covers
// is a word too. So the words in order, joined, are the text.

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace phalanx {

class Gpt2Words;

// A compiled pattern: immutable, shared by any number of cursors and threads.
class WordSplitter {
 public:
  // A pattern as patterns.h gives it. ConfigError, beginning with `place`, where it is none.
  explicit WordSplitter(std::string_view pattern, std::string_view place = "the pattern");
  ~WordSplitter();
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;

 private:
  friend class MatchCursor;
  friend class WordCursor;
  struct Pattern;
  std::unique_ptr<const Pattern> pattern_;
};

// The matches in one text that is valid UTF-8, from left to right, each searched for from the end
// of the last. An empty one counts unless it begins where the last one ended; the search then goes
// on a character further (as the searches of tiktoken and of Hugging Face's tokenizers do).
class MatchCursor {
 public:
  // In bytes; the end is one behind the last.
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    friend bool operator==(const Match&, const Match&) = default;
  };

  // The splitter must outlive the cursor.
  explicit MatchCursor(const WordSplitter& splitter);
  ~MatchCursor();
  MatchCursor(MatchCursor&&) noexcept;
  MatchCursor& operator=(MatchCursor&&) noexcept;

  // Begins with another text, which must outlive the search.
  void restart(std::string_view text);
  // Nothing at the end. DataError where the pattern needs more steps or memory than are allowed.
  std::optional<Match> next();

 private:
  struct Search;
  std::unique_ptr<Search> search_;
};

// One pass over one text. Splitter and text must outlive it.
class WordCursor {
 public:
  WordCursor(const WordSplitter& splitter, std::string_view text);

  // The next word, a view into the text; empty at the end. DataError as MatchCursor.
  std::string_view next();

 private:
  std::string_view take_valid(std::size_t end);

  std::optional<MatchCursor> matches_;  // nothing where words are found by hand
  const Gpt2Words* by_hand_;
  std::string_view valid_;                   // the current valid stretch
  std::size_t at_ = 0;                       // where its next word begins
  std::optional<MatchCursor::Match> match_;  // the next match in it
  std::string_view rest_;                    // what follows it
};

// Size of the longest beginning of a text that may be cut off: by GPT-2's pattern and by BERT's
// rules both sides have the words of the whole. It ends with a letter, digit, punctuation character
// or symbol, and a blank or line feed follows. 0 where there is none.
std::size_t last_word_end(std::string_view text);

}  // namespace phalanx
