#include "phalanx/tokenizer/patterns.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

struct NamedPattern {
  std::string_view name;
  // As tiktoken has it, where \s is White_Space and $ the end of the text.
  std::string_view pattern;
};

#define PHALANX_A R"([^\r\n\p{L}\p{N}])"
#define PHALANX_U R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define PHALANX_W R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define PHALANX_SUFFIX R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
#define PHALANX_LLAMA3(digits)                                       \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" digits \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"

constexpr std::array kNamedPatterns = {
    NamedPattern{"gpt2",
                 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    NamedPattern{"cl100k", R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+)"
                           R"(| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    NamedPattern{"o200k",
                 PHALANX_A "?" PHALANX_U "*" PHALANX_W "+" PHALANX_SUFFIX "|" PHALANX_A
                           "?" PHALANX_U "+" PHALANX_W "*" PHALANX_SUFFIX
                           R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    NamedPattern{"llama3", PHALANX_LLAMA3(R"(\p{N}{1,3})")},
    NamedPattern{"qwen2", PHALANX_LLAMA3(R"(\p{N})")},
    NamedPattern{"v1", R"([^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
                       R"(|\s*[\r\n]|\s+(?!\S)|\s+)"},
    NamedPattern{"v2", PHALANX_A "?" PHALANX_U "*" PHALANX_W "+"
                                 "|" PHALANX_A "?" PHALANX_U "+" PHALANX_W "*"
                                 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

#undef PHALANX_A
#undef PHALANX_U
#undef PHALANX_W
#undef PHALANX_SUFFIX
#undef PHALANX_LLAMA3

constexpr auto kNames = [] {
  std::array<std::string_view, kNamedPatterns.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kNamedPatterns[i].name;
  return names;
}();

// The members of a set, between [ and ].
constexpr std::string_view kWhiteSpaceSet =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of [ and ] Oniguruma looks the first 256 characters up in a table of its own, where the
// superior digits and the fractions are of words too.
constexpr std::string_view kBareWordSet =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexDigitSet = "0-9a-fA-F";

std::string pattern_of_tiktoken(std::string_view pattern) {
  std::string out;
  bool in_set = false;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c == '\\') {
      const char escaped = pattern.at(++at);
      if (escaped == 's') {
        out += in_set ? std::string(kWhiteSpaceSet) : fmt::format("[{}]", kWhiteSpaceSet);
      } else if (escaped == 'S') {
        PHALANX_CHECK(!in_set, "\\S inside a set of {}", pattern);
        out += fmt::format("[^{}]", kWhiteSpaceSet);
      } else {
        out += {c, escaped};
      }
      continue;
    }
    if (c == '[') in_set = true;
    if (c == ']') in_set = false;
    if (c == '$' && !in_set) {
      out += R"(\z)";
    } else {
      out += c;
    }
  }
  return out;
}

bool compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// One pass over the pattern. It copies what both engines read alike, rewrites what they do not, and
// refuses the rest.
class OnigurumaTranslator {
 public:
  OnigurumaTranslator(std::string_view pattern, std::string_view place)
      : in_(pattern), place_(place) {}

  std::string translate() {
    while (at_ < in_.size()) step();
    if (!groups_.empty()) reject("a group without its end", in_.size());
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kNoAtom = std::string::npos;

  [[noreturn]] void reject(std::string_view what, std::size_t at) const {
    throw ConfigError("{}: {} at byte {} of the pattern {} is not supported", place_, what, at,
                      in_.substr(0, 200));
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }

  // An atom, or an assertion, which may not be repeated.
  void put_atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }
  void put_assertion(std::string_view text) {
    atom_ = kNoAtom;
    out_ += text;
  }

  void step() {
    const char c = in_[at_];
    switch (c) {
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '[':
        return set();
      case '\\':
        return escape();
      case '{':
        return brace();
      case '*':
      case '+':
      case '?':
        return quantifier();
      case '|':
        ++at_;
        return put_assertion("|");
      case '^':
        ++at_;
        return put_assertion(R"((?:\A|(?<=\n)(?!\z)))");
      case '$':
        ++at_;
        return put_assertion(R"((?=\n|\z))");
      default:
        return literal();
    }
  }

  // A whole character, so that what repeats it begins before it.
  void literal() {
    std::size_t length = 1;
    while ((static_cast<unsigned char>(peek(length)) & 0xc0U) == 0x80U) ++length;
    put_atom(in_.substr(at_, length));
    at_ += length;
  }

  void quantifier() {
    if (atom_ == kNoAtom) reject("a repetition of nothing", at_);
    out_ += in_[at_++];
    // A second sign makes it lazy or possessive, in both engines.
    if (peek() == '?' || peek() == '+') out_ += in_[at_++];
    if (peek() == '*' || peek() == '+' || peek() == '?') reject("a repeated repetition", at_);
    if (interval_at(at_) != 0) reject("a repeated repetition", at_);
  }

  // The length of {n}, {n,}, {,m} or {n,m} at this place; 0 where the brace is a character.
  std::size_t interval_at(std::size_t at) const {
    std::size_t end = at;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return end != begin;
    };
    if (end >= in_.size() || in_[end] != '{') return 0;
    ++end;
    bool any = digits();
    if (end < in_.size() && in_[end] == ',') {
      ++end;
      any = digits() || any;
    }
    return any && end < in_.size() && in_[end] == '}' ? end + 1 - at : 0;
  }

  void brace() {
    const std::size_t length = interval_at(at_);
    if (length == 0) {
      put_atom(R"(\{)");
      ++at_;
      return;
    }
    if (atom_ == kNoAtom) reject("a repetition of nothing", at_);
    const std::string_view interval = in_.substr(at_, length);
    at_ += length;
    out_ += interval[1] == ',' ? fmt::format("{{0{}", interval.substr(1)) : std::string(interval);
    const bool exact = interval.find(',') == std::string_view::npos;
    if (peek() == '?' && !exact) {  // lazy
      out_ += in_[at_++];
      if (peek() == '?' || peek() == '+' || peek() == '*') reject("a repeated repetition", at_);
      if (interval_at(at_) != 0) reject("a repeated repetition", at_);
      return;
    }
    // Whatever else follows repeats the interval as a whole.
    if (peek() == '?' || peek() == '+' || peek() == '*' || interval_at(at_) != 0) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
  }

  void open_group() {
    for (const std::string_view start : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (next_is(start)) return push_group(start);
    }
    if (next_is("(?i:") || next_is("(?-i:"))
      return push_group(in_.substr(at_, in_.find(':', at_) + 1 - at_));
    if (next_is("(?i)")) {
      // Elsewhere Oniguruma makes a group of all that follows, alternatives too.
      if (at_ != 0) reject("(?i) behind the start", at_);
      at_ += 4;
      return put_assertion("(?i)");
    }
    if (peek(1) == '?') reject(fmt::format("'{}'", in_.substr(at_, 4)), at_);
    if (peek(1) == '*') reject("'(*'", at_);
    push_group("(");
  }
  void push_group(std::string_view start) {
    constexpr std::size_t kDeepest = 100;
    if (groups_.size() == kDeepest) reject("a group this deep", at_);
    groups_.push_back(out_.size());
    at_ += start.size();
    out_ += start;
    atom_ = kNoAtom;
  }
  void close_group() {
    if (groups_.empty()) reject("')' without its beginning", at_);
    ++at_;
    out_ += ')';
    atom_ = groups_.back();
    groups_.pop_back();
  }

  // Behind the backslash: \p{...} and \P{...}, \xHH, \x{H...}, \uHHHH. The same in and out of sets.
  // Returns nothing for another escape.
  std::string common_escape() {
    const std::size_t begin = at_;
    const char c = peek(1);
    if (c == 'p' || c == 'P') {
      const std::size_t end = in_.find('}', at_);
      if (peek(2) != '{' || end == std::string_view::npos) reject("a property without {name}", at_);
      const std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
      at_ = end + 1;
      return property(c, name, begin);
    }
    if (c == 'x' && peek(2) == '{') {
      const std::size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) reject("an escape", at_);
      const std::string_view digits = in_.substr(at_ + 3, end - at_ - 3);
      if (digits.empty() || !std::ranges::all_of(digits, is_hex_digit)) reject("an escape", at_);
      at_ = end + 1;
      return fmt::format("\\x{{{}}}", digits);
    }
    if (c == 'x' || c == 'u') {
      const std::size_t count = c == 'x' ? 2 : 4;
      const std::string_view digits = in_.substr(std::min(at_ + 2, in_.size()), count);
      if (digits.size() != count || !std::ranges::all_of(digits, is_hex_digit)) {
        reject("an escape", at_);
      }
      // \x80 and above are bytes there, not characters.
      if (c == 'x' && digits[0] > '7') reject("a byte that is no character", at_);
      at_ += 2 + count;
      return fmt::format("\\x{{{}}}", digits);
    }
    at_ += 2;
    if (c == 'v') return R"(\x0b)";
    if (c == 'n' || c == 'r' || c == 't' || c == 'f' || c == 'a' || c == 'e') return {'\\', c};
    // Escaped digits and letters have a meaning; other signs stand for themselves.
    if (c > ' ' && c < 0x7f && !is_digit(c) && !is_letter(c)) return {'\\', c};
    at_ = begin;
    return {};
  }

  // PCRE2 reads the bare name of a script as its extensions; Oniguruma means the script.
  std::string property(char c, std::string_view name, std::size_t at) const {
    const bool negated = name.starts_with('^');
    const std::string_view plain = name.substr(negated ? 1 : 0);
    const bool well_formed = !plain.empty() && std::ranges::all_of(plain, [](char letter) {
      return is_letter(letter) || is_digit(letter) || letter == '_' || letter == '-' ||
             letter == ' ';
    });
    for (const std::string_view kind : {"sc:", ""}) {
      std::string text = fmt::format("\\{}{{{}{}{}}}", c, negated ? "^" : "", kind, plain);
      if (well_formed && compiles(text)) return text;
    }
    reject(fmt::format("the property '{}'", name.substr(0, 40)), at);
  }

  // The set that \s, \w, \h or \d (or its capital, the complement) stands for.
  static std::string_view set_of(char c) {
    switch (c | 0x20) {
      case 's':
        return kWhiteSpaceSet;
      case 'w':
        return kWordSet;
      case 'h':
        return kHexDigitSet;
      case 'd':
        return R"(\p{Nd})";
      default:
        return {};
    }
  }

  void escape() {
    if (at_ + 1 == in_.size()) reject("a backslash at the end", at_);
    const char c = peek(1);
    if (const auto set = set_of(c); is_letter(c) && !set.empty()) {
      const auto bare = set == kWordSet ? kBareWordSet : set;
      put_atom(fmt::format("[{}{}]", c < 'a' ? "^" : "", bare));
      at_ += 2;
      return;
    }
    if (c == 'b' || c == 'B') {
      at_ += 2;
      const std::string in_word =
          fmt::format("(?<=[{0}])(?{1}[{0}])", kBareWordSet, c == 'b' ? '!' : '=');
      const std::string out_of_word =
          fmt::format("(?<![{0}])(?{1}[{0}])", kBareWordSet, c == 'b' ? '=' : '!');
      return put_assertion(fmt::format("(?:{}|{})", in_word, out_of_word));
    }
    if (c == 'A' || c == 'z' || c == 'Z') {
      at_ += 2;
      return put_assertion({std::array{'\\', c}.data(), 2});
    }
    const std::string same = common_escape();
    if (same.empty()) reject(fmt::format("'\\{}'", c), at_);
    put_atom(same);
  }

  void set() {
    const std::size_t begin = at_++;
    std::string text = "[";
    if (peek() == '^') {
      text += '^';
      ++at_;
    }
    if (peek() == ']') reject("an empty set", begin);
    while (peek() != ']') {
      if (at_ >= in_.size()) reject("a set without its end", begin);
      if (peek() == '[') reject(peek(1) == ':' ? "[:name:]" : "a set inside a set", at_);
      if (next_is("&&")) reject("&&", at_);
      if (peek() != '\\') {
        text += in_[at_++];
        continue;
      }
      const char c = peek(1);
      if (const auto inner = set_of(c); is_letter(c) && !inner.empty()) {
        // The complement is no list; White_Space is a property that can be negated.
        if (c < 'a' && c != 'S' && c != 'D') reject(fmt::format("'\\{}' inside a set", c), at_);
        text += c == 'S' ? R"(\P{White_Space})" : c == 'D' ? R"(\P{Nd})" : inner;
        at_ += 2;
        continue;
      }
      const std::string same = common_escape();
      if (same.empty()) reject(fmt::format("'\\{}' inside a set", c), at_);
      text += same;
    }
    ++at_;
    put_atom(text + "]");
  }

  std::string_view in_;
  std::string_view place_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = kNoAtom;       // where the last atom begins in out_
  std::vector<std::size_t> groups_;  // where the open ones begin in out_
};

}  // namespace

std::span<const std::string_view> pattern_names() { return kNames; }

std::string pattern_named(std::string_view name) {
  const auto* const found = std::ranges::find(kNamedPatterns, name, &NamedPattern::name);
  if (found == kNamedPatterns.end()) {
    throw ConfigError("pattern '{}' is not one of {}", name, fmt::join(kNames, " "));
  }
  return pattern_of_tiktoken(found->pattern);
}

std::string pattern_of_oniguruma(std::string_view pattern, std::string_view place) {
  return OnigurumaTranslator(pattern, place).translate();
}

}  // namespace phalanx
