#include "phalanx/corpus/sentence_splitter.h"

#include <algorithm>
#include <array>
#include <string>

#include "phalanx/data/sentence_tables.h"

namespace phalanx {
namespace {

struct CodePoint {
  char32_t value = 0;  // 0: the end of the text
  std::size_t size = 0;
};

// A byte that is not UTF-8 counts as one U+FFFD.
CodePoint code_point_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < size) return {0xfffd, 1};
  char32_t value = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {0xfffd, 1};
    value = value << 6 | (byte(i) & 0x3fU);
  }
  return {value, size};
}

CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t at = end;
  while (at > 0 && end - at < 4) {
    --at;
    if ((static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U) break;
  }
  const CodePoint found = code_point_at(text, at);
  return at + found.size == end ? found : CodePoint{end == 0 ? 0U : 0xfffdU, end == 0 ? 0U : 1U};
}

bool is_one_of(char32_t c, std::u32string_view set) {
  return c != 0 && set.find(c) != std::u32string_view::npos;
}

bool is_space(char32_t c) { return is_one_of(c, U" \t\n\r\v\f\u00a0\u2028\u2029\u3000"); }
bool is_quote(char32_t c) { return is_one_of(c, U"\"'\u2018\u2019\u201c\u201d\u00ab\u00bb"); }
bool is_cjk_opener(char32_t c) { return is_one_of(c, U"「『（【《〈〔［｛｢"); }
bool is_cjk_closer(char32_t c) { return is_one_of(c, U"」』）】》〉〕］｝｣"); }
bool is_opener(char32_t c) { return is_one_of(c, U"([{¿¡") || is_quote(c) || is_cjk_opener(c); }
bool is_closer(char32_t c) { return is_one_of(c, U")]}") || is_quote(c) || is_cjk_closer(c); }
bool is_dot(char32_t c) { return c == U'.'; }
bool is_latin_mark(char32_t c) { return is_one_of(c, U"!?‼⁇⁈⁉"); }
bool is_ellipsis(char32_t c) { return is_one_of(c, U"…⋯"); }
bool is_cjk_mark(char32_t c) { return is_one_of(c, U"。！？｡．"); }
bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_hiragana(char32_t c) { return c >= 0x3041 && c <= 0x3096; }
bool is_cjk_letter(char32_t c) {
  return (c >= 0x3041 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x9fff) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3ffff);
}

// Covers the alphabets with two cases that lie in contiguous blocks.
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= U'a' && c <= U'z';
  if (c < 0x100) return c >= 0xdf && c != 0xf7;
  if (c < 0x180) return (c & 1U) == (c >= 0x139 && c <= 0x148 ? 0U : 1U);
  return (c >= 0x3ac && c <= 0x3ce) || (c >= 0x430 && c <= 0x45f) || (c >= 0x561 && c <= 0x587);
}
template <typename Table>
bool is_in(const Table& table, std::string_view word) {
  return std::binary_search(table.begin(), table.end(), word);
}
static_assert(std::is_sorted(kTitleWords.begin(), kTitleWords.end()));
static_assert(std::is_sorted(kNumberedWords.begin(), kNumberedWords.end()));
static_assert(std::is_sorted(kAbbreviations.begin(), kAbbreviations.end()));
static_assert(std::is_sorted(kInnerAcronyms.begin(), kInnerAcronyms.end()));
static_assert(std::is_sorted(kOpeningWords.begin(), kOpeningWords.end()));

bool is_ascii_letter(char c) { return is_lower(c | 0x20) && (c & 0x80) == 0; }

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(is_ascii_letter(c) ? c | 0x20 : c);
  return lower;
}

// "U.S", "a.m", "Ph.D": short groups of letters between full stops.
bool is_acronym(std::string_view word) {
  bool has_stop = false;
  std::size_t letters = 0;
  for (const char c : word) {
    if (c == '.') {
      if (letters == 0) return false;
      has_stop = true;
      letters = 0;
    } else if (!is_ascii_letter(c) || ++letters > 3) {
      return false;
    }
  }
  return has_stop && letters > 0;
}

// Bytes that can end a sentence or change what is inside brackets: the ASCII marks, the line break
// and what begins U+2xxx, U+3xxx and U+Fxxx.
constexpr std::array<bool, 256> kStops = [] {
  std::array<bool, 256> stops{};
  for (const int c : {0x2e, 0x21, 0x3f, 0x0a, 0xe2, 0xe3, 0xef}) stops[c] = true;
  return stops;
}();

bool has_hiragana(std::string_view text) {
  for (auto at = text.find('\xe3'); at != std::string_view::npos; at = text.find('\xe3', at + 1)) {
    if (is_hiragana(code_point_at(text, at).value)) return true;
  }
  return false;
}

class Splitter {
 public:
  Splitter(std::string_view text, const SentenceOptions& options) : text_(text) {
    keeps_space_ = options.keep_newlines;
    knows_cjk_ = options.language != SentenceLanguage::kEnglish;
    is_japanese_ = options.language == SentenceLanguage::kJapanese ||
                   (options.language == SentenceLanguage::kAuto && has_hiragana(text));
  }

  std::vector<std::string_view> run() {
    while (at_ < text_.size()) step();
    cut(text_.size());
    return std::move(sentences_);
  }

 private:
  // What ended a run of marks, closers included.
  struct Marks {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool has_cjk = false;
    bool has_latin = false;  // ! or ?
    bool is_ellipsis = false;
    bool is_closed = false;  // quotes or brackets follow
    char32_t last_closer = 0;
  };

  char32_t at(std::size_t place) const { return code_point_at(text_, place).value; }

  void step() {
    if (!kStops[static_cast<unsigned char>(text_[at_])]) {
      ++at_;
      return;
    }
    const CodePoint c = code_point_at(text_, at_);
    if (c.value == U'\n') {
      end_of_line();
    } else if (is_mark(c.value)) {
      const Marks marks = read_marks();
      if (ends_sentence(marks)) {
        cut(marks.end);
      } else {
        at_ = marks.end;
      }
    } else {
      if (is_cjk_opener(c.value)) ++depth_;
      if (is_cjk_closer(c.value)) depth_ = std::max(depth_ - 1, 0);
      at_ += c.size;
    }
  }

  bool is_mark(char32_t c) const {
    return is_dot(c) || is_latin_mark(c) || is_ellipsis(c) || (knows_cjk_ && is_cjk_mark(c));
  }

  // A blank line ends a sentence, and what was open before a line break is forgotten: it may never
  // be closed.
  void end_of_line() {
    depth_ = 0;
    const std::size_t begin = at_;
    int lines = 0;
    for (CodePoint c = code_point_at(text_, at_); c.size > 0 && is_space(c.value);
         c = code_point_at(text_, at_)) {
      lines += c.value == U'\n' ? 1 : 0;
      at_ += c.size;
    }
    if (lines > 1) cut(begin);
  }

  Marks read_marks() {
    Marks marks{.begin = at_, .end = at_};
    int dots = 0;
    CodePoint c = code_point_at(text_, marks.end);
    for (; is_mark(c.value); c = code_point_at(text_, marks.end)) {
      dots += is_dot(c.value) ? 1 : is_ellipsis(c.value) ? 3 : 0;
      marks.has_latin |= is_latin_mark(c.value);
      marks.has_cjk |= is_cjk_mark(c.value);
      marks.end += c.size;
    }
    marks.is_ellipsis = dots > 1;
    for (; is_closer(c.value); c = code_point_at(text_, marks.end)) {
      if (is_cjk_closer(c.value)) depth_ = std::max(depth_ - 1, 0);
      marks.is_closed = true;
      marks.last_closer = c.value;
      marks.end += c.size;
    }
    return marks;
  }

  bool ends_sentence(const Marks& marks) const {
    const char32_t next = at(marks.end);
    if (next == 0) return true;
    const bool behind_cjk =
        knows_cjk_ && is_cjk_letter(code_point_before(text_, marks.begin).value);
    if (marks.has_cjk || (marks.has_latin && behind_cjk)) return ends_cjk_sentence(marks, next);
    return is_space(next) && ends_english_sentence(marks);
  }

  bool ends_cjk_sentence(const Marks& marks, char32_t next) const {
    if (is_one_of(next, U"，、；：,;:")) return false;
    if (is_one_of(marks.last_closer, U"》〉")) return false;  // of a title
    if (!is_japanese_) return true;
    return depth_ == 0 && !(marks.is_closed && is_hiragana(next));
  }

  bool ends_english_sentence(const Marks& marks) const {
    std::size_t word = marks.end;
    CodePoint next = code_point_at(text_, word);
    bool on_new_paragraph = false;
    for (int lines = 0; is_space(next.value); next = code_point_at(text_, word)) {
      lines += next.value == U'\n' ? 1 : 0;
      on_new_paragraph = lines > 1;
      word += next.size;
    }
    if (next.value == 0 || on_new_paragraph) return true;
    while (is_opener(next.value)) {
      word += next.size;
      next = code_point_at(text_, word);
    }
    if (is_lower(next.value)) return false;
    if (marks.has_latin) return true;
    if (marks.is_ellipsis) return !is_digit(next.value);
    return ends_with_full_stop(marks.begin, word);
  }

  // One full stop at `stop`, and the next word at `next`, which does not begin in lower case.
  bool ends_with_full_stop(std::size_t stop, std::size_t next) const {
    const std::size_t begin = word_before(stop);
    const std::string_view word = text_.substr(begin, stop - begin);
    const std::string lower = lower_case(word);
    const bool before_number = is_digit(at(next));
    if (word.empty()) return true;
    if (is_in(kTitleWords, lower) || is_in(kInnerAcronyms, lower)) return false;
    if (before_number && (is_in(kNumberedWords, lower) || is_in(kAbbreviations, lower))) {
      return false;
    }
    if (is_list_number(word, begin)) return false;
    if (code_point_at(text_, begin).size == word.size() && !is_digit(at(begin))) {
      return ends_with_letter(begin, next);
    }
    if (is_acronym(word) || is_in(kAbbreviations, lower)) return opens_sentence(next);
    return true;
  }

  // The word that ends at `end`: back to white space, brackets, quotes and dashes.
  std::size_t word_before(std::size_t end) const {
    std::size_t begin = end;
    for (CodePoint c = code_point_before(text_, begin);
         begin > start_ && c.size > 0 && !is_space(c.value) && !is_opener(c.value) &&
         !is_closer(c.value) && !is_one_of(c.value, U"—–/,;");
         c = code_point_before(text_, begin)) {
      begin -= c.size;
    }
    return begin;
  }

  // "1. Introduction", at the beginning of a line or sentence.
  bool is_list_number(std::string_view word, std::size_t begin) const {
    constexpr std::size_t kMostDigits = 3;
    if (word.size() > kMostDigits || !std::all_of(word.begin(), word.end(), is_digit)) return false;
    std::size_t line = begin;
    while (line > start_ && (text_[line - 1] == ' ' || text_[line - 1] == '\t')) --line;
    return line == start_ || text_[line - 1] == '\n';
  }

  // "J. Smith" is an initial; "vitamin C. The" and "So did I. Then" are not.
  bool ends_with_letter(std::size_t letter, std::size_t next) const {
    std::size_t end = letter;
    while (end > start_ && is_space(code_point_before(text_, end).value)) {
      end -= code_point_before(text_, end).size;
    }
    if (end == letter || end == start_) return false;
    const bool behind_lower = is_lower(at(word_before(end)));
    if (at(letter) == U'I') return behind_lower;
    return behind_lower && opens_sentence(next);
  }

  bool opens_sentence(std::size_t begin) const {
    std::size_t end = begin;
    while (end < text_.size() && is_ascii_letter(text_[end])) ++end;
    return is_in(kOpeningWords, text_.substr(begin, end - begin));
  }

  // Ends the sentence; the white space after it belongs to it or is dropped.
  void cut(std::size_t end) {
    std::size_t next = end;
    for (CodePoint c = code_point_at(text_, next); c.size > 0 && is_space(c.value);
         c = code_point_at(text_, next)) {
      next += c.size;
    }
    if (!keeps_space_) {
      while (start_ < end && is_space(at(start_))) start_ += code_point_at(text_, start_).size;
      while (end > start_ && is_space(code_point_before(text_, end).value)) {
        end -= code_point_before(text_, end).size;
      }
    } else {
      end = next;
      // The text begins with white space: that belongs to the first sentence.
      if (next < text_.size() && is_blank(text_.substr(start_, end - start_))) {
        at_ = next;
        return;
      }
    }
    if (end > start_) sentences_.push_back(text_.substr(start_, end - start_));
    start_ = next;
    at_ = next;
  }

  static bool is_blank(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); i += code_point_at(text, i).size) {
      if (!is_space(code_point_at(text, i).value)) return false;
    }
    return true;
  }

  std::string_view text_;
  bool keeps_space_ = false;
  bool knows_cjk_ = false;
  bool is_japanese_ = false;
  std::size_t start_ = 0;  // of the sentence
  std::size_t at_ = 0;
  int depth_ = 0;  // of Chinese and Japanese brackets
  std::vector<std::string_view> sentences_;
};

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view text,
                                              const SentenceOptions& options) {
  return Splitter(text, options).run();
}

}  // namespace phalanx
