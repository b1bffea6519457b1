#include "phalanx/tokenizer/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// White_Space is written out: PCRE2's \s also takes U+180E, which Unicode removed from the property
// in 6.3.
#define PHALANX_WHITE_SPACE \
  R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
constexpr char kPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d)"
                            R"(| ?\p{L}+| ?\p{N}+| ?[^)" PHALANX_WHITE_SPACE R"(\p{L}\p{N}]+)"
                            R"(|[)" PHALANX_WHITE_SPACE R"(]+(?![^)" PHALANX_WHITE_SPACE R"(]))"
                            R"(|[)" PHALANX_WHITE_SPACE R"(]+)";
#undef PHALANX_WHITE_SPACE

// Length of the valid UTF-8 character that `text` starts with; 0 if there is none (Unicode 15,
// table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool second = continues(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = continues(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = character_length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

std::size_t invalid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && character_length(text.substr(end)) == 0) ++end;
  return end;
}

}  // namespace

struct WordSplitter::Pattern {
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code;
};

struct WordCursor::MatchData {
  struct Free {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_match_data, Free> data;
};

WordSplitter::WordSplitter() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto pattern = std::make_unique<Pattern>();
  // Anchored: the alternatives cover every character, so each word begins where the last one ended.
  pattern->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset,
                                    nullptr));
  PHALANX_CHECK(pattern->code != nullptr, "PCRE2 error {} at byte {} of the pattern", error,
                offset);
  // Where the JIT is not available (a kernel that forbids executable pages), PCRE2 interprets:
  // slower, same words.
  static_cast<void>(pcre2_jit_compile(pattern->code.get(), PCRE2_JIT_COMPLETE));
  pattern_ = std::move(pattern);
}
WordSplitter::~WordSplitter() = default;
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;

WordCursor::WordCursor(const WordSplitter& splitter, std::string_view text)
    : pattern_(*splitter.pattern_), match_(std::make_unique<MatchData>()), rest_(text) {
  match_->data.reset(pcre2_match_data_create(1, nullptr));
  if (match_->data == nullptr) throw SystemError("out of memory while splitting text");
}
WordCursor::~WordCursor() = default;

std::string_view WordCursor::next() {
  if (valid_.empty()) {
    valid_ = rest_.substr(0, valid_prefix(rest_));
    rest_.remove_prefix(valid_.size());
  }
  if (valid_.empty()) {
    const std::string_view word = rest_.substr(0, invalid_prefix(rest_));
    rest_.remove_prefix(word.size());
    return word;
  }
  const int count = pcre2_match(pattern_.code.get(), reinterpret_cast<PCRE2_SPTR>(valid_.data()),
                                valid_.size(), 0, PCRE2_NO_UTF_CHECK, match_->data.get(), nullptr);
  PHALANX_CHECK(count == 1, "PCRE2 match returned {}", count);
  const std::size_t length = pcre2_get_ovector_pointer(match_->data.get())[1];
  PHALANX_CHECK(length > 0 && length <= valid_.size(), "PCRE2 matched {} of {} bytes", length,
                valid_.size());
  const std::string_view word = valid_.substr(0, length);
  valid_.remove_prefix(length);
  return word;
}

}  // namespace phalanx
