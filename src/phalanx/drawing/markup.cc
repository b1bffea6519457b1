#include "phalanx/drawing/markup.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace phalanx {
namespace {

bool continues_letter(char byte) { return (byte & 0xC0) == 0x80; }

// How many bytes the valid UTF-8 letter has with which the text begins; 0: there is none.
std::size_t letter_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues_letter(text[i])) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return size;
}

std::string without_trailing_zeros(std::string text) {
  const auto exponent = std::min(text.find('e'), text.size());
  const std::string tail = text.substr(exponent);
  text.resize(exponent);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + tail;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string escaped;
  while (!text.empty()) {
    const std::size_t size = letter_bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool is_control = (byte < 0x20 && text[0] != '\n' && text[0] != '\t') || byte == 0x7F;
    if (size == 0 || is_control) {
      escaped += kReplacement;
    } else if (text[0] == '&') {
      escaped += "&amp;";
    } else if (text[0] == '<') {
      escaped += "&lt;";
    } else if (text[0] == '>') {
      escaped += "&gt;";
    } else if (text[0] == '"') {
      escaped += "&quot;";
    } else {
      escaped += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return escaped;
}

std::string short_number(double value, int decimals) {
  const std::string text = without_trailing_zeros(fmt::format("{:.{}f}", value, decimals));
  return text == "-0" ? "0" : text;
}

std::string short_value(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const double size = std::abs(value);
  struct Unit {
    double size;
    const char* name;
  };
  static constexpr std::array<Unit, 5> kUnits = {
      {{1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  if (size >= 1e4 && size < 1e18) {
    for (const Unit& unit : kUnits) {
      // What rounds to a thousand of a unit is one of the next.
      if (size < unit.size * (1 - 0.5 * std::pow(10.0, -digits))) continue;
      const double in_units = value / unit.size;
      const int whole =
          std::max(1, static_cast<int>(std::floor(std::log10(std::abs(in_units)))) + 1);
      return short_number(in_units, std::max(0, digits - whole)) + unit.name;
    }
  }
  if (size >= 1e18 || size < 1e-3) {
    const std::string text = without_trailing_zeros(fmt::format("{:.{}e}", value, digits - 1));
    // 3e-04 is 3e-4.
    const auto mark = text.find('e');
    return fmt::format("{}e{}", text.substr(0, mark), std::atoi(text.c_str() + mark + 1));
  }
  const int whole = static_cast<int>(std::floor(std::log10(size))) + 1;
  return short_number(value, std::max(0, digits - whole));
}

double text_width(std::string_view text, double font_size) {
  constexpr double kMeanWidth = 0.58;  // of a letter, of the font's size
  return kMeanWidth * font_size * static_cast<double>(std::ranges::count_if(text, [](char byte) {
           return !continues_letter(byte);
         }));
}

}  // namespace phalanx
