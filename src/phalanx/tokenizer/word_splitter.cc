#include "phalanx/tokenizer/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/gpt2_words.h"
#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

std::size_t valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

std::size_t invalid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && utf8_length(text.substr(end)) == 0) ++end;
  return end;
}

// A runaway pattern is stopped if a search takes more than this many steps (plus some for each byte
// of the text, because a run of blanks is walked back), or needs more than this memory for
// backtracking.
constexpr std::uint64_t kMostSteps = 10'000'000;
constexpr std::uint64_t kMostStepsPerByte = 8;
constexpr std::uint32_t kMostMemoryKiB = 64 * 1024;
constexpr std::size_t kLongestPattern = 64 * 1024;

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct WordSplitter::Pattern {
  const Gpt2Words* by_hand = nullptr;  // instead of the code
  std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>> code;
};

WordSplitter::WordSplitter(std::string_view pattern, std::string_view place) {
  const std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>> rules(
      pcre2_compile_context_create(nullptr));
  auto compiled = std::make_unique<Pattern>();
  if (pattern == pattern_named("gpt2")) {
    compiled->by_hand = &Gpt2Words::instance();
    pattern_ = std::move(compiled);
    return;
  }
  if (rules == nullptr) throw SystemError("out of memory while compiling a pattern");
  pcre2_set_newline(rules.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(rules.get(), kLongestPattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                                     &offset, rules.get()));
  if (compiled->code == nullptr) {
    throw ConfigError("{}: {} (PCRE2, byte {} of {})", place, message_of(error), offset,
                      pattern.substr(0, 400));
  }
  // Where the JIT is not available (a kernel that forbids executable pages), PCRE2 interprets:
  // slower, same words.
  static_cast<void>(pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE));
  pattern_ = std::move(compiled);
}
WordSplitter::~WordSplitter() = default;
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;

struct MatchCursor::Search {
  const WordSplitter::Pattern* pattern = nullptr;
  // Both made with the first search.
  std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>> limits;
  std::string_view text;
  std::size_t from = 0;                 // where the next search begins
  std::optional<std::size_t> last_end;  // of the last match

  void prepare() {
    data.reset(pcre2_match_data_create(1, nullptr));
    limits.reset(pcre2_match_context_create(nullptr));
    if (data == nullptr || limits == nullptr) {
      throw SystemError("out of memory while splitting text");
    }
    pcre2_set_heap_limit(limits.get(), kMostMemoryKiB);
    limit_steps();
  }
  void limit_steps() const {
    const std::uint64_t most = kMostSteps + kMostStepsPerByte * text.size();
    pcre2_set_match_limit(limits.get(),
                          static_cast<std::uint32_t>(std::min<std::uint64_t>(most, 0xffffffffU)));
  }

  // The first match from `from` on.
  std::optional<Match> find() {
    if (pattern->by_hand != nullptr) {
      if (from == text.size()) return std::nullopt;
      return Match{from, pattern->by_hand->word_end(text, from)};
    }
    if (data == nullptr) prepare();
    const auto search = [this](std::uint32_t options) {
      return pcre2_match(pattern->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                         text.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(), limits.get());
    };
    int count = search(0);
    // Machine code has a small stack; the interpreter uses the heap.
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = search(PCRE2_NO_JIT);
    if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
    if (count < 0) {
      throw DataError("the words of a text of {} bytes: {} from byte {} on", text.size(),
                      message_of(count), from);
    }
    PHALANX_CHECK(ends[0] >= from && ends[0] <= ends[1] && ends[1] <= text.size(),
                  "PCRE2 matched {} to {} from {}", ends[0], ends[1], from);
    return Match{ends[0], ends[1]};
  }
};

MatchCursor::MatchCursor(const WordSplitter& splitter) : search_(std::make_unique<Search>()) {
  search_->pattern = splitter.pattern_.get();
}
MatchCursor::~MatchCursor() = default;
MatchCursor::MatchCursor(MatchCursor&&) noexcept = default;
MatchCursor& MatchCursor::operator=(MatchCursor&&) noexcept = default;

void MatchCursor::restart(std::string_view text) {
  search_->text = text;
  search_->from = 0;
  search_->last_end.reset();
  if (search_->limits != nullptr) search_->limit_steps();
}

std::optional<MatchCursor::Match> MatchCursor::next() {
  Search& search = *search_;
  while (search.from <= search.text.size()) {
    const auto match = search.find();
    if (!match) break;
    if (match->begin == match->end && search.last_end == match->end) {
      if (search.from == search.text.size()) break;
      search.from += utf8_length(search.text.substr(search.from));
      continue;
    }
    search.from = match->end;
    search.last_end = match->end;
    return match;
  }
  search.from = search.text.size() + 1;
  return std::nullopt;
}

WordCursor::WordCursor(const WordSplitter& splitter, std::string_view text)
    : by_hand_(splitter.pattern_->by_hand), rest_(text) {
  if (by_hand_ == nullptr) matches_.emplace(splitter);
}

// The word from at_ to `end` of the valid stretch.
std::string_view WordCursor::take_valid(std::size_t end) {
  const std::string_view word = valid_.substr(at_, end - at_);
  at_ = end;
  return word;
}

std::string_view WordCursor::next() {
  if (by_hand_ != nullptr) {
    if (rest_.empty()) return {};
    const std::string_view word = rest_.substr(0, by_hand_->word_end(rest_, 0));
    rest_.remove_prefix(word.size());
    return word;
  }
  if (at_ == valid_.size()) {
    valid_ = rest_.substr(0, valid_prefix(rest_));
    rest_.remove_prefix(valid_.size());
    at_ = 0;
    if (valid_.empty()) {
      const std::string_view word = rest_.substr(0, invalid_prefix(rest_));
      rest_.remove_prefix(word.size());
      return word;
    }
    matches_->restart(valid_);
    match_ = matches_->next();
  }
  while (match_ && match_->begin == match_->end) {  // an empty one is a cut
    if (match_->begin > at_) return take_valid(match_->begin);
    match_ = matches_->next();
  }
  if (!match_) return take_valid(valid_.size());
  if (match_->begin > at_) return take_valid(match_->begin);
  const std::size_t end = match_->end;
  match_ = matches_->next();
  return take_valid(end);
}

std::size_t last_word_end(std::string_view text) {
  constexpr std::size_t kLongestCharacter = 4;
  constexpr std::string_view kOfWords = "LNPS";  // by the first letter of the general category
  for (std::size_t end = text.size(); end-- > 1;) {
    if (text[end] != ' ' && text[end] != '\n') continue;
    std::size_t begin = end - 1;
    while (begin > 0 && end - begin < kLongestCharacter && (text[begin] & 0xc0) == 0x80) --begin;
    std::string_view character = text.substr(begin, end - begin);
    if (utf8_length(character) != character.size()) continue;
    const std::string_view category = general_category(take_character(character));
    if (kOfWords.find(category.front()) != std::string_view::npos) return end;
  }
  return 0;
}

}  // namespace phalanx
