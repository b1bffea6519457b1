#pragma once
// Numbers in texts, in the C locale.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace phalanx {

// Parses the whole text as a number, integers in decimal; nothing if it is no number or does not
// fit.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace phalanx
