#pragma once
// Texts and numbers as HTML and SVG have them.

#include <string>
#include <string_view>

namespace phalanx {

// A text between tags or within an attribute's double quotes. Bytes that are not UTF-8 and control
// characters are replaced.
std::string escape_markup(std::string_view text);

// At most `decimals` of them, without trailing zeros.
std::string short_number(double value, int decimals);

// "1.25 M", "48 k", "0.0003", "3e-8": a few significant digits, for people.
std::string short_value(double value, int digits = 3);

// About how wide a text is in a sans-serif font of this size, in the unit of the size.
double text_width(std::string_view text, double font_size = 12.0);

}  // namespace phalanx
