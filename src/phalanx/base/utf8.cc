#include "phalanx/base/utf8.h"

#include <fmt/core.h>

#include <bit>

namespace phalanx {
namespace {

// The lowest code that needs so many bytes, by the number of bytes.
constexpr char32_t kLeastCode[] = {0, 0, 0x80, 0x800, 0x10000};
constexpr char32_t kMostCode = 0x10ffff;

bool is_surrogate(char32_t code) { return code >= 0xd800 && code <= 0xdfff; }

}  // namespace

std::optional<Utf8Character> utf8_character(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return Utf8Character{first, 1};
  const int bytes = std::countl_one(first);
  if (bytes < 2 || bytes > 4 || text.size() - at < static_cast<std::size_t>(bytes)) return {};
  char32_t code = first & (0x7fU >> bytes);
  for (int i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte & 0x3fU);
  }
  if (code < kLeastCode[bytes] || code > kMostCode || is_surrogate(code)) return {};
  return Utf8Character{code, static_cast<std::size_t>(bytes)};
}

std::optional<std::size_t> first_foreign_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    if (!character) return at;
    at += character->bytes;
  }
  return std::nullopt;
}

std::string with_foreign_bytes_named(std::string_view text) {
  std::string named;
  while (const auto foreign = first_foreign_byte(text)) {
    named += text.substr(0, *foreign);
    named += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[*foreign]));
    text.remove_prefix(*foreign + 1);
  }
  return named += text;
}

bool is_printable(char32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  const bool is_control = code >= 0x7f && code <= 0x9f && code != 0x85;  // 0x85 ends a line
  return !is_control && code != 0xfffe && code != 0xffff;
}

}  // namespace phalanx
