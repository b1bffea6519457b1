#include "phalanx/flags/utf8.h"

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

bool is_printable(char32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  const bool is_control = code >= 0x7f && code <= 0x9f && code != 0x85;  // 0x85 ends a line
  return !is_control && code != 0xfffe && code != 0xffff;
}

}  // namespace phalanx
