#include "phalanx/chat_template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Line ends as \n, and without the last one.
std::string with_plain_line_ends(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void append_code_point(std::uint32_t code, std::string& out) {
  const auto part = [&](std::uint32_t bits) { out += static_cast<char>(bits); };
  if (code < 0x80) {
    part(code);
  } else if (code < 0x800) {
    part(0xC0U | code >> 6U);
    part(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    part(0xE0U | code >> 12U);
    part(0x80U | (code >> 6U & 0x3FU));
    part(0x80U | (code & 0x3FU));
  } else {
    part(0xF0U | code >> 18U);
    part(0x80U | (code >> 12U & 0x3FU));
    part(0x80U | (code >> 6U & 0x3FU));
    part(0x80U | (code & 0x3FU));
  }
}

class Lexer {
 public:
  Lexer(std::string_view source, const Place& place)
      : source_(with_plain_line_ends(source)), place_(place) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_until_tag();
    add(TokenKind::kEnd, "the end of the template");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
  }

  // The position of the next {{, {% or {#.
  std::size_t next_tag() const {
    std::size_t found = at_;
    while ((found = source_.find('{', found)) != std::string::npos) {
      if (found + 1 < source_.size() &&
          std::string_view("{%#").find(source_[found + 1]) != std::string_view::npos) {
        return found;
      }
      ++found;
    }
    return std::string::npos;
  }

  void read_until_tag() {
    const std::size_t tag = next_tag();
    if (tag == std::string::npos) {
      add(TokenKind::kText, std::string(rest()));
      advance(rest().size());
      return;
    }
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const std::size_t whole = text.size();
    const char what = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign == '-') {
      text.remove_suffix(trailing_space(text));
    } else if (sign != '+' && what != '{') {  // blanks before a block alone in its line
      const std::size_t line_end = text.rfind('\n');
      const std::size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
      if ((begin > 0 || line_begins_) && leading_space(text.substr(begin)) == text.size() - begin) {
        text = text.substr(0, begin);
      }
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(whole);
    const int begin_line = line_;
    const std::size_t begin_length = sign == '-' || sign == '+' ? 3 : 2;
    if (what == '#') return skip_comment(begin_length);
    add(what == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, what == '{' ? "{{" : "{%");
    advance(begin_length);
    if (what == '{') {
      read_tag("}}", TokenKind::kPrintEnd, false, begin_line);
    } else {
      read_tag("%}", TokenKind::kBlockEnd, true, begin_line);
    }
  }

  // What the end of a tag takes with it: `sign` is the character before.
  void finish_tag(std::size_t length, char sign, bool takes_line_end) {
    std::string_view behind = rest().substr(length);
    if (sign == '-') {
      length += leading_space(behind);
    } else if (sign != '+' && takes_line_end && behind.starts_with('\n')) {
      ++length;
    }
    line_begins_ = source_[at_ + length - 1] == '\n';
    advance(length);
  }

  void skip_comment(std::size_t begin_length) {
    const std::size_t end = source_.find("#}", at_ + begin_length);
    if (end == std::string::npos) place_.reject(line_, "a comment has no end, #}}");
    const char sign = end > at_ + begin_length ? source_[end - 1] : ' ';
    advance(end - at_);
    finish_tag(2, sign, true);
  }

  void read_tag(std::string_view end, TokenKind end_kind, bool is_block, int begin_line) {
    std::string open;  // the brackets that are not closed yet
    for (;;) {
      advance(leading_space(rest()));
      if (rest().empty()) place_.reject(begin_line, "a tag has no end, {}", end);
      if (open.empty()) {
        const char first = rest()[0];
        const bool has_sign = first == '-' || (first == '+' && is_block);
        if (rest().substr(has_sign ? 1 : 0).starts_with(end)) {
          add(end_kind, std::string(end));
          finish_tag(has_sign ? 3 : 2, has_sign ? first : ' ', is_block);
          return;
        }
      }
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char first = rest()[0];
    if (is_digit(first)) return read_number();
    if (begins_name(first)) {
      std::size_t length = 1;
      while (length < rest().size() && (begins_name(rest()[length]) || is_digit(rest()[length]))) {
        ++length;
      }
      add(TokenKind::kName, std::string(rest().substr(0, length)));
      return advance(length);
    }
    if (first == '\'' || first == '"') return read_string(first);
    constexpr auto kOperators = std::to_array<std::string_view>(
        {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"});
    const auto found = std::ranges::find_if(
        kOperators, [&](std::string_view written) { return rest().starts_with(written); });
    if (found == kOperators.end()) {
      place_.reject(line_, "{} belongs to nothing here",
                    quoted(rest().substr(0, first_character(rest()))));
    }
    match_brackets(found->front(), open);
    add(TokenKind::kOperator, std::string(*found));
    advance(found->size());
  }

  void match_brackets(char c, std::string& open) const {
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (open.empty()) place_.reject(line_, "'{}' closes nothing", c);
    if (open.back() != c) place_.reject(line_, "'{}' where '{}' is expected", c, open.back());
    open.pop_back();
  }

  static std::string quoted(std::string_view text) {
    std::string out;
    append_repr(text, out);
    return out;
  }

  // Digits with single _ between them.
  std::size_t digits_at(std::size_t begin) const {
    std::size_t end = begin;
    while (
        end < source_.size() &&
        (is_digit(source_[end]) || (source_[end] == '_' && end > begin && source_[end - 1] != '_' &&
                                    end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
    return end - begin;
  }

  void read_number() {
    std::size_t length = digits_at(at_);
    bool is_real = false;
    const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';  // x.0.5 are two subscripts
    if (!behind_dot) {
      if (at_ + length < source_.size() && source_[at_ + length] == '.') {
        if (const std::size_t more = digits_at(at_ + length + 1); more > 0) {
          length += more + 1;
          is_real = true;
        }
      }
      std::size_t exponent = at_ + length;
      if (exponent < source_.size() && (source_[exponent] == 'e' || source_[exponent] == 'E')) {
        ++exponent;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
          ++exponent;
        }
        if (const std::size_t more = digits_at(exponent); more > 0) {
          length = exponent + more - at_;
          is_real = true;
        }
      }
    }
    std::string written(rest().substr(0, length));
    const std::string_view behind = rest().substr(length);
    if (!behind.empty() && begins_name(behind[0])) {
      place_.refuse(line_, "a number like {}{} is not supported", written, behind[0]);
    }
    std::erase(written, '_');
    add(is_real ? TokenKind::kFloat : TokenKind::kInteger, written);
    Token& token = tokens_.back();
    if (is_real) {
      std::from_chars(written.data(), written.data() + written.size(), token.real);
    } else {
      const auto read =
          std::from_chars(written.data(), written.data() + written.size(), token.integer);
      if (read.ec != std::errc()) place_.refuse(line_, "{} has more than 64 bits", written);
      if (written.size() > 1 && written[0] == '0' && token.integer != 0) {
        place_.reject(line_, "{}: a number begins with 0", written);
      }
    }
    advance(length);
  }

  void read_string(char quote) {
    const int begin_line = line_;
    std::string value;
    std::size_t i = 1;
    const std::string_view text = rest();
    while (i < text.size() && text[i] != quote) {
      if (text[i] != '\\') {
        value += text[i++];
        continue;
      }
      if (i + 1 >= text.size()) break;
      i += 2 + read_escape(text.substr(i + 1), value);
    }
    if (i >= text.size()) place_.reject(begin_line, "a text has no end, {}", quote);
    add(TokenKind::kString, std::move(value));
    advance(i + 1);
  }

  // Appends what the escape whose letter `text` begins with stands for; the bytes it takes behind.
  std::size_t read_escape(std::string_view text, std::string& value) const {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char letter = text[0];
    if (letter == '\n') return 0;
    if (const auto at = kLetters.find(letter); at != std::string_view::npos) {
      value += kMeanings[at];
      return 0;
    }
    if (letter >= '0' && letter <= '7') {
      std::size_t length = 1;
      while (length < 3 && length < text.size() && text[length] >= '0' && text[length] <= '7') {
        ++length;
      }
      append_code_point(
          static_cast<std::uint32_t>(std::stoul(std::string(text.substr(0, length)), nullptr, 8)),
          value);
      return length - 1;
    }
    if (letter == 'N') place_.refuse(line_, "\\N in a text is not supported");
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) {  // no escape
      value += '\\';
      value += letter;
      // The rest of a character of several bytes is read as text.
      return 0;
    }
    std::uint32_t code = 0;
    const std::string_view number = text.substr(1, digits);
    const auto read = std::from_chars(number.data(), number.data() + number.size(), code, 16);
    const bool is_whole = number.size() == digits && read.ec == std::errc() &&
                          read.ptr == number.data() + number.size();
    if (!is_whole || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      place_.reject(line_, "\\{} in a text is followed by no number of a character", letter);
    }
    append_code_point(code, value);
    return digits;
  }

  std::string source_;
  const Place& place_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;  // the last tag took a line end with it
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, const Place& place) {
  return Lexer(source, place).run();
}

}  // namespace phalanx::jinja
