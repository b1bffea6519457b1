#include "phalanx/chat_template/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

namespace phalanx::jinja {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t length = 1;
  bool is_valid = false;
};

// The character that a not empty text begins with (The Unicode Standard, table 3-7).
Character decoded(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {lead, 1, false};
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {lead, 1, false};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_valid =
      code >= kLeast[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return is_valid ? Character{code, length, true} : Character{lead, 1, false};
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Separators, controls, formats and private use, which repr() escapes. Characters that Unicode has
// not assigned print as they are here.
bool is_printable(char32_t c) {
  constexpr auto kHidden = std::to_array<std::pair<char32_t, char32_t>>(
      {{0, 0x1F},          {0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},
       {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x8E2, 0x8E2},
       {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},   {0x2028, 0x202F},
       {0x205F, 0x206F},   {0x3000, 0x3000},   {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},
       {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x1BCA0, 0x1BCA3},
       {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF}, {0xF0000, 0x10FFFF}});
  return std::ranges::none_of(
      kHidden, [&](const auto& range) { return c >= range.first && c <= range.second; });
}

bool has_character(std::string_view set, std::string_view character) {
  for (; !set.empty(); set.remove_prefix(first_character(set))) {
    if (set.substr(0, first_character(set)) == character) return true;
  }
  return false;
}

std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> parts;
  text.remove_prefix(leading_space(text));
  while (!text.empty()) {
    if (most >= 0 && std::ssize(parts) == most) {
      parts.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(decoded(text.substr(end)).code)) {
      end += first_character(text.substr(end));
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(leading_space(text));
  }
  return parts;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::size_t first_character(std::string_view text) { return decoded(text).length; }

std::size_t last_character(std::string_view text) {
  const std::size_t most = std::min<std::size_t>(4, text.size());
  for (std::size_t length = 2; length <= most; ++length) {
    const Character last = decoded(text.substr(text.size() - length));
    if (last.is_valid && last.length == length) return length;
  }
  return 1;
}

std::size_t count_of_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); text.remove_prefix(first_character(text))) ++count;
  return count;
}

bool is_valid_utf8(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(first_character(text))) {
    if (!decoded(text).is_valid) return false;
  }
  return true;
}

std::size_t leading_space(std::string_view text) {
  const std::size_t before = text.size();
  while (!text.empty() && is_space(decoded(text).code)) text.remove_prefix(first_character(text));
  return before - text.size();
}

std::size_t trailing_space(std::string_view text) {
  const std::size_t before = text.size();
  while (!text.empty()) {
    const std::size_t length = last_character(text);
    if (!is_space(decoded(text.substr(text.size() - length)).code)) break;
    text.remove_suffix(length);
  }
  return before - text.size();
}

std::string_view stripped(std::string_view text, std::optional<std::string_view> characters,
                          Side side) {
  if (!characters) {
    if (side != Side::kRight) text.remove_prefix(leading_space(text));
    if (side != Side::kLeft) text.remove_suffix(trailing_space(text));
    return text;
  }
  while (side != Side::kRight && !text.empty()) {
    const std::size_t length = first_character(text);
    if (!has_character(*characters, text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (side != Side::kLeft && !text.empty()) {
    const std::size_t length = last_character(text);
    if (!has_character(*characters, text.substr(text.size() - length))) break;
    text.remove_suffix(length);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t most) {
  if (separator.empty()) return split_at_space(text, most);
  std::vector<std::string_view> parts;
  while (most < 0 || std::ssize(parts) < most) {
    const std::size_t found = text.find(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view with,
                     std::int64_t most) {
  std::string out;
  std::int64_t count = 0;
  if (what.empty()) {  // between all characters, and at both ends
    for (; most < 0 || count < most; ++count) {
      out += with;
      if (text.empty()) return out;
      const std::size_t length = first_character(text);
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
    return out += text;
  }
  for (; most < 0 || count < most; ++count) {
    const std::size_t found = text.find(what);
    if (found == std::string_view::npos) break;
    out += text.substr(0, found);
    out += with;
    text.remove_prefix(found + what.size());
  }
  return out += text;
}

std::optional<std::string> in_case(std::string_view text, Casing casing) {
  std::string out(text);
  bool begins = true;  // what title and capitalize write large
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80) return std::nullopt;
    const bool large = casing == Casing::kUpper || (casing != Casing::kLower && begins);
    begins = casing == Casing::kTitle && !is_letter(c);
    c = large ? upper(c) : lower(c);
  }
  return out;
}

void append_repr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (; !text.empty(); text.remove_prefix(first_character(text))) {
    const auto [code, length, is_valid] = decoded(text);
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      out += text.substr(0, length);
    } else {
      const auto number = static_cast<unsigned>(code);
      if (code < 0x100) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", number);
      } else if (code < 0x10000) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", number);
      } else {
        fmt::format_to(std::back_inserter(out), "\\U{:08x}", number);
      }
    }
  }
  out += quote;
}

void append_repr(double number, std::string& out) {
  if (std::isnan(number)) {
    out += "nan";
    return;
  }
  if (std::isinf(number)) {
    out += number < 0 ? "-inf" : "inf";
    return;
  }
  std::array<char, 32> digits{};
  const auto shortest =
      std::to_chars(digits.begin(), digits.end(), number, std::chars_format::scientific);
  std::string_view written(digits.data(), static_cast<std::size_t>(shortest.ptr - digits.data()));
  const std::size_t e = written.find('e');
  int exponent = 0;
  const std::string_view power = written.substr(e + 1);
  std::from_chars(power.data() + (power[0] == '+' ? 1 : 0), power.data() + power.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += written;
    return;
  }
  if (written[0] == '-') {
    out += '-';
    written.remove_prefix(1);
  }
  std::string significant(written.substr(0, 1));
  if (const std::size_t end = written.find('e'); end > 1) significant += written.substr(2, end - 2);
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out += significant;
    return;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (significant.size() < whole + 1) significant.append(whole + 1 - significant.size(), '0');
  out.append(significant, 0, whole);
  out += '.';
  out.append(significant, whole);
}

void append_json(std::string_view text, bool as_ascii, std::string& out) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
  constexpr std::string_view kLetters = "\"\\nrtfb";
  const auto unit = [&](unsigned code) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
  };
  out += '"';
  for (; !text.empty(); text.remove_prefix(first_character(text))) {
    const auto [code, length, is_valid] = decoded(text);
    const auto number = static_cast<unsigned>(code);
    if (const auto at = kEscaped.find(text[0]); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (code >= 0x20 && (!as_ascii || code <= 0x7F)) {
      out += text.substr(0, length);
    } else if (code < 0x10000) {
      unit(number);
    } else {
      unit(0xD800 + ((number - 0x10000) >> 10U));
      unit(0xDC00 + ((number - 0x10000) & 0x3FFU));
    }
  }
  out += '"';
}

}  // namespace phalanx::jinja
